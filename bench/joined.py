"""Three pipelines in a chain and two in a cycle, for `python -m bench.snapshots`.

numbers > first > doubled > second > distinct > third > results          second keeps state: each number counts once
tokens > there > turns > back > arrived, or again > there                 a token goes round until it has no turn left
"""

import os

from pyspark.sql import DataFrame, SparkSession

import onceward as ow


def read(spark: SparkSession, *topics: str) -> DataFrame:
    most = os.environ.get("MOST_RECORDS")
    records = ow.read_kafka(
        spark, os.environ["KAFKA"], topics=topics, max_records_per_epoch=int(most) if most is not None else None
    )
    return records.selectExpr("cast(key as string) as key", "cast(cast(value as string) as long) as value")


def build(spark: SparkSession) -> list[ow.Pipeline]:
    def pipeline(name: str, rows: DataFrame, *, to: str | None) -> ow.Pipeline:
        columns = ["key", "cast(value as string) as value", *(["topic"] if to is None else [])]
        sink = ow.KafkaSink(os.environ["KAFKA"], topic=to)
        made = ow.Pipeline(name, f"{os.environ['HOMES']}/{name}", rows)
        return made.to(sink, rows=lambda batch: batch.selectExpr(*columns))

    doubled = read(spark, "numbers").selectExpr("key", "value * 2 as value")
    results = read(spark, "distinct").selectExpr("key", "value + 1 as value")
    turned = read(spark, "turns").selectExpr("key", "value - 1 as value", "if(value > 1, 'again', 'arrived') as topic")
    return [
        pipeline("first", doubled, to="doubled"),
        pipeline("second", read(spark, "doubled").dropDuplicates(["key"]), to="distinct"),
        pipeline("third", results, to="results"),
        pipeline("there", read(spark, "tokens", "again"), to="turns"),
        pipeline("back", turned, to=None),
    ]
