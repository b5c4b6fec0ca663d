# ruff: noqa: ARG002 - a sink's methods take what the contract says
"""Several sinks in one epoch: one decision for all, whatever crashes between which steps (soft, in one process)."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.epoch.home import Home
from onceward.epoch.sealed import seal
from onceward.epoch.term import newest_holder
from onceward.errors import (
    CommitUnfinished,
    ConfigurationError,
    HomeMismatch,
    LedgerCorrupt,
    MarkerMissing,
    PipelineFenced,
    SinkNotTransactional,
    TargetUnusable,
)
from onceward.pipeline import opening
from support.judge import Kafka
from support.waiting import eventually


class Unwell(Exception):
    """A sink that is not there for a while."""


class Table(ow.TwoPhaseCommitSink):
    """A sink of one's own: rows in SQLite, staged in one table, moved to another. It can be told to fail."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)
        self.failing: dict[str, int] = {}
        self.asked: list[str] = []
        with self.connect() as database:
            database.execute("CREATE TABLE IF NOT EXISTS staged (epoch INT, value TEXT)")
            database.execute("CREATE TABLE IF NOT EXISTS target (epoch INT, value TEXT)")
            database.execute("CREATE TABLE IF NOT EXISTS marker (lineage TEXT, epoch INT, term INT)")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file)

    def values(self) -> list[str]:
        with self.connect() as database:
            return [value for (value,) in database.execute("SELECT value FROM target ORDER BY value")]

    def staged(self) -> list[str]:
        with self.connect() as database:
            return [value for (value,) in database.execute("SELECT value FROM staged ORDER BY value")]

    def step(self, name: str) -> None:
        self.asked.append(name)
        if self.failing.get(name, 0) > 0:
            self.failing[name] -= 1
            raise Unwell(f"{name} fails")

    def last_commit(self) -> ow.LastCommit | None:
        with self.connect() as database:
            found = database.execute("SELECT lineage, epoch, term FROM marker").fetchone()
        return ow.LastCommit(lineage=found[0], epoch=found[1], term=found[2]) if found else None

    def begin(self, context: ow.EpochContext) -> None:
        self.step("begin")

    def write(self, context: ow.EpochContext, rows: DataFrame) -> None:
        self.step("write")
        with self.connect() as database:
            values = [(context.epoch, row.value.decode() if row.value else None) for row in rows.collect()]
            database.executemany("INSERT INTO staged VALUES (?, ?)", values)

    def pre_commit(self, context: ow.EpochContext, outcome: ow.Outcome) -> Mapping[str, Any]:
        self.step("pre_commit")
        return {"version": 1, "rows": outcome.rows}

    def commit(self, context: ow.EpochContext, committable: Mapping[str, Any]) -> None:
        self.step("commit")
        with self.connect() as database:
            last = database.execute("SELECT epoch FROM marker").fetchone()
            if last is None or last[0] < context.epoch:
                database.execute("INSERT INTO target SELECT * FROM staged WHERE epoch = ?", (context.epoch,))
                database.execute("DELETE FROM marker")
                marker = (self.owner.lineage, context.epoch, self.owner.term)
                database.execute("INSERT INTO marker VALUES (?, ?, ?)", marker)
            database.execute("DELETE FROM staged WHERE epoch = ?", (context.epoch,))

    def abort(self, context: ow.EpochContext) -> None:
        self.step("abort")
        with self.connect() as database:
            database.execute("DELETE FROM staged WHERE epoch <= ?", (context.epoch,))


class Many:
    """A pipeline over one topic with two tables and, if wanted, Kafka."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path, *, with_kafka: bool) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.source, self.target = kafka.topic(2), kafka.topic(2) if with_kafka else None
        self.fed = 0

    def tables(self) -> tuple[Table, Table]:
        return Table(self.folder / "a.db"), Table(self.folder / "b.db")

    def feed(self, count: int = 20) -> None:
        self.kafka.feed(self.source, ((str(n), str(n)) for n in range(self.fed, self.fed + count)))
        self.fed += count

    def pipeline(self, a: Table, b: Table, **options: Any) -> ow.Pipeline:
        events = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[self.source]).select("key", "value")
        made = ow.Pipeline(self.name, home=self.folder / "home", source=events, **options)
        made.to(a, name="a").to(b, name="b")
        return made.to(ow.KafkaSink(self.kafka.bootstrap, topic=self.target)) if self.target else made

    def run(self, a: Table | None = None, b: Table | None = None, **options: Any) -> ow.Query:
        plain_a, plain_b = self.tables()
        query = self.pipeline(a or plain_a, b or plain_b).start(trigger="once", **options)
        query.wait(120)
        return query

    def crash(self) -> None:
        with pytest.raises(Exception, match="Crash"):
            self.run()

    def require_exact(self) -> None:
        a, b = self.tables()
        wanted = Counter(str(n) for n in range(self.fed))
        assert Counter(a.values()) == wanted
        assert Counter(b.values()) == wanted
        assert a.staged() == b.staged() == []
        if self.target:
            assert Counter(self.kafka.values(self.target)) == wanted


@pytest.fixture(params=[True, False], ids=["kafka-decides", "ledger-decides"])
def many(request: pytest.FixtureRequest, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Many:
    return Many(spark, kafka, name, tmp_path, with_kafka=request.param)


def commands(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    from onceward.cli.main import app

    app([*arguments, "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def doubt_in(capsys: pytest.CaptureFixture[str], home: str) -> Any:
    """What `in-doubt` shows once the destination that it names is confirmed."""
    shown = commands(capsys, "in-doubt", home)["in_doubt"]
    if shown["confirm"] is None:
        return shown
    assert shown["decided"] is None, "nobody has said that Kafka is where the home says"
    return commands(capsys, "in-doubt", home, "--confirm", shown["confirm"])["in_doubt"]


def test_every_sink_has_every_epoch_once(many: Many) -> None:
    """A7, B9."""
    for _ in range(3):
        many.feed()
        many.run()
        many.require_exact()


@pytest.mark.parametrize(
    ("point", "nth"),
    [("begun", 1), ("written", 1), ("voted", 1), ("voted", 2), ("prepared", 1), ("marked", 1), ("decided", 1),
     ("committed", 1), ("committed", 2), ("recorded", 1)],
)  # fmt: skip
def test_a_crash_at_each_step_leaves_all_or_nothing_and_the_next_start_settles_it(
    many: Many, crash_at: Callable[..., None], point: str, nth: int
) -> None:
    """B3, B4, B5, B10: before the decision aborted and redone, after it rolled forward."""
    if not many.target and point in {"prepared", "marked"}:
        point, nth = "decided", 1
    many.feed()
    many.run()
    many.feed()
    crash_at(point, nth)
    many.crash()
    crash_at(None)
    many.run()
    many.require_exact()
    many.feed()
    many.run()
    many.require_exact()


@pytest.mark.parametrize("again", ["resolving", "committed", "recovered"])
def test_a_crash_during_recovery_is_recovered_from(many: Many, crash_at: Callable[..., None], again: str) -> None:
    """B5, B10: up to three times in a row."""
    many.feed()
    crash_at("decided")
    many.crash()
    for _ in range(3):
        crash_at(again)
        try:
            many.run()
        except Exception as error:  # noqa: BLE001 - the last time there may be nothing left to resolve
            assert "Crash" in str(error)  # noqa: PT017
    crash_at(None)
    many.run()
    many.require_exact()


@pytest.mark.parametrize("step", ["begin", "write", "pre_commit"])
def test_a_sink_that_fails_before_the_decision_has_the_epoch_redone_everywhere(many: Many, step: str) -> None:
    """B4: every sink is aborted, not only the one that failed."""
    a, b = many.tables()
    b.failing = {step: 2, "abort": 1}
    many.feed()
    many.run(a, b)
    assert a.asked.count("abort") >= 2
    many.require_exact()


def test_a_sink_that_is_away_at_its_commit_is_asked_until_it_is_back_and_holds_up_nobody(many: Many) -> None:
    """B5: the commit is never skipped, never forgotten."""
    a, b = many.tables()
    a.failing = {"commit": 3}
    many.feed()
    query = many.pipeline(a, b).start()
    eventually(lambda: len(b.values()) == many.fed, "the other sink has the epoch")
    eventually(lambda: len(a.values()) == many.fed, "the sink that was away has it too")
    query.stop()
    many.require_exact()


@pytest.mark.parametrize("step", ["pre_commit", "commit"])
def test_a_driver_whose_successor_took_away_what_it_had_staged_says_that_it_is_fenced(
    many: Many, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """C6: paused after its writes, it wakes to a table that is gone; that is no fault of the table's."""
    a, b = many.tables()
    many.feed()

    def gone(*_: object) -> None:
        storage = Home.at(many.folder / "home").storage
        holder = newest_holder(storage)
        assert holder is not None
        storage.replace("terms/000002.json", seal(msgspec.structs.replace(holder, term=2)))  # as a successor begins
        raise TargetUnusable("the staging table does not exist")

    monkeypatch.setattr(a, step, gone)
    with pytest.raises(PipelineFenced, match="was taken over"):
        many.run(a, b)
    assert a.values() == []


def test_a_stop_while_a_sink_is_away_names_the_epoch_and_the_next_start_finishes_it(many: Many) -> None:
    """B5, B10."""
    a, b = many.tables()
    a.failing = {"commit": 1_000_000}
    many.feed()
    query = many.pipeline(a, b).start()
    eventually(lambda: len(b.values()) == many.fed, "the epoch is decided")
    with pytest.raises(CommitUnfinished, match=rf"epoch 0 is decided, and sink 'a' .*{many.source}-0 up to"):
        query.stop()
    assert a.values() == []
    many.run()
    many.require_exact()


def test_an_epoch_in_doubt_is_shown_and_resolved_without_the_pipeline(
    many: Many, crash_at: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """B10: `onceward in-doubt` says what the next start will do; with the file, `onceward resolve` does it."""
    home = str(many.folder / "home")
    many.feed()
    many.run()
    assert commands(capsys, "in-doubt", home)["in_doubt"] is None
    many.feed()
    crash_at("committed")
    many.crash()
    crash_at(None)
    shown = doubt_in(capsys, home)
    assert (shown["epoch"], shown["decided"]) == (1, True)
    assert "commit it in a, b" in shown["next_start"]
    with pytest.raises(ConfigurationError, match=r"sink 'a' .* --file"):
        commands(capsys, "resolve", home)
    pipeline = many.pipeline(*many.tables())
    opened = opening.take_over(opening.start_of(pipeline, Home.at(many.folder / "home")))
    opened.close()
    many.require_exact()
    after = commands(capsys, "in-doubt", home)
    assert after["in_doubt"] is None
    assert "epoch 1 was decided" in after["resolved"][-1]["resolved"][0]
    last = commands(capsys, "epochs", home)["epochs"][-1]
    assert (last["epoch"], last["phase"]) == (1, "done")
    assert {"begin", "write", "pre_commit"} <= set(last["sinks"]["a"]["milliseconds"])
    many.run()
    many.require_exact()


@pytest.mark.parametrize("many", [True], ids=["kafka-decides"], indirect=True)  # the ledger's last vote decides
def test_votes_without_a_decision_are_shown_as_such_and_aborted(
    many: Many, crash_at: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """B10."""
    many.feed()
    crash_at("marked")
    many.crash()
    crash_at(None)
    shown = doubt_in(capsys, str(many.folder / "home"))
    assert (shown["epoch"], shown["decided"]) == (0, False)
    many.run()
    many.require_exact()
    lines = commands(capsys, "in-doubt", str(many.folder / "home"))["resolved"][-1]["resolved"]
    assert lines == ["epoch 0 was voted for in term 1 and not decided: aborted, redone"]


def test_a_replay_runs_every_sinks_rows_and_writes_nothing(many: Many, crash_at: Callable[..., None]) -> None:
    """A4, G4: the epoch is out everywhere, Spark's commit log does not know."""
    many.feed()
    crash_at("recorded")
    many.crash()
    crash_at(None)
    a, b = many.tables()
    many.run(a, b)
    assert "write" not in a.asked
    many.require_exact()


def test_the_batch_is_computed_once_however_many_sinks(many: Many, tmp_path: Path) -> None:
    many.feed()
    seen = tmp_path / "computed"
    seen.mkdir()

    def note(batches: Any) -> Any:
        for batch in batches:
            for value in batch.column("value").to_pylist():
                (seen / value.decode()).open("a").write("x")
            yield batch

    pipeline = many.pipeline(*many.tables())
    pipeline.source = pipeline.source.mapInArrow(note, pipeline.source.schema)
    pipeline.start(trigger="once").wait(120)
    assert {len(file.read_text()) for file in seen.iterdir()} == {1}
    many.require_exact()


def test_a_home_that_lost_its_decisions_is_refused_when_a_sink_knows_better(many: Many) -> None:
    """E9: never a second time into a sink that has it."""
    many.feed()
    many.run()
    for folder in ("ledger", "decisions"):
        for file in (many.folder / "home" / folder).glob("*"):
            file.unlink()
    many.feed()
    with pytest.raises((HomeMismatch, LedgerCorrupt), match=r"files of it are missing|ledger's entry .* is missing"):
        many.run()


def test_a_sink_that_lost_its_data_is_named(many: Many) -> None:
    """B5: not gone on with in silence; knowingly, it can be."""
    many.feed()
    many.run()
    before = (many.folder / "a.db").read_bytes()
    many.feed()
    many.run()
    (many.folder / "b.db").unlink()
    many.feed()
    with pytest.raises(MarkerMissing, match=r"sink 'b' .* has no marker of it.*--trust-ledger b "):
        many.run()
    asked: list[str] = []
    (many.folder / "a.db").write_bytes(before)  # and the other one was set back, which nobody has looked at
    with pytest.raises(MarkerMissing, match=r"sink 'a' .* says epoch 0.*--trust-ledger a "):
        many.run(trust_ledger="b", confirm=asked.extend)
    with pytest.raises(ConfigurationError, match=r"names 'c', which is no sink of pipeline"):
        many.run(trust_ledger=["a", "c"])
    many.run(trust_ledger=["a", "b"], confirm=asked.extend)
    assert [line.partition(" of ")[0] for line in asked] == ["sink 'a'", "sink 'b'"]


def test_a_sink_that_is_added_later_begins_there(many: Many) -> None:
    many.feed()
    many.run()
    added = Table(many.folder / "c.db")
    many.feed()
    pipeline = many.pipeline(*many.tables()).to(added, name="c")
    pipeline.start(trigger="once").wait(120)
    many.require_exact()
    assert sorted(added.values()) == sorted(str(n) for n in range(20, 40))


def test_a_sink_that_is_gone_while_an_epoch_waits_for_it_is_asked_for(
    many: Many, crash_at: Callable[..., None]
) -> None:
    many.feed()
    crash_at("decided")
    many.crash()
    crash_at(None)
    pipeline = many.pipeline(*many.tables())
    del pipeline.sinks["b"]
    with pytest.raises(ConfigurationError, match="committed in sink 'b', which the pipeline no longer has"):
        pipeline.start(trigger="once")
    many.run()
    many.require_exact()


class TestWhatIsRefused:
    def pipeline(self, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, **options: Any) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic(1)])
        return ow.Pipeline(name, home=tmp_path / "home", source=events, **options)

    def test_two_kafka_clusters_with_the_reason(
        self, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
    ) -> None:
        """B9."""
        pipeline = self.pipeline(spark, kafka, name, tmp_path).to(ow.KafkaSink(kafka.bootstrap, topic="x"))
        with pytest.raises(ConfigurationError, match=r"cannot stay prepared.*two cannot both be last"):
            pipeline.to(ow.KafkaSink("other:9092", topic="x"), name="second")

    def test_two_sinks_of_one_name(self, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
        pipeline = self.pipeline(spark, kafka, name, tmp_path).to(Table(tmp_path / "a.db"))
        with pytest.raises(ConfigurationError, match=r"has a sink 'table' already.*name='table-2'"):
            pipeline.to(Table(tmp_path / "b.db"))

    def test_a_function_that_is_neither_transactional_nor_idempotent(
        self, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
    ) -> None:
        """A3: the message says which half is missing and what to use instead."""
        pipeline = self.pipeline(spark, kafka, name, tmp_path).to(ow.FunctionSink(print))
        with pytest.raises(SinkNotTransactional) as refused:
            pipeline.start(trigger="once")
        for named in ("second half", "TwoPhaseCommitSink", "idempotent=True", "at-least-once"):
            assert named in str(refused.value)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_a_function_is_called_with_each_epochs_rows(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, guarantee: str
) -> None:
    """A3, A5: a function that may be repeated goes with exactly-once; any goes with the others."""
    source, seen = kafka.topic(2), dict[int, list[str]]()
    kafka.feed(source, ((str(n), str(n)) for n in range(10)))

    def keep(rows: DataFrame, epoch: int) -> None:
        seen[epoch] = sorted(row.value.decode() for row in rows.collect())

    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).select("value")
    sink = ow.FunctionSink(keep, idempotent=guarantee == "exactly-once")
    query = ow.Pipeline(name, home=tmp_path / "home", source=events, guarantee=guarantee).to(sink).start(trigger="once")
    query.wait(120)
    assert seen == {0: sorted(map(str, range(10)))}
    assert query.epochs[-1].sinks["function"].rows == 10


def test_kafka_joins_or_leaves_only_when_nothing_is_in_doubt(many: Many, crash_at: Callable[..., None]) -> None:
    """B5: whoever was to decide an epoch settles it first."""
    many.feed()
    crash_at("decided")
    many.crash()
    crash_at(None)
    changed = Many(many.spark, many.kafka, many.name, many.folder, with_kafka=not many.target)
    changed.source = many.source
    with pytest.raises(
        ConfigurationError,
        match=r"no longer has its sink 'kafka'.*did not end in order|epoch 0 .* was decided by the ledger",
    ):
        changed.run()
    many.run()
    many.require_exact()
