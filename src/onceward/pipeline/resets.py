"""A reset as a pipeline asks for it: its sources by their number, and offsets compared with what the topics hold."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from onceward.epoch.contract import Guarantee
from onceward.epoch.home import Home
from onceward.epoch.outcome import Span, TopicPartition
from onceward.epoch.resetting import Resetting
from onceward.errors import ResetRefused
from onceward.pipeline.relations import is_kafka, numbered, options_of
from onceward.pipeline.source_brokers import spans, topics_of

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
    spark, relations = pipeline.source.sparkSession, numbered(pipeline.source)
    sources = [_topics(spark, relation) for relation in relations]
    begins: dict[TopicPartition, int] | None = None
    if offsets is not None:
        begins = {TopicPartition(*place): offset for place, offset in offsets.items()}
        there: dict[TopicPartition, Span] = {}
        for relation, topics in zip(relations, sources, strict=True):
            if topics:
                there |= spans(spark, options_of(relation), topics)
        _require_readable(begins, there)
    return Resetting(
        home=home,
        pipeline=pipeline.name,
        guarantee=Guarantee(pipeline.guarantee),
        sinks=pipeline.sinks,
        sources=sources,
        offsets=begins,
        from_group=from_group,
        report=report,
    )


def _topics(spark: "SparkSession", relation: Any) -> frozenset[str]:
    return topics_of(spark, options_of(relation)) if is_kafka(relation) else frozenset()


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
