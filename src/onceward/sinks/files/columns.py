"""The rows as their files need them: checked, with each partition's value as text, and, for JSON and CSV, as lines.

Spark makes the text, where the rows are; the tasks of this sink then only have to write it.
"""

import csv
import io
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceward.errors import ConfigurationError, InvalidRows

LINE: Final = "__onceward_line"
PARTITION: Final = "__onceward_partition_"
_PLAIN: Final = (BooleanType, NumericType, StringType, DateType, TimestampType, TimestampNTZType)
# Spark's own default writes milliseconds, and would lose the rest.
_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
# Quotes are doubled, as RFC 4180 and every reader but Spark's default expect; blanks stay (Spark's writer trims them).
_CSV: Final = {"escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
_EMPTY_LINE: Final = '""'  # of one null alone: readers pass over a line with nothing in it


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """Which columns go where."""

    format: str
    partition_by: tuple[str, ...]
    epoch_column: str

    def of(self, rows: DataFrame) -> DataFrame:
        """The files' columns or lines, then one column of text for each partition column."""
        data = self._checked(rows.schema)
        chosen = [_column(name) for name in data]
        if self.format == "json":
            chosen = [F.to_json(F.struct(*chosen), _TIMES).alias(LINE)]
        elif self.format == "csv":
            line = F.to_csv(F.struct(*chosen), {**_TIMES, **_CSV})
            if len(chosen) == 1:
                line = F.when(chosen[0].isNull(), _EMPTY_LINE).otherwise(line)
            chosen = [line.alias(LINE)]
        values = [
            _column(name).cast("string").alias(f"{PARTITION}{number}") for number, name in enumerate(self.partition_by)
        ]
        return rows.select(*chosen, *values)

    def header(self, rows: DataFrame) -> str:
        """The first line of a CSV file."""
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(self._data(rows.schema))
        return line.getvalue()

    def _checked(self, schema: StructType) -> list[str]:
        lower = [field.name.lower() for field in schema.fields]
        if twice := sorted({name for name in lower if lower.count(name) > 1}):
            raise InvalidRows(f"the rows have columns that differ by case at most, which no file can hold: {twice}")
        if self.epoch_column.lower() in lower:
            raise InvalidRows(
                f"the rows have a column {self.epoch_column!r}, and the file sink names its directories so: rename "
                "the column, or give epoch_column= another name"
            )
        if missing := [name for name in self.partition_by if name.lower() not in lower]:
            raise InvalidRows(f"partition_by names {missing}, which the rows do not have: {schema.names}")
        data = self._data(schema)
        if not data:
            raise InvalidRows("every column is in partition_by, so nothing is left to be written into the files")
        types = {field.name.lower(): field.dataType for field in schema.fields}
        for name in self.partition_by:
            if not isinstance(types[name.lower()], _PLAIN):
                raise InvalidRows(f"partition_by names {name!r}, whose {_said(types[name.lower()])} is no short text")
        for name in data:
            if problem := _unwritable(types[name.lower()], self.format):
                raise InvalidRows(f"column {name!r}: a {self.format} file holds no {problem}")
        return data

    def _data(self, schema: StructType) -> list[str]:
        apart = {name.lower() for name in self.partition_by}
        return [name for name in schema.names if name.lower() not in apart]


def require_names(epoch_column: str, partition_by: tuple[str, ...]) -> None:
    """Names that can be directories, each once."""
    names = [epoch_column, *partition_by]
    if len({name.lower() for name in names}) < len(names):
        raise ConfigurationError(f"epoch_column={epoch_column!r} and partition_by={partition_by} name a column twice")
    for name in names:
        if not name or name.startswith((".", "_")):
            raise ConfigurationError(
                f"{name!r} cannot be a directory's name in epoch_column or partition_by: readers pass over names that "
                "begin with '.' or '_'"
            )


def _unwritable(data_type: DataType, file_format: str) -> str:
    """What of a type has no place in a file that is read back as it was; empty if all has."""
    if isinstance(data_type, _PLAIN):
        return ""
    if file_format == "csv":
        return f"{_said(data_type)}; make text of it (to_json, base64), or choose format='json' or 'parquet'"
    inner = _inner(data_type)
    if inner:
        return next((said for each in inner if (said := _unwritable(each, file_format))), "")
    return "" if isinstance(data_type, BinaryType) else f"{_said(data_type)}; cast it"


def _inner(data_type: DataType) -> list[DataType]:
    if isinstance(data_type, ArrayType):
        return [data_type.elementType]
    if isinstance(data_type, MapType):
        return [data_type.keyType, data_type.valueType]
    return [field.dataType for field in data_type.fields] if isinstance(data_type, StructType) else []


def _said(data_type: DataType) -> str:
    return f"type {data_type.simpleString()}"


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
