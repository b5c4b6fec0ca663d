"""attribute: each order is owed to the last click of its user on its store, else to the last impression.

Whatever comes first, order or click: a join of two streams waits until neither can come any more. Then the ad's
campaign and the price that was valid when the order was placed are looked up in PostgreSQL.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.apps.ads import words
from onceward.apps.ads.aggregate import cleaned
from onceward.apps.ads.places import Places

ADS = "select ad, campaign, currency from ads join campaigns using (campaign)"
PRICES = """
    select campaign, price, valid_from, lead(valid_from) over (partition by campaign order by valid_from) as valid_to
    from prices
"""
LOOKED_UP = {"ads": ADS, "prices": PRICES}
ORDER_FIELDS = ("id", "user", "store", "at", "amount")


def attribute(spark: SparkSession, places: Places) -> ow.Pipeline:
    """The third pipeline."""
    return ow.Pipeline(
        places.pipeline("attribute"),
        home=places.home("attribute"),
        source=owed(spark, places),
        guarantee=places.guarantee,
        lookup=ow.PostgresLookup(places.dsn, LOOKED_UP),
        on_late_rows="fail",
    ).to(ow.KafkaSink(places.bootstrap, topic=places.topic(words.ATTRIBUTED)), rows=priced)


def owed(spark: SparkSession, places: Places) -> DataFrame:
    """Both streams, joined."""
    return attributed(cleaned(spark, places, words.ORDERS), cleaned(spark, places, words.AD_EVENTS))


def attributed(orders: DataFrame, events: DataFrame) -> DataFrame:
    """Every order with what it is owed to, or with nothing."""
    touches = events.select(
        # Spark would filter null keys before its watermark has seen them, and heartbeats have no user.
        F.coalesce("user", F.lit("")).alias("who"),
        F.coalesce("store", F.lit("")).alias("place"),
        F.col("time").alias("touched"),
        F.struct((F.col("type") == words.CLICK).alias("clicked"), "at", "id").alias("rank"),
        F.struct("id", "type", "ad").alias("touch"),
    )
    near = (
        (F.col("who") == F.col("user"))
        & (F.col("place") == F.col("store"))
        & F.col("touched").between(F.col("time") - F.expr(f"interval {words.WINDOW_MS // 1000} seconds"), F.col("time"))
    )
    return (
        orders.join(touches, near, "left_outer")
        .groupBy("time", "type", *ORDER_FIELDS)
        .agg(F.max_by("touch", "rank").alias("touch"))
    )


def priced(batch: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    """One Kafka record per order, with campaign, price and currency."""
    ads = tables["ads"].withColumnRenamed("ad", "known")
    prices = tables["prices"].withColumnRenamed("campaign", "payer")
    valid = (
        (F.col("payer") == F.col("campaign"))
        & (F.col("valid_from") <= F.col("time"))
        & (F.col("valid_to").isNull() | (F.col("time") < F.col("valid_to")))
    )
    made = (
        batch.where(F.col("type") == words.ORDER)
        .join(F.broadcast(ads), F.col("touch.ad") == F.col("known"), "left")
        .join(F.broadcast(prices), valid, "left")
        .select(
            *ORDER_FIELDS,
            F.col("touch.id").alias("touch"),
            F.col("touch.type").alias("touch_type"),
            F.col("touch.ad").alias("ad"),
            "campaign",
            F.col("price").cast("string").alias("price"),
            "currency",
        )
    )
    return made.select(F.col("id").alias("key"), F.to_json(F.struct("*")).alias("value"))
