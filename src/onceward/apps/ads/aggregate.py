"""aggregate: how often each ad was shown and clicked in each minute. One record per minute, when it is over."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.apps.ads import words
from onceward.apps.ads.places import Places

EVENT = "id string, type string, user string, store string, ad string, at bigint, amount bigint"


def cleaned(spark: SparkSession, places: Places, topic: str) -> DataFrame:
    """What `clean` has put into a topic, with the time that Spark goes by."""
    read = ow.read_kafka(
        spark, places.bootstrap, topics=[places.topic(topic)], max_records_per_epoch=places.records_per_epoch
    )
    return (
        read.select(F.from_json(F.col("value").cast("string"), EVENT).alias("event"))
        .select("event.*", F.timestamp_millis("event.at").alias("time"))
        .withWatermark("time", f"{words.WATERMARK_MS} milliseconds")
    )


def aggregate(spark: SparkSession, places: Places) -> ow.Pipeline:
    """The second pipeline."""
    return ow.Pipeline(
        places.pipeline("aggregate"),
        home=places.home("aggregate"),
        source=counted(spark, places),
        guarantee=places.guarantee,
        on_late_rows="fail",
    ).to(ow.KafkaSink(places.bootstrap, topic=places.topic(words.MINUTES)), rows=minute_records)


def counted(spark: SparkSession, places: Places) -> DataFrame:
    """Spark gives a window out once, when the watermark has passed its end."""
    events = cleaned(spark, places, words.AD_EVENTS)
    return events.groupBy(F.window("time", f"{words.MINUTE_MS} milliseconds"), "ad", "type").count()


def minute_records(batch: DataFrame) -> DataFrame:
    """One Kafka record per minute. Heartbeats had to pass Spark's clock, and end here."""
    minute = F.unix_millis("window.start")
    return (
        batch.where(F.col("type") != words.HEARTBEAT)
        .withColumn("minute", minute)
        .withColumn("id", F.concat_ws("|", "ad", "type", "minute"))
        .select(F.col("ad").alias("key"), F.to_json(F.struct("id", "ad", "type", "minute", "count")).alias("value"))
    )
