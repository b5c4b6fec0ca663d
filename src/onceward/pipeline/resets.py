"""A reset as a pipeline asks for it: its sources by their number, and offsets compared with what the topics hold."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from onceward.epoch.contract import Guarantee
from onceward.epoch.home import Home
from onceward.epoch.outcome import Span, TopicPartition
from onceward.epoch.resetting import Resetting
from onceward.errors import BrokerUnreachable, ResetRefused, TopicUnusable
from onceward.pipeline.java_admin import Described, java_admin, reason
from onceward.pipeline.opening import now
from onceward.pipeline.relations import is_kafka, numbered, options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceward.pipeline.pipeline import Pipeline


def resetting(
    pipeline: "Pipeline",
    home: Home,
    *,
    offsets: Mapping[tuple[str, int], int] | None,
    from_group: bool,
    report: Callable[[str], None],
) -> Resetting:
    """Ready to be carried out once the home is ours; what can be refused before is refused here."""
    if offsets is not None and from_group:
        raise ResetRefused("offsets and from_group (--offsets, --from-group) exclude each other: say one of them")
    spark = pipeline.source.sparkSession
    relations = numbered(pipeline.source) if offsets is not None or from_group else []
    there = [spans(spark, options_of(it)) if is_kafka(it) else {} for it in relations]
    begins: dict[TopicPartition, int] | None = None
    if offsets is not None:
        begins = {TopicPartition(*place): offset for place, offset in offsets.items()}
        _require_readable(begins, {place: span for found in there for place, span in found.items()})
    return Resetting(
        home=home,
        pipeline=pipeline.name,
        guarantee=Guarantee(pipeline.guarantee),
        sinks=pipeline.sinks,
        sources=[frozenset(place.topic for place in found) for found in there],
        offsets=begins,
        from_group=from_group,
        now=now,
        report=report,
    )


def spans(spark: "SparkSession", options: Mapping[str, str]) -> dict[TopicPartition, Span]:
    """For each partition that a Kafka source reads, the first offset that is there and the one after the last."""
    try:
        with java_admin(spark, options) as brokers:
            described = brokers.describe(brokers.topics())
            if missing := {topic: it for topic, it in described.items() if isinstance(it, Py4JJavaError)}:
                told = "; ".join(f"{topic!r} ({reason(error)})" for topic, error in missing.items())
                raise TopicUnusable(f"the source's brokers do not tell about topic {told}")
            places = [
                (topic, number)
                for topic, it in described.items()
                if isinstance(it, Described)
                for number in it.partitions
            ]
            return {TopicPartition(*place): Span(*span) for place, span in brokers.ranges(places).items()}
    except Py4JJavaError as error:
        raise BrokerUnreachable(f"the source's brokers did not answer: {reason(error)}") from None


def _require_readable(offsets: Mapping[TopicPartition, int], there: Mapping[TopicPartition, Span]) -> None:
    """Every partition has an offset, and at each of them there is something to read, now or next."""
    if unknown := sorted(set(offsets) - set(there)):
        known = ", ".join(_told(place) for place in sorted(there)) or "none"
        raise ResetRefused(
            f"{', '.join(map(_told, unknown))} is not read by the pipeline, whose partitions are {known}"
        )
    if missing := sorted(set(there) - set(offsets)):
        raise ResetRefused(
            f"offsets are given for some partitions only; {', '.join(map(_told, missing))} would be left to chance. "
            "Name them all."
        )
    for place, offset in sorted(offsets.items()):
        span = there[place]
        if not span.first <= offset <= span.end:
            raise ResetRefused(
                f"{_told(place)} cannot begin at {offset}: the topic holds offsets from {span.first} up to {span.end}"
            )


def _told(place: TopicPartition) -> str:
    return f"{place.topic}/{place.partition}"
