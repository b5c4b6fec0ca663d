"""Which of Spark's types go into which of PostgreSQL's, and what the target's table makes of an epoch's columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import sql
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from onceward.errors import InvalidRows
from onceward.sinks.postgres.binary import Coding, Form
from onceward.sinks.postgres.catalog import Column, Target
from onceward.sinks.postgres.names import Table

FORMS: Final[Mapping[int, Form]] = {  # by the object ids of PostgreSQL's own types, the same in every database
    16: Form.BOOL,
    17: Form.BYTES,
    20: Form.INT8,
    21: Form.INT2,
    23: Form.INT4,
    114: Form.JSON,
    700: Form.FLOAT4,
    701: Form.FLOAT8,
    1082: Form.DATE,
    1083: Form.TIME,
    1114: Form.TIMESTAMP,
    1184: Form.TIMESTAMPTZ,
    1700: Form.NUMERIC,
    2950: Form.UUID,
    3802: Form.JSONB,
}
_WHOLE: Final = (Form.INT2, Form.INT4, Form.INT8, Form.NUMERIC)
_JSON: Final = (Form.JSON, Form.JSONB)
# What each of Spark's types may become, and what `create=True` makes of it. Nothing here changes a value: a narrower
# integer or numeric is checked value by value, a double does not go into a real.
FITS: Final[Mapping[type[spark.DataType], tuple[tuple[Form, ...], str]]] = {
    spark.BooleanType: ((Form.BOOL,), "boolean"),
    spark.ByteType: (_WHOLE, "smallint"),
    spark.ShortType: (_WHOLE, "smallint"),
    spark.IntegerType: (_WHOLE, "integer"),
    spark.LongType: (_WHOLE, "bigint"),
    spark.FloatType: ((Form.FLOAT4, Form.FLOAT8), "real"),
    spark.DoubleType: ((Form.FLOAT8,), "double precision"),
    spark.DecimalType: ((Form.NUMERIC,), "numeric"),
    spark.StringType: ((Form.TEXT, Form.UUID, *_JSON), "text"),
    spark.CharType: ((Form.TEXT, Form.UUID, *_JSON), "text"),
    spark.VarcharType: ((Form.TEXT, Form.UUID, *_JSON), "text"),
    spark.BinaryType: ((Form.BYTES,), "bytea"),
    spark.DateType: ((Form.DATE,), "date"),
    spark.TimeType: ((Form.TIME,), "time"),
    spark.TimestampType: ((Form.TIMESTAMPTZ,), "timestamp with time zone"),
    spark.TimestampNTZType: ((Form.TIMESTAMP,), "timestamp without time zone"),
    spark.StructType: (_JSON, "jsonb"),
    spark.MapType: (_JSON, "jsonb"),
    spark.VariantType: (_JSON, "jsonb"),
}
_NESTED: Final = (spark.StructType, spark.MapType, spark.VariantType, spark.ArrayType)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the rows' columns, in their order, go into the target's."""

    columns: tuple[Column, ...]
    codings: tuple[Coding, ...]
    as_json: frozenset[str]  # turned into JSON text by Spark

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def prepared(self, rows: DataFrame) -> DataFrame:
        """The rows as Arrow is to carry them: the same columns in the same order, under names that Spark can read.

        `mapInArrow` takes a name with a dot or a backtick for an expression.
        """
        if not self.as_json and not any(set(name) & {".", "`"} for name in self.names):
            return rows
        return rows.selectExpr(*(f"{self._expression(name)} as c{n}" for n, name in enumerate(self.names)))

    def _expression(self, name: str) -> str:
        quoted = "`" + name.replace("`", "``") + "`"
        # Spark leaves null fields out unless told otherwise.
        return f"to_json({quoted}, map('ignoreNullFields', 'false'))" if name in self.as_json else quoted


def lay_out(schema: spark.StructType, target: Target, key: Sequence[str]) -> Layout:
    """Check the rows' columns against the target's; `key` has to be among them."""
    names = schema.names
    if len(set(names)) < len(names):
        raise InvalidRows(f"the rows have two columns of one name: {', '.join(names)}")
    known = {column.name: column for column in target.columns}
    if unknown := [name for name in names if name not in known]:
        raise InvalidRows(
            f"{target.table} has no column {unknown[0]!r}; it has {', '.join(map(repr, known))} (names are taken as "
            "they stand, capitals too)"
        )
    if missing := [column.name for column in target.columns if column.required and column.name not in names]:
        raise InvalidRows(f"{target.table} wants column {missing[0]!r} (NOT NULL, no default) and the rows have none")
    if missing := [name for name in key if name not in names]:
        raise InvalidRows(f"the key's column {missing[0]!r} is not among the rows' columns {', '.join(names)}")
    codings = tuple(_coding(field, known[field.name], target.table) for field in schema.fields)
    as_json = frozenset(
        field.name
        for field, coding in zip(schema.fields, codings, strict=True)
        if isinstance(field.dataType, _NESTED) and coding.element is None
    )
    return Layout(tuple(known[name] for name in names), codings, as_json)


def create_table(schema: spark.StructType, table: Table, key: Sequence[str]) -> sql.Composed:
    """The statement that makes a target for these rows."""
    parts: list[sql.Composable] = [
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_made(field))) for field in schema.fields
    ]
    if key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    return sql.SQL("CREATE TABLE {} ({})").format(table.identifier, sql.SQL(", ").join(parts))


def _coding(field: spark.StructField, column: Column, table: Table) -> Coding:
    if not column.writable:
        raise InvalidRows(
            f"{table} computes its column {column.name!r} itself (generated, or identity always): drop it"
        )
    if isinstance(field.dataType, spark.NullType):
        return Coding(column.name, Form.TEXT)  # nulls travel alike in every type
    whole = _form(column.type, column.category, is_enum=column.is_enum)
    if whole in _forms_for(field.dataType) and _scale_fits(field.dataType, whole, column):
        return Coding(column.name, whole)
    if isinstance(field.dataType, spark.ArrayType) and column.element_type is not None:
        element = field.dataType.elementType
        inner = _form(column.element_type, column.element_category, is_enum=column.element_is_enum)
        if inner in _forms_for(element) and _scale_fits(element, inner, column) and not isinstance(element, _NESTED):
            return Coding(column.name, inner, column.element)
    raise _mismatch(field, column, table)


def _mismatch(field: spark.StructField, column: Column, table: Table) -> InvalidRows:
    hints = {
        spark.TimestampType: "; its instants need timestamptz, or cast them to timestamp_ntz",
        spark.TimestampNTZType: "; it has no time zone: use timestamp, or cast it to timestamp",
        spark.DecimalType: "; PostgreSQL would round it: cast it first",
        spark.DoubleType: "; cast it first, to float or decimal",
    }
    return InvalidRows(
        f"column {field.name!r} is {field.dataType.simpleString()} in the rows and {column.sql_type} in {table}, which "
        f"does not go together{hints.get(type(field.dataType), '; cast it first')}"
    )


def _forms_for(data_type: spark.DataType) -> tuple[Form, ...]:
    if isinstance(data_type, spark.ArrayType):
        return _JSON
    return FITS.get(type(data_type), ((), ""))[0]


def _form(oid: int, category: str, *, is_enum: bool) -> Form:
    """Everything of the string category travels as text: text, varchar, char, citext; an enum's labels too."""
    return Form.TEXT if is_enum or category == "S" else FORMS.get(oid, Form.UNKNOWN)


def _scale_fits(data_type: spark.DataType, form: Form, column: Column) -> bool:
    """Whether a numeric with a scale of its own keeps all digits; the server would round silently."""
    if form is not Form.NUMERIC or column.modifier < 4:
        return True
    scale = data_type.scale if isinstance(data_type, spark.DecimalType) else 0
    return scale <= (((column.modifier - 4) & 0x7FF) ^ 0x400) - 0x400


def _made(field: spark.StructField) -> str:
    data_type = field.dataType
    suffix = ""
    if isinstance(data_type, spark.ArrayType):
        if isinstance(data_type.elementType, _NESTED):
            return "jsonb"
        data_type, suffix = data_type.elementType, "[]"
    if type(data_type) not in FITS:
        raise InvalidRows(
            f"column {field.name!r} is {field.dataType.simpleString()}, for which there is no type here; cast it first"
        )
    if isinstance(data_type, spark.DecimalType):
        return f"numeric({data_type.precision},{data_type.scale}){suffix}"
    return FITS[type(data_type)][1] + suffix
