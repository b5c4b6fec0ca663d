"""A reset as a pipeline asks for it: its sources by their number, and offsets compared with what the topics hold."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from onceward.epoch.new_lineage import NewLineage
from onceward.epoch.outcome import Span, TopicPartition
from onceward.epoch.places import SourcePartition
from onceward.epoch.resetting import Resetting
from onceward.epoch.starting import Start
from onceward.errors import BrokerUnreachable, ResetRefused, TopicUnusable
from onceward.pipeline.java_admin import Described, java_admin, reason
from onceward.pipeline.relations import is_kafka, numbered, options_of
from onceward.pipeline.source_topics import topic_ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceward.pipeline.pipeline import Pipeline


# By topic and partition, or by source, topic and partition; as a person writes it, the source may be left out.
Offsets = Mapping[tuple[str, int], int] | Mapping[tuple[int, str, int], int] | Mapping[tuple[int | None, str, int], int]


def resetting(
    pipeline: "Pipeline", start: Start, *, offsets: Offsets | None, from_group: bool
) -> tuple[NewLineage, Resetting]:
    """Ready to be carried out once the home is ours; what can be refused before is refused here."""
    if offsets is not None and from_group:
        raise ResetRefused("offsets and from_group (--offsets, --from-group) exclude each other: say one of them")
    spark = pipeline.source.sparkSession
    relations = numbered(pipeline.source) if offsets is not None or from_group else []
    there = [spans(spark, options_of(it)) if is_kafka(it) else {} for it in relations]
    resetting = Resetting(
        pipeline=pipeline.name,
        sources=[frozenset(place.topic for place in found) for found in there],
        offsets=_by_source(offsets, there) if offsets is not None else None,
        from_group=from_group,
        topics=topic_ids(pipeline.source) if relations else [],
    )
    return NewLineage(start=start, begins=resetting), resetting


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


def _by_source(offsets: Offsets, there: Sequence[Mapping[TopicPartition, Span]]) -> list[dict[TopicPartition, int]]:
    """Every partition of every source has an offset, and at each of them there is something to read, now or next."""
    known = {
        SourcePartition(source, *place): span for source, found in enumerate(there) for place, span in found.items()
    }
    begins: dict[SourcePartition, int] = {}
    for written, offset in offsets.items():
        source, topic, partition = written if len(written) == 3 else (None, *written)
        meant = [it for it in known if (it.topic, it.partition) == (topic, partition) and source in {None, it.source}]
        if not meant:
            named = ", ".join(map(str, sorted(known))) or "none"
            raise ResetRefused(
                f"{SourcePartition(source or 0, topic, partition)} is not read by the pipeline, whose partitions are "
                f"{named}"
            )
        if len(meant) > 1:
            raise ResetRefused(
                f"{topic}/{partition} is read by several sources: say which ({', '.join(map(str, meant))}; the first "
                f"is 0:{topic}/{partition})"
            )
        begins[meant[0]] = offset
    if missing := sorted(set(known) - set(begins)):
        raise ResetRefused(
            f"offsets are given for some partitions only; {', '.join(map(str, missing))} would be left to chance. Name "
            "them all."
        )
    for place, offset in sorted(begins.items()):
        if not known[place].first <= offset <= known[place].end:
            raise ResetRefused(
                f"{place} cannot begin at {offset}: the topic holds offsets from {known[place].first} up to "
                f"{known[place].end}"
            )
    return [
        {place.in_kafka: offset for place, offset in begins.items() if place.source == source}
        for source in range(len(there))
    ]
