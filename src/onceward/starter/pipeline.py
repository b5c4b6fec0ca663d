"""What every customer has spent so far: orders come in, totals go out, and each order counts once.

Run it:  onceward run pipeline.py
"""

import os

from pyspark.sql import DataFrame, SparkSession

import onceward as ow

KAFKA = os.environ.get("KAFKA", "localhost:9092")


def build(spark: SparkSession) -> ow.Pipeline:
    """What `onceward run` asks for: one pipeline, or a list of them."""
    # A streaming DataFrame with Kafka's own columns: key, value, topic, partition, offset, timestamp.
    orders = ow.read_kafka(spark, KAFKA, topics=["new-project-orders"])

    # From here on it is plain Spark. Money is decimal: sums of floating-point numbers depend on the order of the rows.
    totals = (
        orders.selectExpr("string(key) as customer", "cast(string(value) as decimal(12, 2)) as amount")
        .groupBy("customer")
        .agg({"amount": "sum"})
        .withColumnRenamed("sum(amount)", "total")
    )

    # The name is the pipeline's identity in Kafka, for ever. The home is where it keeps its state and its ledger.
    # "update": each epoch writes the totals that have changed in it.
    return ow.Pipeline("new-project", home="data/new-project", source=totals, output_mode="update").to(
        ow.KafkaSink(KAFKA, topic="new-project-totals"), rows=as_records
    )


def as_records(totals: DataFrame) -> DataFrame:
    """The columns of a Kafka record: key and value, as text or bytes."""
    return totals.selectExpr("customer as key", "string(total) as value")
