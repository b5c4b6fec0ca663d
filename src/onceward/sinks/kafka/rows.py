"""The rows a Kafka sink takes: Spark's own Kafka columns, checked, plus a hash of each row.

The hash is computed by Spark (xxhash64, compiled into the query), because Python should not look at rows
one by one; its sum is the epoch's digest, and it spreads rows without a key over partitions.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from onceward.errors import InvalidRows
from onceward.sinks.collecting import Selection, arrow_schema
from onceward.sinks.kafka.copying import Origin
from onceward.sinks.kafka.encoding import HASH

_BYTES: Final = (StringType, BinaryType)
_COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "timestamp")


@dataclass(frozen=True, slots=True)
class Shaped:
    """What every batch of a query looks like that gives the sink's own columns, at most one row for each record."""

    columns: frozenset[str]
    schema: pa.Schema

    def batch(self, frame: DataFrame, origin: Origin | None = None) -> "ShapedBatch":
        """One of them."""
        return ShapedBatch(frame, self, origin)


@dataclass(frozen=True, slots=True)
class ShapedBatch:
    """A batch that needs no query of its own."""

    frame: DataFrame
    shape: Shaped
    origin: Origin | None = None  # where its rows are records as they are


class KafkaRows:
    """Turns each epoch's DataFrame into what the encoder takes.

    A schema is looked at once: every call into the JVM costs part of a millisecond, and epochs are short.
    """

    def __init__(self, default_topic: str | None, prefix: str = "") -> None:
        """`prefix`: of the topics that rows name themselves."""
        self._default_topic = default_topic
        self._prefix = prefix
        self._selections: dict[str, Selection] = {}

    def of(self, rows: DataFrame) -> DataFrame:
        """Exactly the columns that are there, checked, and the row's hash."""
        schema = rows._jdf.schema().catalogString()  # noqa: SLF001 - a tenth of the cost of rows.schema
        if schema not in self._selections:
            self._selections[schema] = Selection(self._expressions_for(rows))
        return self._selections[schema].of(rows)

    def ahead(self, source: DataFrame) -> tuple[DataFrame, Shaped]:
        """The same of a whole query, once."""
        frame = source.selectExpr(*self._expressions_for(source))
        return frame, Shaped(frozenset(frame.columns), arrow_schema(frame))

    def _expressions_for(self, rows: DataFrame) -> list[str]:
        types = {field.name.lower(): (field.name, field.dataType) for field in rows.schema.fields}
        _check(types, self._default_topic)
        chosen: list[str] = []
        hashed: list[str] = []
        for name in _COLUMNS:
            if name not in types:
                continue
            column = f"`{types[name][0]}`"
            if name in {"key", "value"}:
                # Without the flag (null, "a") and ("a", null) would hash alike.
                hashed.append(f"isnull({column})")
                column = f"cast({column} as binary)"
            if name == "topic" and self._prefix:
                column = f"concat('{self._prefix}', {column})"
            hashed.append(column)
            chosen.append(f"{column} as {name}")
        return [*chosen, f"xxhash64({', '.join(hashed)}) as {HASH}"]


def _check(types: dict[str, tuple[str, DataType]], default_topic: str | None) -> None:
    found = ", ".join(f"{name} {data_type.simpleString()}" for name, data_type in types.values()) or "none"
    unknown = sorted(set(types) - set(_COLUMNS))
    if unknown:
        raise InvalidRows(
            f"a Kafka sink takes the columns {', '.join(_COLUMNS)}; it cannot place {', '.join(unknown)}. "
            "Select what should be written, for example rows=lambda batch: batch.selectExpr('key', "
            "'to_json(struct(*)) as value')"
        )
    if "value" not in types:
        raise InvalidRows(f"the rows have no column 'value' (they have: {found}); select one, as string or binary")
    if "topic" not in types and default_topic is None:
        raise InvalidRows("the rows have no column 'topic' and the sink has none: give KafkaSink(topic=...)")
    for name in ("key", "value"):
        _require(types, name, isinstance(types[name][1], _BYTES) if name in types else True, "string or binary")
    _require(types, "topic", "topic" not in types or isinstance(types["topic"][1], StringType), "string")
    _require(types, "partition", "partition" not in types or isinstance(types["partition"][1], IntegerType), "int")
    _require(
        types, "timestamp", "timestamp" not in types or isinstance(types["timestamp"][1], TimestampType), "timestamp"
    )
    _require(
        types, "headers", "headers" not in types or _are_headers(types["headers"][1]),
        "array<struct<key:string,value:binary>>",
    )  # fmt: skip


def _require(types: dict[str, tuple[str, DataType]], name: str, fits: bool, wanted: str) -> None:  # noqa: FBT001
    if not fits:
        raise InvalidRows(f"column {name!r} is {types[name][1].simpleString()}; a Kafka sink takes {wanted}: cast it")


def _are_headers(data_type: DataType) -> bool:
    if not isinstance(data_type, ArrayType) or not isinstance(data_type.elementType, StructType):
        return False
    fields = data_type.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )
