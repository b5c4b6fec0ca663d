"""A pipeline from Kafka to Kafka in this process: what readers see, epoch by epoch."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.errors import (
    ConfigurationError,
    HomeMismatch,
    InvalidName,
    InvalidRows,
    LedgerCorrupt,
    RecordTooLarge,
    SinkNotTransactional,
    TopicUnusable,
    UserCodeFailed,
)
from onceward.jars import broker_jars, java_command
from onceward.sinks.kafka import sink as kafka_sink
from support.home import checkpoint_of
from support.judge import Kafka
from support.runs import run

WAYS = pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])


def copy(
    spark: SparkSession, kafka: Kafka, name: str, home: Path, source: str, target: str | None, **sink: object
) -> ow.Pipeline:
    """A map-only pipeline that hands records on."""
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    return ow.Pipeline(name, home=home, source=events).to(
        ow.KafkaSink(kafka.bootstrap, topic=target, **sink),  # type: ignore[arg-type]
        rows=lambda batch: batch.select("key", "value", "headers"),
    )


def counts(
    spark: SparkSession, kafka: Kafka, name: str, home: Path, source: str, target: str, **sink: object
) -> ow.Pipeline:
    """A stateful pipeline: a running count per key."""
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    return ow.Pipeline(name, home=home, source=events.groupBy("key").count(), output_mode="update").to(
        ow.KafkaSink(kafka.bootstrap, topic=target, **sink),  # type: ignore[arg-type]
        rows=lambda batch: batch.selectExpr("key", "cast(count as string) as value"),
    )


def require_order_of_keys(kafka: Kafka, target: str, count: int) -> None:
    seen: dict[bytes, list[int]] = {}
    for message in kafka.read(target):
        seen.setdefault(message.key(), []).append(int(message.value()))
    assert sum(map(len, seen.values())) == count
    assert all(values == sorted(values) for values in seen.values())


@WAYS
def test_every_event_has_its_effect_once_in_state_and_output(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, small: int
) -> None:
    """A1, E1: a stateful pipeline, stopped and started again between epochs."""
    source, target = kafka.topic(), kafka.topic()
    for _ in range(3):
        kafka.feed(source, ((f"k{i % 7}", f"v{i}") for i in range(500)))
        run(counts(spark, kafka, name, tmp_path / "home", source, target, small_epoch_bytes=small))
    seen: dict[bytes, list[int]] = {}
    for message in kafka.read(target):
        seen.setdefault(message.key(), []).append(int(message.value()))
    assert {key: values[-1] for key, values in seen.items()} == Counter(
        f"k{i % 7}".encode() for i in range(500) for _ in "abc"
    )
    assert all(len(values) == 3 and values == sorted(set(values)) for values in seen.values())


@WAYS
def test_records_arrive_as_they_were_with_headers_nulls_and_tombstones(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, small: int
) -> None:
    """Bad input of the proof plan: null keys, values, headers, tombstones, empty records."""
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.producer.produce(source, key="h", value="with headers", headers=[("a", b"1"), ("b", None), ("a", b"2")])
    kafka.feed(source, [(None, "no key"), ("gone", None), ("", ""), (None, None), ("x", "y" * 200_000)])
    run(copy(spark, kafka, name, tmp_path / "home", source, target, small_epoch_bytes=small))
    before, after = kafka.read(source), kafka.read(target)
    assert [(m.key(), m.value(), m.headers()) for m in after] == [(m.key(), m.value(), m.headers()) for m in before]


@WAYS
@pytest.mark.parametrize("compression", ["none", "lz4", "zstd", "snappy", "gzip"])
def test_order_per_key_is_kept_with_every_codec(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, small: int, compression: str
) -> None:
    source, target = kafka.topic(), kafka.topic(3)
    kafka.feed(source, ((f"k{i % 50}", str(i)) for i in range(5000)))
    run(copy(spark, kafka, name, tmp_path / "home", source, target, small_epoch_bytes=small, compression=compression))
    require_order_of_keys(kafka, target, 5000)


def test_where_tasks_share_no_machine_batches_go_to_one_writer_for_each_partition(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A7, C1: the way that works on a cluster."""
    monkeypatch.setattr(kafka_sink, "is_local", lambda _: False)
    source, target = kafka.topic(), kafka.topic(3)
    kafka.feed(source, ((f"k{i % 50}", str(i)) for i in range(5000)))
    run(copy(spark, kafka, name, tmp_path / "home", source, target, small_epoch_bytes=0))
    require_order_of_keys(kafka, target, 5000)


@WAYS
def test_one_epoch_spans_many_topics(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, small: int) -> None:
    """C3, A7: rows choose their topic; the default takes the rest; a partition column is obeyed."""
    source, even, odd, rest = kafka.topic(), kafka.topic(2), kafka.topic(3), kafka.topic(4)
    kafka.feed(source, (("k", str(i)) for i in range(90)))
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
        ow.KafkaSink(kafka.bootstrap, topic=rest, small_epoch_bytes=small),
        rows=lambda batch: batch.selectExpr(
            "value",
            f"case cast(cast(value as string) as int) % 3 when 0 then '{even}' when 1 then '{odd}' end as topic",
            "case cast(cast(value as string) as int) % 3 when 0 then 1 end as partition",
        ),
    )
    run(pipeline)
    assert [len(kafka.read(topic)) for topic in (even, odd, rest)] == [30, 30, 30]
    assert {message.partition() for message in kafka.read(even)} == {1}


@WAYS
def test_an_epoch_that_touches_one_of_four_partitions_leaves_the_others_alone(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, small: int
) -> None:
    source, target = kafka.topic(), kafka.topic(4)
    kafka.feed(source, [("same", str(i)) for i in range(20)])
    run(copy(spark, kafka, name, tmp_path / "home", source, target, small_epoch_bytes=small))
    ends = sorted(kafka.end_offsets(target).values())
    assert ends == [0, 0, 0, 21]  # twenty records and the end marker of the transaction


@WAYS
def test_an_epoch_without_output_commits_its_positions(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, small: int
) -> None:
    source, target = kafka.topic(2), kafka.topic()
    kafka.feed(source, [("k", "dropped")] * 10)
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).where("value = 'kept'")

    def pipeline() -> ow.Pipeline:
        sink = ow.KafkaSink(kafka.bootstrap, topic=target, small_epoch_bytes=small)
        return ow.Pipeline(name, home=tmp_path / "home", source=events).to(
            sink, rows=lambda batch: batch.select("key", "value")
        )

    assert run(pipeline()).epochs[-1].sinks["kafka"].rows == 0
    assert lag(kafka, name) == {source: 0}
    kafka.feed(source, [("k", "kept")])
    assert run(pipeline()).epochs[-1].sinks["kafka"].rows == 1
    assert kafka.values(target) == ["kept"]


def lag(kafka: Kafka, group: str) -> dict[str, int]:
    """What Kafka's own tool says of a group."""
    import subprocess

    jars = ":".join(str(jar) for jar in broker_jars())
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    command = [str(java_command()), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", jars, tool]
    out = subprocess.run(
        [*command, "--bootstrap-server", kafka.bootstrap, "--describe", "--group", group],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: Counter[str] = Counter()
    for line in out.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[0] == group:
            found[fields[1]] += int(fields[5])
    return dict(found)


def test_lag_tools_see_the_pipelines_progress(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    """C4: positions travel in the transaction as group offsets."""
    source, target = kafka.topic(), kafka.topic()
    kafka.feed(source, ((str(i), "v") for i in range(100)))
    run(counts(spark, kafka, name, tmp_path / "home", source, target))
    assert lag(kafka, name) == {source: 0}
    kafka.feed(source, ((str(i), "v") for i in range(30)))
    assert lag(kafka, name) == {source: 30}


def test_keys_go_where_javas_producer_puts_them(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    source, target = kafka.topic(1), kafka.topic(7)
    kafka.feed(source, ((f"key-{i}", "v") for i in range(300)))
    run(copy(spark, kafka, name, tmp_path / "home", source, target))
    # Spark's own sink asks the Java producer.
    other = kafka.topic(7)
    frame = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).option("subscribe", source)
    frame.load().select("key", "value").write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).option(
        "topic", other
    ).save()
    assert {m.key(): m.partition() for m in kafka.read(target)} == {m.key(): m.partition() for m in kafka.read(other)}


def test_preserve_keeps_partitions_without_a_shuffle(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    source, target = kafka.topic(4), kafka.topic(4)
    kafka.feed(source, ((f"k{i}", str(i)) for i in range(2000)))
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    sink = ow.KafkaSink(kafka.bootstrap, topic=target, partitioning="preserve", small_epoch_bytes=0)
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
        sink, rows=lambda batch: batch.select("key", "value", "partition")
    )
    query = run(pipeline)
    before, after = kafka.read(source), kafka.read(target)
    assert [(m.partition(), m.value()) for m in after] == [(m.partition(), m.value()) for m in before]
    assert {entry.attempts for entry in query.epochs} == {1}


def test_preserve_that_does_not_hold_is_redone_with_a_shuffle(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """Two tasks with rows for one partition would share sequence numbers: noticed, aborted, redone."""
    source, target = kafka.topic(4), kafka.topic(4)
    kafka.feed(source, ((f"k{i}", str(i)) for i in range(400)))
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    sink = ow.KafkaSink(kafka.bootstrap, topic=target, partitioning="preserve", small_epoch_bytes=0)
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
        sink, rows=lambda batch: batch.selectExpr("key", "value", "0 as partition")
    )
    query = run(pipeline)
    assert sorted(map(int, kafka.values(target))) == list(range(400))
    assert query.epochs[0].attempts == 2


def test_a_record_over_the_topics_limit_is_named(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    source, target = kafka.topic(1), kafka.topic(1, max_message_bytes="2000")
    kafka.feed(source, [("k", "x" * 5000)])
    for small in (10 << 20, 0):
        with pytest.raises(RecordTooLarge, match=rf"{target}.*partition 0.*max\.message\.bytes"):
            run(copy(spark, kafka, name, tmp_path / "home", source, target, small_epoch_bytes=small))
    assert kafka.read(target, "read_uncommitted") == []


def test_a_missing_topic_is_named_before_anything_is_read(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    source = kafka.topic(1)
    with pytest.raises(TopicUnusable, match="no-such-topic"):
        run(copy(spark, kafka, name, tmp_path / "home", source, "no-such-topic"))


def test_a_missing_topic_in_a_row_is_named(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "v")])
    for small in (10 << 20, 0):
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
            ow.KafkaSink(kafka.bootstrap, topic=target, small_epoch_bytes=small),
            rows=lambda batch: batch.selectExpr("value", "'nowhere-to-go' as topic"),
        )
        with pytest.raises(TopicUnusable, match="nowhere-to-go"):
            run(pipeline)


def test_a_partition_out_of_range_is_named(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    source, target = kafka.topic(1), kafka.topic(2)
    kafka.feed(source, [("k", "v")])
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
        ow.KafkaSink(kafka.bootstrap, topic=target), rows=lambda batch: batch.selectExpr("value", "2 as partition")
    )
    with pytest.raises(TopicUnusable, match=r"partition 2.*partitions 0 to 1"):
        run(pipeline)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["key"], "no column 'value'"),
        (["key", "value", "offset"], "offset"),
        (["cast(1 as bigint) as value"], "string or binary"),
        (["value", "cast(partition as bigint) as partition"], "takes int"),
        (["value", "array(1) as headers"], "array<struct<key:string,value:binary>>"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_what_would(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, columns: list[str], says: str
) -> None:
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "v")])
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
        ow.KafkaSink(kafka.bootstrap, topic=target), rows=lambda batch: batch.selectExpr(*columns)
    )
    with pytest.raises(InvalidRows, match=says):
        run(pipeline)


def test_a_home_of_another_pipeline_is_refused(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    source, target = kafka.topic(1), kafka.topic(1)
    run(copy(spark, kafka, name, tmp_path / "home", source, target))
    with pytest.raises(HomeMismatch, match=name):
        copy(spark, kafka, f"{name}-b", tmp_path / "home", source, target).start()


def test_a_new_home_under_a_used_name_is_refused(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    """Going on would put everything out a second time."""
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "v")])
    run(copy(spark, kafka, name, tmp_path / "home", source, target))
    with pytest.raises(HomeMismatch, match="lineage"):
        copy(spark, kafka, name, tmp_path / "elsewhere", source, target).start()
    assert kafka.values(target) == ["v"]


def test_a_deleted_checkpoint_is_refused(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    import shutil

    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "v")])
    run(copy(spark, kafka, name, tmp_path / "home", source, target))
    (checkpoint_of(tmp_path / "home") / "metadata").unlink()
    with pytest.raises(HomeMismatch, match="metadata"):
        copy(spark, kafka, name, tmp_path / "home", source, target).start()
    shutil.rmtree(checkpoint_of(tmp_path / "home"))
    with pytest.raises(LedgerCorrupt, match=r"in its checkpoint.*Restore the checkpoint from a backup"):
        copy(spark, kafka, name, tmp_path / "home", source, target).start()


def test_names_guarantees_and_triggers_are_checked(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic(1)])
    for bad in ("", "../up", "a b", "ü", "x" * 201, "-x"):
        with pytest.raises(InvalidName):
            ow.Pipeline(bad, home=tmp_path, source=events)
    with pytest.raises(ConfigurationError, match="exactly-once"):
        ow.Pipeline("p", home=tmp_path, source=events, guarantee="twice")
    with pytest.raises(ConfigurationError, match="output_mode"):
        ow.Pipeline("p", home=tmp_path, source=events, output_mode="upsert")
    with pytest.raises(ConfigurationError, match="no sink"):
        ow.Pipeline("p", home=tmp_path, source=events).start()
    with pytest.raises(SinkNotTransactional, match="second half"):
        ow.Pipeline("p", home=tmp_path, source=events).to(object())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="1s"):
        ow.Pipeline("p", home=tmp_path, source=events).to(ow.KafkaSink(kafka.bootstrap, topic="t")).start(
            trigger="often"
        )
    with pytest.raises(ConfigurationError, match="host:port"):
        ow.KafkaSink("localhost", topic="t")
    with pytest.raises(ConfigurationError, match="lz4"):
        ow.KafkaSink(kafka.bootstrap, topic="t", compression="rar")


def test_secrets_are_not_shown(kafka: Kafka) -> None:
    sink = ow.KafkaSink(
        "localhost:9092",
        topic="t",
        settings={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "do-not-print",
        },
    )
    assert "do-not-print" not in repr(sink) + repr(sink.cluster)


def test_a_function_that_always_fails_stops_the_pipeline_and_loses_nothing(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """B4, I4: not repeated for ever, nothing visible, and a repaired pipeline goes on where it was."""
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "not a number")])
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])

    def pipeline(expression: str) -> ow.Pipeline:
        return ow.Pipeline(name, home=tmp_path / "home", source=events).to(
            ow.KafkaSink(kafka.bootstrap, topic=target), rows=lambda batch: batch.selectExpr(expression)
        )

    with pytest.raises(UserCodeFailed, match=r"'not a number' of the type \"STRING\" cannot be cast.*nothing is lost"):
        run(pipeline("cast(cast(cast(value as string) as int) as string) as value"))
    assert kafka.values(target) == []
    run(pipeline("value"))
    assert kafka.values(target) == ["not a number"]


def test_the_query_tells_its_status_progress_and_epochs(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "v")] * 3)
    with counts(spark, kafka, name, tmp_path / "home", source, target).start(trigger="100ms") as query:
        query.process_all_available()
        assert query.is_active
        assert query.exception() is None
        assert query.last_progress is not None
        assert "message" in query.status
        assert [(it.epoch, it.input_rows, it.sinks["kafka"].rows) for it in query.epochs] == [(0, 3, 1)]
        assert (query.rows_read, query.rows_written) == (3, {"kafka": 1})
        assert query.wait(0.1) is False
    assert not query.is_active
    assert (
        json.loads((tmp_path / "home" / "ledger").glob("*").__next__().read_text().splitlines()[0])["phase"] == "done"
    )


def test_the_settings_for_quick_logs_do_not_leak_into_the_session(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    setting = "spark.sql.streaming.checkpointFileManagerClass"
    before = spark.conf.get(setting, None)
    run(copy(spark, kafka, name, tmp_path / "home", kafka.topic(1), kafka.topic(1)))
    assert spark.conf.get(setting, None) == before


def test_a_topic_that_gains_partitions_is_used_at_once(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, ((f"a{i}", "v") for i in range(50)))
    run(copy(spark, kafka, name, tmp_path / "home", source, target))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_partitions([NewPartitions(target, 3)])[target].result(30)
    kafka.feed(source, ((f"b{i}", "v") for i in range(50)))
    run(copy(spark, kafka, name, tmp_path / "home", source, target))
    assert {message.partition() for message in kafka.read(target)} == {0, 1, 2}
    assert len(kafka.read(target)) == 100


def test_a_batch_frame_is_refused(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    frame: DataFrame = spark.range(3).selectExpr("cast(id as string) as value")
    pipeline = ow.Pipeline("batch", home=tmp_path, source=frame).to(ow.KafkaSink(kafka.bootstrap, topic="t"))
    with pytest.raises(ConfigurationError, match="readStream"):
        pipeline.start()


def test_a_home_may_have_any_name(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    """Spaces, percent signs and umlauts in the path: Spark and we mean the same directory."""
    source, target = kafka.topic(1), kafka.topic(1)
    for number in range(2):
        kafka.feed(source, [("k", str(number))])
        run(copy(spark, kafka, name, tmp_path / "a home %20 für α", source, target))
    assert kafka.values(target) == ["0", "1"]
    assert [path.name for path in tmp_path.iterdir()] == ["a home %20 für α"]


def test_an_epoch_too_large_to_collect_takes_the_long_way_in_the_same_try(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little input, much output: the guess was wrong, no more than a bound is collected, and nothing is lost."""
    source, target = kafka.topic(1), kafka.topic(2)
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    sink = ow.KafkaSink(kafka.bootstrap, topic=target)

    def collected(*_: object) -> None:
        raise AssertionError("the driver was to write it")

    monkeypatch.setattr(sink, "_write_here", collected)
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
        sink, rows=lambda batch: batch.selectExpr("explode(sequence(1, 100000)) as n").selectExpr("string(n) as value")
    )
    with pipeline.start() as query:
        for number in range(2):
            kafka.feed(source, [("k", str(number))])
            query.process_all_available()
        assert [entry.attempts for entry in query.epochs] == [1, 1]
    assert Counter(kafka.values(target)) == Counter({str(number): 2 for number in range(1, 100001)})
