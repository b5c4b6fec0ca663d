"""One record of a pipeline's input, read from Kafka as an epoch would read it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from onceward.epoch.places import SourceRecord
from onceward.epoch.skips import Skipped
from onceward.errors import SkipRefused
from onceward.pipeline.relations import is_kafka, numbered, options_of
from onceward.pipeline.resets import spans

PLACED_BY_BROKERS: Final = frozenset({"subscribe", "subscribepattern", "assign", "startingoffsets", "endingoffsets"})


def record_at(frame: DataFrame, place: SourceRecord) -> Skipped:
    """The record as it is in Kafka; an error if it cannot be one that the pipeline reads next."""
    relations = numbered(frame)
    relation = relations[place.source] if place.source < len(relations) else None
    options = options_of(relation) if relation is not None and is_kafka(relation) else {}
    span = spans(frame.sparkSession, options).get(place.read_in.in_kafka) if options else None
    if span is None:
        raise SkipRefused(f"{place.read_in} is no partition that the pipeline reads")
    if not span.first <= place.offset < span.end:
        raise SkipRefused(f"{place} is not there: the partition holds offsets from {span.first} up to {span.end}")
    return _read(frame.sparkSession, options, place)


def _read(spark: SparkSession, options: Mapping[str, str], place: SourceRecord) -> Skipped:
    """By Spark's own reader with the source's own settings, so that it is what an epoch would see."""
    reader = spark.read.format("kafka")
    for name, value in options.items():
        if name not in PLACED_BY_BROKERS:
            reader = reader.option(name, value)
    source, topic, partition, offset = place
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
        source=source,
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
