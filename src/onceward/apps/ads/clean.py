"""clean: every raw record ends in one of four topics, in one transaction.

    raw ──▶ readable? ──▶ on time? ──▶ seen before? ──▶ known ad? ──▶ ad_events, orders
               │             │             │                │
           dead letter     late         dropped        dead letter

Nothing here asks a clock: whether an event is late is decided by the time it carries and the time of its record. So
the outcome is the same however the records fall into epochs.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.apps.ads import words
from onceward.apps.ads.places import Places

KNOWN_ADS = "select ad from ads"
FIELDS = "id string, type string, user string, store string, ad string, at bigint, amount bigint, malformed string"
END = "the end of the record"


def clean(spark: SparkSession, places: Places) -> ow.Pipeline:
    """The first pipeline."""
    return ow.Pipeline(
        places.pipeline("clean"),
        home=places.home("clean"),
        source=judged_once(spark, places),
        guarantee=places.guarantee,
        lookup=ow.PostgresLookup(places.dsn, {"ads": KNOWN_ADS}),
        on_late_rows="fail",
    ).to(ow.KafkaSink(places.bootstrap), rows=lambda batch, tables: letters(batch, tables, places))


def judged_once(spark: SparkSession, places: Places) -> DataFrame:
    """Every raw record with a judgement; of an event that came several times, one."""
    topics = [places.topic(name) for name in words.RAW]
    raw = ow.read_kafka(spark, places.bootstrap, topics=topics, max_records_per_epoch=places.records_per_epoch)
    waiting = judged(raw).withWatermark("time", f"{words.WATERMARK_MS} milliseconds")
    return waiting.dropDuplicatesWithinWatermark(["identity"])


def judged(raw: DataFrame) -> DataFrame:
    """Each record with its fields, what is wrong with it, and what makes it the same as another.

    `identity`: the event's id among its kind (an order may have the number of a click); for a record that is no event
    on time, its place in Kafka, which no other shares.
    """
    text = F.col("value").cast("string")
    read = raw.select(
        "value",
        F.col("timestamp").alias("arrived"),
        F.concat_ws("-", "topic", "partition", "offset").alias("place"),
        F.from_json(text, FIELDS, {"columnNameOfCorruptRecord": "malformed"}).alias("event"),
        _is_one_object(text).alias("whole"),
    ).select("value", "arrived", "place", "whole", "event.*")
    return (
        read.withColumn("fault", _fault())
        .withColumn("late", F.col("fault").isNull() & (F.col("at") < F.unix_millis("arrived") - words.HORIZON_MS))
        .withColumn("taken", F.col("fault").isNull() & ~F.col("late"))
        .withColumn("identity", F.when(F.col("taken"), F.concat_ws(":", "type", "id")).otherwise(F.col("place")))
        .withColumn("time", F.when(F.col("taken"), F.timestamp_millis("at")).otherwise(F.col("arrived")))
        .drop("malformed", "whole")
    )


def _is_one_object(text: Column) -> Column:
    """Spark reads the first object of a text, or of a list, and is silent about the rest, which would be lost.

    So the text is read once more, as the first of two elements of a list: the second must be our own word.
    """
    listed = F.from_json(F.concat(F.lit("["), text, F.lit(f',"{END}"]')), "array<string>")
    alone = (F.size(listed) == 2) & (F.try_element_at(listed, F.lit(2)) == END)
    return text.rlike(r"^\s*\{") & F.coalesce(alone, F.lit(False))  # noqa: FBT003 - a column's value


def _fault() -> Column:
    """Why a record is no event; null for one that is."""
    kind = F.col("type")
    shown = kind.isin(words.IMPRESSION, words.CLICK)
    sold = kind == words.ORDER
    return (
        F.when(F.col("value").isNull(), "empty")
        .when(F.col("malformed").isNotNull() | ~F.col("whole"), "malformed")
        .when(F.col("id").isNull(), "missing id")
        .when(kind.isNull(), "missing type")
        .when(F.col("at").isNull(), "missing at")
        .when(~(shown | sold | (kind == words.HEARTBEAT)), "unknown type")
        .when((shown | sold) & F.col("user").isNull(), "missing user")
        .when((shown | sold) & F.col("store").isNull(), "missing store")
        .when(shown & F.col("ad").isNull(), "missing ad")
        .when(sold & F.col("amount").isNull(), "missing amount")
        .when(F.col("at") > F.unix_millis("arrived") + words.AHEAD_MS, "from the future")
    )


def letters(batch: DataFrame, tables: Mapping[str, DataFrame], places: Places) -> DataFrame:
    """An epoch's rows as Kafka records: what is wrong goes on as it came, with the reason as a header."""
    known = F.broadcast(tables["ads"].withColumn("known", F.lit(True)))  # noqa: FBT003 - a column's value
    found = batch.join(known, "ad", "left")
    unknown = F.col("taken") & F.col("type").isin(words.IMPRESSION, words.CLICK) & F.col("known").isNull()
    reason = F.when(unknown, "unknown ad").otherwise(F.col("fault"))
    good = F.col("reason").isNull() & ~F.col("late")
    return (
        found.withColumn("reason", reason)
        .withColumn("good", good)
        .withColumn("topic", F.explode(_topics(places)))
        .select(
            "topic",
            F.when(F.col("good"), F.coalesce("user", "id")).otherwise(F.col("identity")).alias("key"),
            F.when(
                F.col("good"), F.to_json(F.struct("id", "type", "user", "store", "ad", "at", "amount")).cast("binary")
            )
            .otherwise(F.col("value"))
            .alias("value"),
            # Of several copies one is taken, and a replay may take another: only what they share may be written.
            F.when(F.col("late") | F.col("fault").isNotNull(), F.col("arrived"))
            .otherwise(F.col("time"))
            .alias("timestamp"),
            F.when(
                F.col("reason").isNotNull(),
                F.array(F.struct(F.lit("reason").alias("key"), F.col("reason").cast("binary").alias("value"))),
            ).alias("headers"),
        )
    )


def _topics(places: Places) -> Column:
    """Where a record goes; a heartbeat goes wherever time has to pass."""
    events, orders, late, dead = (
        F.lit(places.topic(name)) for name in (words.AD_EVENTS, words.ORDERS, words.LATE, words.DEAD)
    )
    return (
        F.when(F.col("reason").isNotNull(), F.array(dead))
        .when(F.col("late"), F.array(late))
        .when(F.col("type") == words.HEARTBEAT, F.array(events, orders))
        .when(F.col("type") == words.ORDER, F.array(orders))
        .otherwise(F.array(events))
    )
