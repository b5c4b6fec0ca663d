"""Two states compared key by key: what was added, removed and changed, by operator and store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import StructType

from onceward.pipeline.reading_state import StoredState, places_of

LIMIT: Final = 20  # rows that are shown of each store; counts are complete
PARTITION: Final = "partition_id"
KEYS: Final = ("key", "user_map_key")
AS_IT_IS: Final = {"ignoreNullFields": "false"}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One key; what it held, as JSON. Where a key holds several values, a list of them."""

    kind: Literal["added", "removed", "changed"]
    key: str
    before: str | None = None
    after: str | None = None


class StoreDiff(msgspec.Struct, frozen=True, kw_only=True):
    """One store of one operator."""

    operator: int
    name: str
    store: str
    added: int
    removed: int
    changed: int
    same: int
    rows: list[Change] = []  # the first ones, by key


def diff(
    spark: SparkSession, a: str | Path, b: str | Path, *, operator: int | None = None, limit: int = LIMIT
) -> list[StoreDiff]:
    """From A to B, each a savepoint or a home; all operators, or one."""
    before, after = StoredState.at(a, spark), StoredState.at(b, spark)
    if operator is not None and not any(it.number == operator for it in [*before.operators, *after.operators]):
        before.operator(operator)  # says which there are
    return [
        _compared(_rows(before, spark, place), _rows(after, spark, place), place, limit)
        for place in _stores(before, after)
        if operator in {None, place[0]}
    ]


def _stores(before: StoredState, after: StoredState) -> Iterator[tuple[int, str, str]]:
    """All that one of them has; an operator that is another one now is told as gone and as new."""
    found = [
        (operator.number, operator.name, store)
        for side in (before, after)
        for operator in side.operators
        for store in places_of(operator)
    ]
    yield from sorted(dict.fromkeys(found))


def _rows(side: StoredState, spark: SparkSession, place: tuple[int, str, str]) -> DataFrame | None:
    number, name, store = place
    there = any((it.number, it.name) == (number, name) and store in places_of(it) for it in side.operators)
    return side.read(spark, number, store, None) if there else None


def _compared(before: DataFrame | None, after: DataFrame | None, place: tuple[int, str, str], limit: int) -> StoreDiff:
    number, name, store = place
    old, new = _by_key(before, "before"), _by_key(after, "after")
    if old is None or new is None:
        one, missing = (new, "before") if old is None else (old, "after")
        assert one is not None  # one of them has it
        both = one.withColumn(missing, F.lit(None).cast("string"))
    else:
        both = old.join(new, "k", "full_outer")
    kind = (
        F.when(F.col("before").isNull(), "added")
        .when(F.col("after").isNull(), "removed")
        .when(F.col("before") != F.col("after"), "changed")
        .otherwise("same")
    )
    told = both.withColumn("kind", kind).cache()
    try:
        counts = {row["kind"]: int(row["count"]) for row in told.groupBy("kind").count().collect()}
        rows = told.where("kind <> 'same'").orderBy("k").limit(limit).collect()
    finally:
        told.unpersist()
    return StoreDiff(
        operator=number,
        name=name,
        store=store,
        added=counts.get("added", 0),
        removed=counts.get("removed", 0),
        changed=counts.get("changed", 0),
        same=counts.get("same", 0),
        rows=[Change(kind=it["kind"], key=it["k"], before=it["before"], after=it["after"]) for it in rows],
    )


def _by_key(frame: DataFrame | None, name: str) -> DataFrame | None:
    """One row for each key: of a list, and of a join's rows, all values together, in order."""
    if frame is None:
        return None
    keys = [it for it in frame.columns if it in KEYS]
    values = [it for it in frame.columns if it not in KEYS and it != PARTITION]
    told = frame.select(_json(frame, keys).alias("k"), _json(frame, values).alias("v"))
    together = F.sort_array(F.collect_list("v"))
    joined = F.concat(F.lit("["), F.concat_ws(",", together), F.lit("]"))
    return told.groupBy("k").agg(F.when(F.size(together) == 1, together[0]).otherwise(joined).alias(name))


def _json(frame: DataFrame, columns: list[str]) -> Column:
    if len(columns) > 1:
        return F.to_json(F.struct(*columns), AS_IT_IS)
    [column] = columns
    told = F.to_json(column, AS_IT_IS) if isinstance(frame.schema[column].dataType, StructType) else F.col(column)
    return F.coalesce(told.cast("string"), F.lit("null"))
