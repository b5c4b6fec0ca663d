"""Rows of a small epoch, collected as Arrow with few calls into the JVM.

Each call costs part of a millisecond, and so does letting go of what it returned. PySpark's own `selectExpr` makes a
list of expressions in the JVM, one call for each; its `toArrow` asks for settings, parses the schema and notes the line
of Python that asked. Epochs of one pipeline look alike: expressions and schemas are kept from one to the next.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final, cast

import pyarrow as pa
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import _load_from_socket

ROWS: Final = 50_000  # in an Arrow batch at most; a small epoch has fewer
INTERPRETED: Final = ("spark.sql.codegen.factoryMode", "NO_CODEGEN")  # of the tasks of a job
LENGTH: Final = struct.Struct(">i")
KEPT: Final = 16  # expressions and schemas; a pipeline has a few, and they may change with its files

# ruff: noqa: SLF001 - PySpark has no public way to its own JVM objects


class Selection:
    """The same expressions, selected from one epoch's frame after the other."""

    def __init__(self, expressions: Sequence[str]) -> None:
        self.expressions = tuple(expressions)
        self._known: tuple[Any, Any] | None = None  # the gateway that they were handed to, and what became of them

    def of(self, rows: DataFrame) -> DataFrame:
        gateway = rows.sparkSession.sparkContext._gateway
        if self._known is None or self._known[0] is not gateway:
            self._known = gateway, cast("Any", rows)._jseq(list(self.expressions))
        return DataFrame(rows._jdf.selectExpr(self._known[1]), rows.sparkSession)


class Collector:
    """Collects frames, most of which look like one before."""

    def __init__(self) -> None:
        self._schemas: dict[str, pa.Schema] = {}

    def table(self, rows: DataFrame) -> pa.Table:
        """What `rows.toArrow()` returns."""
        schema = self._schema(rows)
        batches = _collected(rows)
        return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()

    def _schema(self, rows: DataFrame) -> pa.Schema:
        described = rows._jdf.schema().json()
        if described not in self._schemas:
            while len(self._schemas) >= KEPT:
                del self._schemas[next(iter(self._schemas))]
            self._schemas[described] = arrow_schema(rows)
        return self._schemas[described]


def arrow_schema(rows: DataFrame) -> pa.Schema:
    """What a frame's rows are in Arrow."""
    return to_arrow_schema(rows.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")


def collect_as_planned(rows: DataFrame, schema: pa.Schema, *, few: bool = False) -> pa.Table:
    """A batch as the streaming query computes it, in the order of its rows: no query is made of it.

    few: so few rows that compiling code for them in every task, as Spark's Kafka source does, takes longer than
    interpreting it.
    """
    context: Any = rows.sparkSession.sparkContext
    planned = rows._jdf.toArrowBatchRdd(ROWS, "UTC", True, False)  # noqa: FBT003 - unique names; plain widths
    if few:
        context.setLocalProperty(*INTERPRETED)
    try:
        with unwrap_spark_exception():
            served = context._jvm.PythonRDD.collectAndServe(planned)
    finally:
        if few:
            context.setLocalProperty(INTERPRETED[0], None)
    port, secret, server = served[0], served[1], served[2]
    with _load_from_socket((port, secret), cast("Any", _Messages())) as messages:
        batches = [pa.ipc.read_record_batch(pa.py_buffer(message), schema) for message in messages]
    with unwrap_spark_exception():
        server.getResult()  # a stream that broke off ends like a whole one: whether it did is asked here
    return pa.Table.from_batches(batches, schema)


class _Messages:
    """As `PythonRDD` serves bytes: each with its length before it, until the end."""

    @staticmethod
    def load_stream(stream: IO[bytes]) -> Iterator[bytes]:
        while head := stream.read(LENGTH.size):
            length = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else -1
            message = stream.read(max(length, 0))
            if len(message) != length:
                raise EOFError("Spark's rows broke off on their way to Python")
            yield message


def _collected(rows: DataFrame) -> list[pa.RecordBatch]:
    """In the order of the rows: batches come as they are ready, and then their order."""
    served = rows._jdf.collectAsArrowToPython()
    port, secret, server = served[0], served[1], served[2]
    try:
        with _load_from_socket((port, secret), cast("Any", ArrowCollectSerializer)()) as stream:
            *batches, order = list(stream)
    finally:
        with unwrap_spark_exception():
            server.getResult()  # waits for the thread that serves, and raises what it met
    return [batches[index] for index in order]
