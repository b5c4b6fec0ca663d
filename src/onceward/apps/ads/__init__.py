"""Ad events and orders, cleaned, counted, attributed and billed to the cent: four pipelines joined by topics.

raw events ─▶ clean ─┬─▶ ad_events ─┬─▶ aggregate ─▶ ad_minutes ────────┬─▶ load ─▶ PostgreSQL
raw orders ─▶        ├─▶ orders ────┴─▶ attribute ─▶ attributed_orders ─┘        └▶ Delta table
                     └─▶ late events, dead letters
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import onceward as ow
    from onceward.apps.ads.places import Places


def pipelines(spark: "SparkSession", places: "Places") -> "list[ow.Pipeline]":
    """The whole application."""
    from onceward.apps.ads.aggregate import aggregate
    from onceward.apps.ads.attribute import attribute
    from onceward.apps.ads.clean import clean
    from onceward.apps.ads.load import load

    return [make(spark, places) for make in (clean, aggregate, attribute, load)]
