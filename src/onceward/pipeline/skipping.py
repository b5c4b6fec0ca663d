"""Records that a person has told the pipeline to pass over: taken out of the input, and carried to dead letters."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from onceward.epoch import skips
from onceward.epoch.contract import Guarantee
from onceward.epoch.home import Home
from onceward.epoch.skips import RecordPlace, Skipped
from onceward.epoch.takeover import TakenOver
from onceward.errors import SkipRefused
from onceward.pipeline.lease import this_process
from onceward.pipeline.opening import now, take_over
from onceward.pipeline.relations import children_of, is_kafka, numbered, options_of
from onceward.pipeline.resets import spans

if TYPE_CHECKING:
    from onceward.pipeline.pipeline import Pipeline

HEADER: Final = "dead-letter-"  # what the headers of a dead letter begin with
LETTERS: Final = "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string"
PLACED_BY_BROKERS: Final = frozenset({"subscribe", "subscribepattern", "assign", "startingoffsets", "endingoffsets"})


def without(frame: DataFrame, records: Sequence[Skipped]) -> DataFrame:
    """The same query over all other records: each Kafka source in Spark's plan gets a filter above it.

    The filter is below everything that keeps state, so state and its numbering stay as they are.
    """
    spark = cast("Any", frame.sparkSession)
    plan = _filtered(spark, frame._jdf.queryExecution().analyzed(), _condition(records))  # noqa: SLF001 - no plans
    return DataFrame(_of_plan(spark, plan), spark)


def told(records: Sequence[Skipped]) -> str:
    """At every start: the home's file could say it without anybody having asked for it."""
    places = ", ".join(f"{it.place}{f' (to {it.dead_letters})' if it.dead_letters else ''}" for it in records)
    return f"records that are left out, as the home's {skips.FILE} says: {places}"


def _filtered(spark: Any, plan: Any, condition: str) -> Any:
    if is_kafka(plan):
        return _of_plan(spark, plan).filter(condition).queryExecution().analyzed()
    children = children_of(plan)
    changed = [_filtered(spark, child, condition) for child in children]
    if all(new is old for new, old in zip(changed, children, strict=True)):
        return plan
    wanted = spark._jvm.java.util.ArrayList()  # noqa: SLF001
    for child in changed:
        wanted.add(child)
    return plan.withNewChildren(spark._jvm.PythonUtils.toSeq(wanted))  # noqa: SLF001


def _of_plan(spark: Any, plan: Any) -> Any:
    """What Spark itself does with every step of a query."""
    return spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)  # noqa: SLF001


def _condition(records: Sequence[Skipped]) -> str:
    places = " or ".join(
        f"(topic = {_literal(it.topic)} and partition = {it.partition} and offset = {it.offset})" for it in records
    )
    return f"not ({places})"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def with_letters(rows: DataFrame, records: Sequence[Skipped]) -> DataFrame:
    """A Kafka sink's rows, and those records of the epoch that go to a topic for dead letters."""
    wanted = [_letter(it) for it in records if it.dead_letters is not None]
    if not wanted:
        return rows
    in_bytes = [
        F.col(f"`{name}`").cast("binary").alias(name) if name.lower() in {"key", "value"} else F.col(f"`{name}`")
        for name in rows.columns
    ]
    letters = rows.sparkSession.createDataFrame(wanted, LETTERS)
    return rows.select(*in_bytes).unionByName(letters, allowMissingColumns=True)


def _letter(record: Skipped) -> tuple[Any, ...]:
    """As it came, with headers that say why and from where; those of an earlier time as a dead letter are replaced."""
    facts = {
        "reason": record.reason or "skipped",
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
    }
    kept = [(name, value) for name, value in record.headers if not name.startswith(HEADER)]
    headers = [*kept, *((f"{HEADER}{name}", value.encode()) for name, value in facts.items())]
    return record.key, record.value, headers, record.dead_letters


def skip(
    pipeline: "Pipeline",
    home: Home,
    place: RecordPlace,
    *,
    reason: str,
    dead_letters: str | None,
    report: Callable[[str], None],
) -> Skipped:
    """On record in the home, which is taken over for it: nobody commits the record meanwhile."""
    if dead_letters is not None:
        _require_place_for_letters(pipeline, dead_letters)
    found = _record(pipeline.source, place)
    by = str(this_process(pipeline.name, 0)).partition(", since")[0]
    found = msgspec.structs.replace(found, reason=reason, dead_letters=dead_letters, at=now(), by=by)

    def write(taken: TakenOver, room: Home) -> None:
        require_ahead(taken, place)
        skips.add(room.storage, found)

    _in(pipeline, home, write, report)
    return found


def undo(pipeline: "Pipeline", home: Home, place: RecordPlace, *, report: Callable[[str], None]) -> None:
    """A record that no epoch has passed over yet is read after all."""

    def write(taken: TakenOver, room: Home) -> None:
        require_ahead(taken, place)
        skips.remove(room.storage, place)

    _in(pipeline, home, write, report)


def require_ahead(taken: TakenOver, place: RecordPlace) -> None:
    """Whoever has committed the record: an epoch in the ledger, in Kafka alone, or in the engine's own log."""
    last, finished = taken.ledger.last(), taken.checkpoint.last_finished()
    known = (
        taken.recovered.committed,
        last.epoch if last is not None else -1,
        finished if finished is not None else -1,
    )
    committed = max(known)
    skips.require_ahead(place, committed, taken.checkpoint.begins(committed + 1))


def _in(
    pipeline: "Pipeline", home: Home, write: Callable[[TakenOver, Home], None], report: Callable[[str], None]
) -> None:
    """Do it in a home that is ours, in which nothing is in doubt: what a start does first is done first."""
    if home.deed() is None:
        raise SkipRefused(f"{home.location} is nobody's home yet: nothing was read, so nothing can be skipped")
    opened = take_over(home, pipeline.name, Guarantee(pipeline.guarantee), pipeline.sinks, report=report)
    try:
        write(opened.taken, opened.home)
    finally:
        opened.close()


def _require_place_for_letters(pipeline: "Pipeline", topic: str) -> None:
    from onceward.sinks.kafka import KafkaSink

    sinks = [sink for sink in pipeline.sinks.values() if isinstance(sink, KafkaSink)]
    if not sinks:
        raise SkipRefused(
            f"pipeline {pipeline.name!r} has no Kafka sink, so nothing can carry the record to {topic!r} with its "
            "epoch; leave --dead-letters out: the record itself is kept in the home (`onceward skip HOME --list`)"
        )
    if topic not in sinks[0].wire.topics([topic]):
        raise SkipRefused(f"there is no topic {topic!r} in the cluster of the pipeline's Kafka sink; make it first")


def _record(frame: DataFrame, place: RecordPlace) -> Skipped:
    """The record as it is in Kafka; an error if it cannot be one that the pipeline reads next."""
    for relation in numbered(frame):
        options = options_of(relation) if is_kafka(relation) else {}
        there = spans(frame.sparkSession, options) if options else {}
        if (span := there.get(place.partition_place)) is None:
            continue
        if not span.first <= place.offset < span.end:
            raise SkipRefused(f"{place} is not there: the partition holds offsets from {span.first} up to {span.end}")
        return _read(frame.sparkSession, options, place)
    raise SkipRefused(f"{place.topic}/{place.partition} is no partition that the pipeline reads")


def _read(spark: SparkSession, options: Mapping[str, str], place: RecordPlace) -> Skipped:
    """By Spark's own reader with the source's own settings, so that it is what an epoch would see."""
    reader = spark.read.format("kafka")
    for name, value in options.items():
        if name not in PLACED_BY_BROKERS:
            reader = reader.option(name, value)
    topic, partition, offset = place
    rows = (
        reader.option("assign", json.dumps({topic: [partition]}))
        .option("startingOffsets", json.dumps({topic: {partition: offset}}))
        .option("endingOffsets", json.dumps({topic: {partition: offset + 1}}))
        .option("includeHeaders", "true")
        .load()
        .select("key", "value", "headers", F.unix_millis("timestamp").alias("timestamp"))
        .collect()
    )
    if not rows:
        raise SkipRefused(
            f"{place} is no record: offsets are also taken by the ends of transactions, by records that were never "
            "committed, and by those that were compacted away"
        )
    row = rows[0]
    return Skipped(
        topic=topic,
        partition=partition,
        offset=offset,
        key=_bytes(row["key"]),
        value=_bytes(row["value"]),
        headers=[(it["key"], _bytes(it["value"])) for it in row["headers"] or ()],
        timestamp_ms=row["timestamp"],
    )


def _bytes(value: Any) -> bytes | None:
    return bytes(value) if value is not None else None
