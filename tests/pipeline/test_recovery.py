"""Restarts after soft crashes in this process: what is replayed, what is refused, what is never written twice."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward import crashpoints
from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, HomeInUse, HomeMismatch, LedgerCorrupt, MarkerMissing, ReplayDiverged
from support.home import checkpoint_of
from support.judge import Kafka
from support.runs import crash, run
from support.waiting import eventually

WAYS = pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])
Build = Callable[..., ow.Pipeline]


@pytest.fixture
def topics(kafka: Kafka) -> tuple[str, str]:
    return kafka.topic(3), kafka.topic(3)


@pytest.fixture
def build(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]) -> Build:
    """A running count per key; `rows` may be replaced, to make it non-deterministic."""
    source, target = topics

    def make(rows: str = "cast(count as string)", small: int = 10 << 20, **options: object) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        pipeline = ow.Pipeline(
            name,
            home=tmp_path / "home",
            source=events.groupBy("key").count(),
            output_mode="update",
            **options,  # type: ignore[arg-type]
        )

        def columns(batch: DataFrame) -> DataFrame:
            return batch.selectExpr("key", f"{rows} as value")

        return pipeline.to(ow.KafkaSink(kafka.bootstrap, topic=target, small_epoch_bytes=small), rows=columns)

    return make


@WAYS
@pytest.mark.parametrize("point", ["begun", "written", "marked", "decided", "recorded"])
def test_a_crash_at_each_step_changes_nothing_for_readers(
    kafka: Kafka, topics: tuple[str, str], build: Build, crash_at: Callable[[str | None], None], small: int, point: str
) -> None:
    """B4 before the decision, B5 after it: either redone or known to be out."""
    kafka.feed(topics[0], [("a", "1"), ("b", "2"), ("a", "3")])
    crash_at(point)
    crash(build(small=small))
    out = point in {"decided", "recorded"}
    assert sorted(kafka.values(topics[1])) == (["1", "2"] if out else [])
    crash_at(None)
    query = run(build(small=small))
    assert query.epochs_committed == (0 if out else 1)
    assert sorted(kafka.values(topics[1])) == ["1", "2"]
    kafka.feed(topics[0], [("a", "4")])
    run(build(small=small))
    assert sorted(kafka.values(topics[1])) == ["1", "2", "3"]


@WAYS
def test_a_replay_over_many_rows_is_recognised(
    kafka: Kafka, topics: tuple[str, str], build: Build, crash_at: Callable[[str | None], None], small: int
) -> None:
    """Every task has rows of every partition; the digests add up to the same all the same."""
    kafka.feed(topics[0], ((f"k{i}", str(i)) for i in range(500)))
    crash_at("decided")
    crash(build(small=small))
    crash_at(None)
    assert run(build(small=small)).epochs_committed == 0
    assert kafka.values(topics[1]) == ["1"] * 500


def test_readers_of_committed_records_never_see_an_open_epoch_and_others_do(
    kafka: Kafka,
    topics: tuple[str, str],
    build: Build,
    crash_at: Callable[[str | None], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A6: both isolation levels, side by side, while the epoch is open."""
    kafka.feed(topics[0], [("a", "1"), ("b", "2")])
    seen: dict[str, list[str]] = {}

    def look(reached: str, epoch: int | None = None) -> None:
        if reached == "marked":
            seen.update({level: kafka.values(topics[1], level) for level in ("read_committed", "read_uncommitted")})

    monkeypatch.setattr(crashpoints, "reach", look)
    run(build())
    assert seen == {"read_committed": [], "read_uncommitted": ["1", "1"]}
    assert kafka.values(topics[1]) == ["1", "1"]


@WAYS
def test_a_replay_that_differs_is_reported_with_epoch_and_partition(
    kafka: Kafka, topics: tuple[str, str], build: Build, crash_at: Callable[[str | None], None], small: int, name: str
) -> None:
    """G4: a query that is not deterministic is noticed by digest, not by luck."""
    kafka.feed(topics[0], [("a", "1")])
    crash_at("decided")
    crash(build("concat(cast(count as string), '-', uuid())", small))
    crash_at(None)
    with pytest.raises(ReplayDiverged, match=rf"'{name}', epoch 0 .*{topics[1]}-\d: 1 rows.*decimals"):
        run(build("concat(cast(count as string), '-', uuid())", small))
    run(build("concat(cast(count as string), '-', uuid())", small, on_replay_divergence="warn"))
    assert len(kafka.values(topics[1])) == 1


def test_epochs_whose_commit_log_was_lost_are_replayed_and_not_written(
    kafka: Kafka, topics: tuple[str, str], build: Build, tmp_path: Path
) -> None:
    """Spark does not sync its commit log: a power cut may lose the last epochs of it."""
    for number in range(3):
        kafka.feed(topics[0], [("a", str(number))])
        run(build())
    for number in (1, 2):
        (checkpoint_of(tmp_path / "home") / "commits" / str(number)).unlink()
    kafka.feed(topics[0], [("a", "x")])
    run(build())
    assert kafka.values(topics[1]) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "to-be-replayed"])
def test_positions_that_were_altered_under_a_committed_epoch_are_put_back(
    kafka: Kafka, topics: tuple[str, str], build: Build, tmp_path: Path, finished: bool
) -> None:
    """E9: Spark would go on from whatever its log says; the ledger knows where the epoch ended."""
    for number in range(2):
        kafka.feed(topics[0], [("a", str(number))])
        run(build())
    checkpoint = checkpoint_of(tmp_path / "home")
    if not finished:
        (checkpoint / "commits" / "1").unlink()
    entry = checkpoint / "offsets" / "1"
    first = (checkpoint / "offsets" / "0").read_text().splitlines()
    lines = entry.read_text().splitlines()
    entry.write_text("\n".join([*lines[:2], *first[2:]]))
    told: list[str] = []
    run(build(), report=told.append)
    assert any("offsets/1 said" in line and "put back from the ledger" in line for line in told)
    assert kafka.values(topics[1]) == ["1", "2"]
    kafka.feed(topics[0], [("a", "x")])
    run(build())
    assert kafka.values(topics[1]) == ["1", "2", "3"]


def test_a_missing_marker_is_explained_and_can_be_overruled(
    kafka: Kafka, topics: tuple[str, str], build: Build, name: str
) -> None:
    """Trap 6: offsets of an idle group expire; that must not mean "start from zero"."""
    from confluent_kafka.admin import AdminClient

    kafka.feed(topics[0], [("a", "1")])
    run(build())
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_consumer_groups([name])[name].result(30)
    kafka.feed(topics[0], [("a", "2")])
    with pytest.raises(MarkerMissing, match=r"--trust-ledger kafka.*offsets\.retention\.minutes"):
        run(build())
    run(build(), trust_ledger="kafka")
    assert kafka.values(topics[1]) == ["1", "2"]
    kafka.feed(topics[0], [("a", "3")])
    run(build())
    assert kafka.values(topics[1]) == ["1", "2", "3"]


def test_a_damaged_ledger_entry_is_named(kafka: Kafka, topics: tuple[str, str], build: Build, tmp_path: Path) -> None:
    """E9."""
    kafka.feed(topics[0], [("a", "1")])
    run(build())
    (entry,) = (tmp_path / "home" / "ledger").iterdir()
    data = bytearray(entry.read_bytes())
    data[40] ^= 1
    entry.write_bytes(data)
    with pytest.raises(LedgerCorrupt, match=entry.name):
        run(build())


def test_a_failed_query_lets_go_of_its_home_though_nobody_looked(
    kafka: Kafka, topics: tuple[str, str], build: Build, crash_at: Callable[[str | None], None]
) -> None:
    """As in a notebook: the cell failed, and is run again."""
    kafka.feed(topics[0], [("a", "1")])
    crash_at("written")
    failed = build().start()
    eventually(lambda: not failed.is_active, "the query has failed")
    crash_at(None)
    run(build())
    assert kafka.values(topics[1]) == ["1"]


def test_a_marker_that_kafka_refuses_stops_the_pipeline_with_the_reason(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place of the marker is gone: aborted, named, nothing visible."""
    target = kafka.topic(1)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one")
    lines = spark.readStream.format("text").load(str(tmp_path / "in"))
    sink = ow.KafkaSink(kafka.bootstrap, topic=target)
    monkeypatch.setattr(sink, "marker_places", lambda *_: {TopicPartition("no-such-topic", 0): 0})
    with pytest.raises(BrokerRefused, match=r"no-such-topic.*UNKNOWN_TOPIC_OR_PARTITION.*nothing of it is visible"):
        run(ow.Pipeline(name, home=tmp_path / "home", source=lines).to(sink))
    assert kafka.values(target) == []


def test_a_second_pipeline_object_on_a_living_home_is_refused(
    kafka: Kafka, topics: tuple[str, str], build: Build
) -> None:
    kafka.feed(topics[0], [("a", "1")])
    with build().start() as query:
        query.process_all_available()
        with pytest.raises(HomeInUse, match="--take-over"):
            build().start()
        kafka.feed(topics[0], [("a", "2")])
        query.process_all_available()
    assert kafka.values(topics[1]) == ["1", "2"]


def test_a_stranger_who_writes_into_sparks_log_is_named(
    kafka: Kafka, topics: tuple[str, str], build: Build, tmp_path: Path
) -> None:
    """J6: no driver of ours shares its folder with another, so it is somebody who uses the checkpoint directly."""
    kafka.feed(topics[0], [("a", "1")])
    query = build().start()
    query.process_all_available()
    planned = checkpoint_of(tmp_path / "home") / "offsets"
    (planned / "1").write_bytes((planned / "0").read_bytes())  # as another query would plan it
    kafka.feed(topics[0], [("a", "2")])
    with pytest.raises(HomeMismatch, match="another Spark query writes into"):
        query.wait(120)
    assert kafka.values(topics[1]) == ["1"]


def test_a_stranger_who_writes_into_sparks_log_in_the_same_moment_is_named_too(
    kafka: Kafka, topics: tuple[str, str], build: Build, tmp_path: Path
) -> None:
    """J6: Spark looks, writes beside, looks again and renames; who came in between it calls by another name."""
    query = build().start()
    with ThreadPoolExecutor(1) as beside:
        taken = beside.submit(_take_the_entry_that_is_being_written, checkpoint_of(tmp_path / "home") / "offsets")
        while not taken.done():
            kafka.feed(topics[0], [("a", "1")])
    with pytest.raises(HomeMismatch, match="another Spark query writes into"):
        query.wait(120)
    counts = [int(value) for value in kafka.values(topics[1])]
    assert counts == sorted(set(counts))


def _take_the_entry_that_is_being_written(log: Path) -> None:
    """Be quicker than Spark's rename, sooner or later."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for file in log.glob(".*.tmp"):
            with suppress(FileExistsError):
                (log / file.name.split(".")[1]).touch(exist_ok=False)
                return


def test_a_task_that_fails_once_poisons_the_transaction_and_the_epoch_is_redone(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]
) -> None:
    """Traps 1 and 14: Spark would repeat the task inside the same transaction; the second attempt refuses to write."""
    flag = tmp_path / "failed-once"

    def rows(batch: DataFrame) -> DataFrame:
        def stumble(parts):  # type: ignore[no-untyped-def]
            for part in parts:
                if not flag.exists():
                    flag.touch()
                    raise RuntimeError("a task stumbles")
                yield part

        return batch.select("value").mapInArrow(stumble, "value binary")

    kafka.feed(topics[0], ((f"k{i}", str(i)) for i in range(300)))
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]])
    sink = ow.KafkaSink(kafka.bootstrap, topic=topics[1], small_epoch_bytes=0)
    query = run(ow.Pipeline(name, home=tmp_path / "home", source=events).to(sink, rows=rows))
    assert query.epochs[0].attempts == 2
    assert sorted(map(int, kafka.values(topics[1]))) == list(range(300))


def test_a_stop_finishes_the_epoch_in_hand(kafka: Kafka, topics: tuple[str, str], build: Build, tmp_path: Path) -> None:
    query = build().start()
    kafka.feed(topics[0], [("a", "1")])
    eventually(lambda: not query._runner.idle.is_set() or query.epochs, "an epoch has begun")
    query.stop()
    committed = query.epochs[-1].epoch
    assert (checkpoint_of(tmp_path / "home") / "commits" / str(committed)).exists()
    query.stop()  # harmless
    kafka.feed(topics[0], [("a", "2")])
    run(build())
    assert [int(value) for value in kafka.values(topics[1])][-1] == 2
