"""What a query's state depends on is told from its plan; what differs between two is told in words. Nothing runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.epoch.query_shape import FILE, OperatorShape, QueryShape, differences, read, write
from onceward.epoch.storage import LocalStorage
from onceward.pipeline.shape import shape_of
from pipeline.queries import own

Build = Callable[[DataFrame], DataFrame]
COLUMNS = (
    "cast(value % 7 as string) as user",
    "value as n",
    "value as m",
    "cast(value as int) as small",
    "timestamp as at",
)


@pytest.fixture
def shaped(spark: SparkSession) -> Callable[..., QueryShape]:
    """The shape of a query over a source that never runs."""

    def shape(build: Build, mode: str = "append") -> QueryShape:
        rate = spark.readStream.format("rate").load().selectExpr(*COLUMNS).withWatermark("at", "1 hour")
        return shape_of(build(rate), mode, None)

    return shape


def by_user(events: DataFrame) -> DataFrame:
    return events.groupBy("user").agg(F.sum("n").alias("total"), F.count("*").alias("many"))


def near(events: DataFrame, condition: str = "a.user = b.user", kind: str = "inner") -> DataFrame:
    time = " and a.at between b.at - interval 1 minute and b.at + interval 1 minute"
    return events.alias("a").join(events.alias("b"), F.expr(condition + time), kind)


def hourly(events: DataFrame, *lengths: str) -> DataFrame:
    return events.groupBy(F.window("at", *lengths), "user").count()


def test_operators_are_in_sparks_order_with_their_keys_and_what_they_keep(shaped: Callable[..., QueryShape]) -> None:
    """E5: Spark numbers them from the top; the id of an expression never shows."""
    found = shaped(lambda events: hourly(events.dropDuplicates(["user", "n", "at"]), "10 minutes", "5 minutes"))
    assert found.sources == ["rate"]
    assert found.operators == [
        OperatorShape(
            name="Aggregate",
            keys=["window struct<start:timestamp,end:timestamp>", "user string"],
            details=["window of 300 s, 600 s", "count(): bigint"],
        ),
        OperatorShape(name="Deduplicate", keys=["user string", "n bigint", "at timestamp"]),
    ]
    assert found.output == ["window struct<start:timestamp,end:timestamp>", "user string", "count bigint"]
    assert (found.output_mode, found.backend, found.snapshots) == ("append", "rocksdb", "incremental")


def test_every_kind_of_operator_is_told(shaped: Callable[..., QueryShape], spark: SparkSession) -> None:
    """E5"""
    pandas = "applyInPandasWithState"

    def told(build: Build) -> list[tuple[str, list[str]]]:
        return [(it.name, it.keys) for it in shaped(build).operators]

    assert told(lambda it: it.select("user")) == []
    assert told(lambda it: it.join(spark.range(9).withColumnRenamed("id", "n"), "n")) == [], "a table has no state"
    assert told(lambda it: it.dropDuplicatesWithinWatermark(["user"])) == [
        ("DeduplicateWithinWatermark", ["user string"])
    ]
    assert told(near) == [("StreamStreamJoin", ["user = user"])]
    assert told(lambda it: it.groupBy(F.session_window("at", "1 minute"), "user").count()) == [
        ("SessionWindowAggregate", ["session_window struct<start:timestamp,end:timestamp>", "user string"])
    ]
    assert told(lambda it: it.limit(3)) == [("Limit", [])]
    assert told(lambda it: own(it.withColumnRenamed("user", "key"))) == [("TransformWithState", ["key string"])]
    assert told(
        lambda it: getattr(it.groupBy("user"), pandas)(
            lambda *_: iter(()), "user string", "total long", "append", "NoTimeout"
        )
    ) == [("ApplyInPandasWithState", ["user string"])]


SAME: dict[str, tuple[Build, Build]] = {
    "another projection of what comes out": (by_user, lambda it: by_user(it).selectExpr("upper(user)", "total * many")),
    "another name for what comes out": (by_user, lambda it: by_user(it).withColumnRenamed("total", "sum")),
    "a filter before and after": (by_user, lambda it: by_user(it.where("n > 3")).where("total > 5")),
    "another formula over the same columns": (
        by_user,
        lambda it: it.groupBy("user").agg(F.sum(-F.col("n")), F.count("*")),
    ),
    "a column more that nobody keeps": (by_user, lambda it: by_user(it.withColumn("more", F.lit(1)))),
    "another watermark": (by_user, lambda it: by_user(it.withWatermark("at", "2 hours"))),
}
DIFFERENT: dict[str, tuple[Build, Build, list[str]]] = {
    "another operator": (
        by_user,
        lambda it: it.dropDuplicates(["user"]),
        ["operator 0 was Aggregate by user string, now Deduplicate by user string"],
    ),
    "an operator more, above": (
        lambda it: it.dropDuplicates(["user", "at"]),
        lambda it: by_user(it.dropDuplicates(["user", "at"])),
        ["there is an additional operator 0, Aggregate by user string"],
    ),
    "an operator less": (
        lambda it: by_user(it.dropDuplicates(["user", "at"])),
        by_user,
        ["operator 1, Deduplicate by user string, at timestamp, is missing"],
    ),
    "a key more": (
        by_user,
        lambda it: it.groupBy("user", "m").agg(F.sum("n"), F.count("*")),
        ["operator 0 was Aggregate by user string, now Aggregate by user string, m bigint"],
    ),
    "a key of another type": (
        lambda it: it.dropDuplicates(["n"]),
        lambda it: it.withColumn("n", F.col("n").cast("int")).dropDuplicates(["n"]),
        ["a key of operator 0, Deduplicate, was n bigint, now n int"],
    ),
    "another column is summed": (
        lambda it: it.groupBy("user").agg(F.sum("n")),
        lambda it: it.groupBy("user").agg(F.sum("m")),
        ["operator 0, Aggregate, had sum(n bigint): bigint, now sum(m bigint): bigint"],
    ),
    "a function that nobody uses any more is not kept": (
        by_user,
        lambda it: by_user(it).select("user", "total"),
        ["operator 0, Aggregate, had count(): bigint, now not"],
    ),
    "functions in another order": (
        by_user,
        lambda it: it.groupBy("user").agg(F.count("*"), F.sum("n")),
        ["operator 0, Aggregate, keeps the same in another order: count(): bigint; sum(n bigint): bigint"],
    ),
    "another window": (
        lambda it: hourly(it, "10 minutes"),
        lambda it: hourly(it, "20 minutes"),
        ["operator 0, Aggregate, had window of 600 s, now window of 1200 s"],
    ),
    "another kind of join": (
        near,
        lambda it: near(it, kind="leftOuter"),
        ["operator 0, StreamStreamJoin, had INNER, now LEFT OUTER"],
    ),
    "a join that has to keep another column": (
        lambda it: near(it).select("a.user", "a.n"),
        lambda it: near(it).select("a.user", "a.m"),
        [
            (
                "operator 0, StreamStreamJoin, had left rows: user string, n bigint, at timestamp, "
                "now left rows: user string, m bigint, at timestamp"
            )
        ],
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_what_the_state_does_not_depend_on_is_no_difference(shaped: Callable[..., QueryShape], case: str) -> None:
    """E5: an upgrade may change whatever is not in the state."""
    was, now = SAME[case]
    assert differences(shaped(was), shaped(now)) == []


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_the_state_depends_on_is_told_in_words(shaped: Callable[..., QueryShape], case: str) -> None:
    """E5: before anything is touched."""
    was, now, told = DIFFERENT[case]
    assert differences(shaped(was), shaped(now)) == told


def test_the_same_query_built_again_has_the_same_shape(shaped: Callable[..., QueryShape]) -> None:
    """E5: built a second time every expression has another id."""
    for build in (by_user, near, lambda it: hourly(it, "1 minute"), lambda it: it.limit(2)):
        assert shaped(build) == shaped(build)


def test_output_mode_counts_where_there_is_state(shaped: Callable[..., QueryShape]) -> None:
    assert differences(shaped(by_user, "update"), shaped(by_user, "complete")) == [
        "the output mode was update, now complete: other rows would come out again"
    ]
    assert differences(shaped(lambda it: it, "update"), shaped(lambda it: it, "append")) == []


def test_sources_count_by_kind_and_topics(spark: SparkSession) -> None:
    """E5: positions are those of topics; one more is read from its beginning."""

    def reading(*topics: str) -> QueryShape:
        return shape_of(ow.read_kafka(spark, "localhost:1", topics=topics), "append", None)

    rate = shape_of(spark.readStream.format("rate").load(), "append", None)
    assert reading("b", "a").sources == ["kafka subscribe=a,b"]
    assert differences(reading("a"), reading("b", "a")) == []
    assert differences(reading("a", "b"), reading("b")) == ["source 0 was kafka subscribe=a,b, now kafka subscribe=b"]
    assert differences(rate, reading("b")) == ["source 0 was rate, now kafka subscribe=b"]
    two = QueryShape(sources=["rate", "kafka subscribe=a"])
    assert differences(two, rate) == ["source 1, kafka subscribe=a, is missing"]
    assert differences(rate, two) == ["there is an additional source 1, kafka subscribe=a"]


def test_the_home_has_the_shape_of_its_last_start(tmp_path: Path) -> None:
    """E6: a savepoint takes it along; a start that changes nothing writes nothing."""
    storage, shape = LocalStorage(tmp_path), QueryShape(sources=["rate"], output_mode="append")
    assert read(storage.read(FILE)) is None
    write(storage, shape)
    assert read(storage.read(FILE)) == shape
    before = (tmp_path / FILE).stat().st_ino
    write(storage, shape)
    assert (tmp_path / FILE).stat().st_ino == before
    write(storage, QueryShape(sources=["kafka"]))
    assert read(storage.read(FILE)) == QueryShape(sources=["kafka"])
