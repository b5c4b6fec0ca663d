"""The contrast: the same application on what Spark itself offers.

The same sources, the same state, the same rows; only the epoch is not ours. Kafka is written by Spark's own sink,
PostgreSQL by upserts in `foreachBatch`, the lake table by appends: what Spark's documentation says to do.
"""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pyarrow as pa
from deltalake import write_deltalake
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import onceward as ow
from onceward.apps.ads import aggregate, attribute, clean, load, words
from onceward.apps.ads.places import Places

Write = Callable[[DataFrame], None]


def start(spark: SparkSession, places: Places, *, trigger_ms: int) -> list[StreamingQuery]:
    """All four, each with a checkpoint of its own."""
    own = _OwnSinks(spark, places)
    jobs: dict[str, tuple[DataFrame, Write]] = {
        "clean": (clean.judged_once(spark, places), own.cleaned),
        "aggregate": (aggregate.counted(spark, places), own.minutes),
        "attribute": (attribute.owed(spark, places), own.attributed),
        "load": (load.results(spark, places), own.loaded),
    }
    return [
        source.writeStream.queryName(places.pipeline(name))
        .option("checkpointLocation", str(places.home(name)))
        .trigger(processingTime=f"{trigger_ms} milliseconds")
        .foreachBatch(_persisted(write))
        .start()
        for name, (source, write) in jobs.items()
    ]


def _persisted(write: Write) -> Callable[[DataFrame, int], None]:
    def each(batch: DataFrame, _epoch: int) -> None:
        batch.persist()
        try:
            write(batch)
        finally:
            batch.unpersist()

    return each


class _OwnSinks:
    """What each of the four does with its rows."""

    def __init__(self, spark: SparkSession, places: Places) -> None:
        self._spark, self._places = spark, places

    def cleaned(self, batch: DataFrame) -> None:
        tables = self._look_up({"ads": clean.KNOWN_ADS})
        self._kafka(clean.letters(batch, tables, self._places).drop("timestamp"))

    def minutes(self, batch: DataFrame) -> None:
        self._kafka(aggregate.minute_records(batch), words.MINUTES)

    def attributed(self, batch: DataFrame) -> None:
        self._kafka(attribute.priced(batch, self._look_up(attribute.LOOKED_UP)), words.ATTRIBUTED)

    def loaded(self, batch: DataFrame) -> None:
        with psycopg.connect(self._places.dsn) as connection:
            _upsert(connection, self._places.table(words.MINUTES), load.minute_rows(batch, self._places))
            _upsert(connection, self._places.table(words.ATTRIBUTED), load.order_rows(batch, self._places))
        write_deltalake(self._places.history, load.history_rows(batch).toArrow(), mode="append")

    def _look_up(self, queries: dict[str, str]) -> dict[str, DataFrame]:
        found = ow.PostgresLookup(self._places.dsn, queries).read()
        return {name: self._spark.createDataFrame(table) for name, table in found.items()}

    def _kafka(self, rows: DataFrame, topic: str | None = None) -> None:
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", self._places.bootstrap)
        if topic is not None:
            writer = writer.option("topic", self._places.topic(topic))
        writer.save()


def _upsert(connection: "psycopg.Connection[Any]", table: str, rows: DataFrame) -> None:
    names = rows.columns
    text = sql.SQL("insert into {} ({}) values ({}) on conflict (id) do update set {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.SQL(", ").join(sql.Placeholder() * len(names)),
        sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names),
    )
    with connection.cursor() as cursor:
        cursor.executemany(text, list(_tuples(rows.toArrow())))


def _tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
