"""Records that a person has told the pipeline to pass over: noted in the home, and taken out of the input."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from pyspark.sql import DataFrame

from onceward.epoch import skips
from onceward.epoch.home import Home
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.places import SourceRecord
from onceward.epoch.skips import Skipped
from onceward.epoch.takeover import TakenOver
from onceward.errors import SkipRefused
from onceward.holding import this_process
from onceward.pipeline.fitting import Fitting
from onceward.pipeline.opening import now, start_of, stoppable_patience, take_over
from onceward.pipeline.relations import children_of, is_kafka, numbered, options_of
from onceward.pipeline.resets import spans
from onceward.pipeline.skipped_records import record_at

if TYPE_CHECKING:
    from onceward.pipeline.pipeline import Pipeline


def without(frame: DataFrame, records: Sequence[Skipped]) -> DataFrame:
    """The same query over all other records: a Kafka source in Spark's plan that reads some gets a filter above it.

    The filter is below everything that keeps state, so state and its numbering stay as they are.
    """
    spark = cast("Any", frame.sparkSession)
    conditions = [
        (relation, _condition(mine))
        for source, relation in enumerate(numbered(frame))
        if (mine := skips.of_source(records, source))
    ]
    plan = _filtered(spark, frame._jdf.queryExecution().analyzed(), conditions)  # noqa: SLF001 - no plans
    return DataFrame(_of_plan(spark, plan), spark)


def told(records: Sequence[Skipped]) -> str:
    """At every start: the home's file could say it without anybody having asked for it."""
    places = ", ".join(f"{it.place}{f' (to {it.dead_letters})' if it.dead_letters else ''}" for it in records)
    return f"records that are left out, as the home's {skips.FILE} says: {places}"


def _filtered(spark: Any, plan: Any, conditions: Sequence[tuple[Any, str]]) -> Any:
    for relation, condition in conditions:
        if is_kafka(plan) and plan.equals(relation):
            return _of_plan(spark, plan).filter(condition).queryExecution().analyzed()
    children = children_of(plan)
    changed = [_filtered(spark, child, conditions) for child in children]
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


def place_of(pipeline: "Pipeline", source: int | None, topic: str, partition: int, offset: int) -> SourceRecord:
    """Which source reads it; where several do, a person has to say which one is meant."""
    spark, wanted = pipeline.source.sparkSession, TopicPartition(topic, partition)
    found = [
        number
        for number, relation in enumerate(numbered(pipeline.source))
        if is_kafka(relation) and source in {None, number} and wanted in spans(spark, options_of(relation))
    ]
    if not found:
        which = f"source {source}" if source is not None else "the pipeline"
        raise SkipRefused(f"{topic}/{partition} is no partition that {which} reads")
    if len(found) > 1:
        named = ", ".join(f"{number}:{topic}/{partition}/{offset}" for number in found)
        raise SkipRefused(f"{topic}/{partition} is read by several sources; say which one is meant: {named}")
    return SourceRecord(found[0], topic, partition, offset)


def skip(
    pipeline: "Pipeline",
    home: Home,
    place: SourceRecord,
    *,
    reason: str,
    dead_letters: bool,
    report: Callable[[str], None],
) -> Skipped:
    """On record in the home, which is taken over for it: nobody commits the record meanwhile."""
    topic = _topic_for_letters(pipeline) if dead_letters else None
    found = record_at(pipeline.source, place)
    by = str(this_process(pipeline.name, 0)).partition(", since")[0]
    found = msgspec.structs.replace(found, reason=reason, dead_letters=topic, at=now(), by=by)

    def write(taken: TakenOver) -> None:
        taken.require_ahead(place)
        skips.add(taken.checkpoint.notes, found)

    _in(pipeline, home, write, report)
    return found


def undo(pipeline: "Pipeline", home: Home, place: SourceRecord, *, report: Callable[[str], None]) -> None:
    """A record that no epoch has passed over yet is read after all."""

    def write(taken: TakenOver) -> None:
        taken.require_ahead(place)
        skips.remove(taken.checkpoint.notes, place)

    _in(pipeline, home, write, report)


def _in(pipeline: "Pipeline", home: Home, write: Callable[[TakenOver], None], report: Callable[[str], None]) -> None:
    """Do it in a home that is ours, in which nothing is in doubt: what a start does first is done first."""
    if home.deed() is None:
        raise SkipRefused(f"{home.location} is nobody's home yet: nothing was read, so nothing can be skipped")
    fits = Fitting(pipeline, lambda: stoppable_patience(0, lambda: False))
    opened = take_over(start_of(pipeline, home, shape=fits.shape, fits=fits, report=report))
    try:
        write(opened.taken)
    finally:
        opened.close()


def _topic_for_letters(pipeline: "Pipeline") -> str:
    """As the pipeline's file names it, and it is there."""
    from onceward.sinks.kafka import KafkaSink

    sink = next((sink for sink in pipeline.sinks.values() if isinstance(sink, KafkaSink)), None)
    if sink is None:
        raise SkipRefused(
            f"pipeline {pipeline.name!r} has no Kafka sink, so nothing can carry the record anywhere with its epoch; "
            "leave --dead-letters out: the record itself is kept in the home (`onceward skip HOME --list`)"
        )
    if sink.dead_letters is None:
        raise SkipRefused(
            f"the Kafka sink of pipeline {pipeline.name!r} has no topic for dead letters; name one in the pipeline's "
            "file: KafkaSink(..., dead_letters='TOPIC')"
        )
    if not sink.wire.topics(sink.dead_letter_topics):
        raise SkipRefused(
            f"there is no topic {sink.dead_letters!r} in the cluster of the pipeline's Kafka sink; make it first"
        )
    return sink.dead_letters
