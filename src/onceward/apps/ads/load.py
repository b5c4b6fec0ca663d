"""load: minutes and attributed orders, into PostgreSQL for serving and into a Delta table for ever, in one epoch."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.apps.ads import words
from onceward.apps.ads.places import Places

MINUTE_ROW = "id string, ad string, type string, minute bigint, count bigint"
ORDER_ROW = (
    "id string, user string, store string, at bigint, amount bigint, touch string, touch_type string, ad string, "
    "campaign string, price string, currency string"
)


def load(spark: SparkSession, places: Places) -> ow.Pipeline:
    """The fourth pipeline. It has no Kafka sink: its ledger holds the decision."""
    source = results(spark, places)
    return (
        ow.Pipeline(places.pipeline("load"), home=places.home("load"), source=source, guarantee=places.guarantee)
        .to(
            ow.PostgresSink(places.dsn, table=places.table(words.MINUTES), mode="upsert", key=("id",)),
            rows=lambda batch: minute_rows(batch, places),
            name="minutes",
        )
        .to(
            ow.PostgresSink(places.dsn, table=places.table(words.ATTRIBUTED), mode="upsert", key=("id",)),
            rows=lambda batch: order_rows(batch, places),
            name="orders",
        )
        .to(ow.DeltaSink(places.history), rows=history_rows, name="history")
    )


def results(spark: SparkSession, places: Places) -> DataFrame:
    """What the other pipelines have found out."""
    topics = [places.topic(words.MINUTES), places.topic(words.ATTRIBUTED)]
    return ow.read_kafka(spark, places.bootstrap, topics=topics, max_records_per_epoch=places.records_per_epoch)


def minute_rows(batch: DataFrame, places: Places) -> DataFrame:
    """Rows of the table `ad_minutes`."""
    return _fields(batch, places.topic(words.MINUTES), MINUTE_ROW).select(
        "id", "ad", "type", F.timestamp_millis("minute").alias("minute"), "count"
    )


def order_rows(batch: DataFrame, places: Places) -> DataFrame:
    """Rows of the table `attributed_orders`; money as decimals, never as floating point."""
    return _fields(batch, places.topic(words.ATTRIBUTED), ORDER_ROW).select(
        "id",
        F.col("user").alias("buyer"),
        "store",
        F.timestamp_millis("at").alias("ordered"),
        (F.col("amount") / F.lit(100).cast("decimal(3,0)")).cast("decimal(12,2)").alias("amount"),
        "touch",
        "touch_type",
        "ad",
        "campaign",
        F.col("price").cast("decimal(12,2)").alias("price"),
        "currency",
    )


def history_rows(batch: DataFrame) -> DataFrame:
    """Every record as it came, for ever."""
    value = F.col("value").cast("string")
    return batch.select("topic", F.get_json_object(value, "$.id").alias("id"), value.alias("value"))


def _fields(batch: DataFrame, topic: str, schema: str) -> DataFrame:
    wanted = batch.where(F.col("topic") == topic)
    return wanted.select(F.from_json(F.col("value").cast("string"), schema).alias("record")).select("record.*")
