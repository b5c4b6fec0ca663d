"""Dead letters: what cannot be used is in a topic of its own, in the same epoch, with the reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import LongType

import onceward as ow
from onceward.errors import ConfigurationError, InvalidRows, TopicUnusable
from onceward.pipeline.dead_letters import _guarded, told
from onceward.pipeline.host import load
from support.judge import Kafka
from support.page_files import DOCS, write_files
from support.runs import crash, run

SCHEMA = "id string not null, amount bigint"
COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"


def records(spark: SparkSession, *values: bytes | None) -> DataFrame:
    """As a batch of Kafka's has them."""
    rows = [(b"k", value, "t", 0, offset) for offset, value in enumerate(values)]
    columns = COLUMNS.removesuffix(", timestamp timestamp")
    return spark.createDataFrame(rows, columns).withColumn("timestamp", F.timestamp_millis(F.lit(1000)))


def reasons(rows: DataFrame) -> list[str | None]:
    return [row["dead_letter"] for row in rows.orderBy("record.offset").collect()]


WRONG = {
    b'{"id": "a", "amount": 1}': None,
    b'  {"id": "a", "amount": 1, "more": [1, {"x": "]"}]} \n': None,
    b'{"id": "a"}': None,
    None: "empty",
    b"": "not one JSON object",
    b"null": "not one JSON object",
    b"7": "not one JSON object",
    b'"{}"': "not one JSON object",
    b'[{"id": "a"}]': "not one JSON object",  # Spark would take the first of a list
    b'[{"id": "a"}, {"id": "b"}]': "not one JSON object",
    b'{"id": "a"}{"id": "b"}': "not one JSON object",  # Spark would be silent about the rest
    b'{"id": "a"} {"id": "b"}': "not one JSON object",
    b'{"id": "a"},{"id": "b"}': "not one JSON object",
    b'{"id": "a"}],[{"id": "b"}': "not one JSON object",
    b'{"id": "a"} and more': "not one JSON object",
    b'{"id": "a"': "not one JSON object",
    b"\xff\xfe\x00": "not one JSON object",
    b'{"id": "a", "amount": "one"}': "does not fit the schema",
    b'{"id": "a", "amount": 1.5}': "does not fit the schema",
    b'{"id": "a", "amount": 99999999999999999999}': "does not fit the schema",
    b'{"amount": 1}': "no id",
    b'{"id": null, "amount": 1}': "no id",
}


def test_json_that_is_not_one_object_of_the_schema_is_named(spark: SparkSession) -> None:
    """F4: and nothing of it is passed over in silence. A dead letter has none of the fields."""
    rows = ow.parse_json(records(spark, *WRONG), SCHEMA)
    assert dict(zip(WRONG, reasons(rows), strict=True)) == WRONG
    assert {row["id"] for row in rows.where("dead_letter is not null").collect()} == {None}
    assert [row["id"] for row in ow.good_rows(rows).collect()] == ["a", "a", "a"]
    assert ow.good_rows(rows).columns == ["id", "amount"]


def test_a_functions_exceptions_are_reasons(spark: SparkSession) -> None:
    """F4: also what it returns of another type, of which Spark would make a null in silence."""

    def decode(value: bytes) -> Any:
        key, _, number = value.decode().partition("=")
        return {"id": key or None, "amount": int(number) if number != "text" else "text"} if value != b"-" else None

    rows = ow.parse(records(spark, b"a=1", b"a=x", b"=1", b"a=text", None, b"-"), decode, SCHEMA, keep=["timestamp"])
    assert rows.columns == ["id", "amount", "timestamp", "dead_letter", "record"]
    found = reasons(rows)
    assert found[:3] == [None, "ValueError: invalid literal for int() with base 10: 'x'", "no id"]
    assert (found[3] or "").startswith("PySparkTypeError: ")
    assert found[4:] == ["empty", "cannot be parsed"]


def test_the_first_reason_counts_and_dead_letters_are_left_alone(spark: SparkSession) -> None:
    """F4."""
    rows = ow.parse_json(records(spark, b'{"id": "a", "amount": 4}', b'{"id": "b", "amount": 0}', b"x"), SCHEMA)
    rows = ow.reject(rows, "amount < 1", "too little")
    rows = ow.attempt(rows, "share", lambda amount: 12 // amount, "bigint", ["amount"])
    rows = ow.reject(rows, F.col("share") == 3, "three")
    assert reasons(rows) == ["three", "too little", "not one JSON object"]
    assert reasons(
        ow.parse(records(spark, b"1,2", None), F.from_csv(F.col("value").cast("string"), "a int, b int"))
    ) == [
        None,
        "cannot be parsed",
    ]


@pytest.mark.parametrize("fault", [ConnectionError, FileNotFoundError, ImportError, MemoryError, NameError])
def test_what_is_not_the_records_fault_fails_the_epoch(fault: type[Exception]) -> None:
    """F4: a registry that is away for a minute does not make a minute's records dead letters."""

    def fails(_: bytes) -> None:
        raise fault("by the test")

    with pytest.raises(fault, match="by the test"):
        _guarded(fails, LongType())(None, b"x")
    assert _guarded(fails, LongType())("dead already", b"x") == (None, None)


def test_a_reason_is_short_and_the_same_in_a_replay() -> None:
    class Odd:
        pass

    assert told(ValueError(f"no {Odd()!r}")).endswith("Odd object at 0x…>")
    assert told(KeyError()) == "KeyError"
    assert len(told(ValueError("x" * 10_000))) == 500


def test_what_would_drop_dead_letters_is_refused(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    """I3: their other columns are null, so a filter would lose them in silence."""
    topic = kafka.topic(1)
    parsed = ow.parse_json(ow.read_kafka(spark, kafka.bootstrap, topics=[topic]), SCHEMA, keep=["timestamp"])

    def start(source: DataFrame, dead: str = topic) -> None:
        rows = ow.with_dead_letters(lambda good: good.selectExpr("id as value"), topic=dead)
        sink = ow.KafkaSink(kafka.bootstrap, topic=topic)
        ow.Pipeline(name, home=tmp_path / "home", source=source).to(sink, rows=rows).start()

    for source, kind in {
        parsed.where("amount > 1"): "Filter",
        parsed.dropDuplicates(["id"]): "Deduplicate",
        parsed.join(spark.range(3).toDF("number"), F.expr("amount = number")): "Join",
    }.items():
        with pytest.raises(ConfigurationError, match=f"stands a {kind}, which drops dead letters"):
            start(source)
    with pytest.raises(ConfigurationError, match="the source has no column 'dead_letter'"):
        start(parsed.drop("dead_letter"))
    with pytest.raises(TopicUnusable, match="'no-such-topic' does not exist"):
        start(parsed.where("dead_letter is not null or amount > 1"), dead="no-such-topic")
    with pytest.raises(ConfigurationError, match=r"dead letters go to Kafka; this one takes rows=ow\.good_rows"):
        ow.Pipeline(name, home=tmp_path, source=parsed).to(
            ow.FileSink(tmp_path / "files"), rows=ow.with_dead_letters(topic="x")
        )
    with pytest.raises(ConfigurationError, match="called 'record'"):
        ow.parse_json(records(spark), "record string")
    with pytest.raises(InvalidRows, match=r"begin with ow\.parse_json"):
        ow.reject(records(spark), "true", "none")
    with pytest.raises(ConfigurationError, match=r"parse what ow\.read_kafka gives"):
        ow.parse_json(spark.range(1), SCHEMA)


def test_the_pages_pipeline_sends_what_it_cannot_use_to_a_topic_of_its_own(
    spark: SparkSession,
    kafka: Kafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    crash_at: Callable[..., None],
) -> None:
    """F4, I7: in one transaction with the others, once, also where the driver dies before and after its decision."""
    kafka.wire.create_topics(["shop-orders", "shop-orders-clean", "shop-orders-dead"], 1)
    write_files(DOCS / "dead-letters.md", tmp_path, port_9092=kafka.bootstrap)
    monkeypatch.chdir(tmp_path)
    build = load(tmp_path / "clean_orders.py")
    good = ('{"id": "1", "amount": 12.5, "currency": "EUR"}', '{"id": "2", "amount": 900, "currency": "JPY"}')
    bad = {
        "hello": "not one JSON object",
        '{"id": "3"}': "no amount",
        '{"id": "4", "amount": -1, "currency": "EUR"}': "amount is not positive",
        '{"id": "5", "amount": 1, "currency": "USD"}': "KeyError: 'USD'",
    }
    for point in ("written", "decided", None):
        kafka.feed("shop-orders", [("k", value) for value in (*good, *bad)])
        crash_at(point)
        (run if point is None else crash)(build(spark)[0])
    crash_at(None)
    assert sorted(map(json.loads, kafka.values("shop-orders-clean")), key=str) == 3 * [
        {"id": "1", "units": 1250, "currency": "EUR"}
    ] + 3 * [{"id": "2", "units": 900, "currency": "JPY"}]
    letters = kafka.read("shop-orders-dead")
    assert sorted((it.value().decode(), dict(it.headers())["dead-letter-reason"].decode()) for it in letters) == sorted(
        3 * list(bad.items())
    )
    headers = {name: value.decode() for name, value in letters[0].headers()}
    assert headers.pop("dead-letter-timestamp").isdecimal()
    assert headers == {
        "dead-letter-reason": "not one JSON object",
        "dead-letter-topic": "shop-orders",
        "dead-letter-partition": "0",
        "dead-letter-offset": "2",
    }
    run(load(tmp_path / "again.py")(spark)[0])  # the cause is not gone: they come back, each with one reason
    run(build(spark)[0])
    back = kafka.read("shop-orders-dead")[len(letters) :]
    assert len(back) == len(letters)
    assert {len(it.headers()) for it in back} == {5}


def test_another_sink_takes_the_good_rows_and_kafka_the_others(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """F4: one decision for both."""
    source, dead = kafka.topic(1), kafka.topic(1)
    kafka.producer.produce(source, key="k", value="x", headers=[("mine", b"1")])
    kafka.feed(source, [("k", '{"id": "a", "amount": 1}')])
    parsed = ow.parse_json(ow.read_kafka(spark, kafka.bootstrap, topics=[source]), SCHEMA)
    run(
        ow.Pipeline(name, home=tmp_path / "home", source=parsed)
        .to(ow.KafkaSink(kafka.bootstrap), rows=ow.with_dead_letters(topic=dead))
        .to(ow.FileSink(tmp_path / "files", format="json"), rows=ow.good_rows)
    )
    (letter,) = kafka.read(dead)
    assert (letter.key(), letter.value(), letter.headers()[0]) == (b"k", b"x", ("mine", b"1"))
    written = spark.read.json(str(tmp_path / "files")).select("id", "amount")
    assert [tuple(row) for row in written.collect()] == [("a", 1)]
