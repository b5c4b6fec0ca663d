"""Dead letters: a record that cannot be used goes to a topic of its own, in the same epoch, with the reason.

A frame of parsed records has two columns besides its own: `dead_letter`, the reason why a record cannot be used (null:
it can), and `record`, the record as it was read. What is done with the rows is done with those that have no reason.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import DataType, StringType, StructField, StructType, _make_type_verifier

from onceward.errors import ConfigurationError, InvalidRows

REASON: Final = "dead_letter"
RECORD: Final = "record"
PREFIX: Final = "dead-letter-"  # of the headers that a dead letter gets
OF_THE_RECORD: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
REASON_LENGTH: Final = 500
# A server that is away, a package that is missing, a typo in a function: the epoch fails, and is tried again.
NOT_THE_RECORDS_FAULT: Final = (OSError, ImportError, MemoryError, NameError)
_PARSED: Final = "_onceward_parsed"
_MADE: Final = "_onceward_made"
_CORRUPTED: Final = StructField("_onceward_corrupted", StringType())
_END: Final = "_onceward_end"
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{6,}")


def parse(
    frame: DataFrame,
    how: Callable[[bytes], Any] | Column,
    schema: str | StructType | None = None,
    *,
    otherwise: str = "cannot be parsed",
    keep: Iterable[str] = (),
) -> DataFrame:
    """Records with the fields that a Python function finds in their values; where it raises, they are dead letters.

    how: a function of a value's bytes that returns a dict, or Spark's expression of a struct; where it gives nothing
    (None, null), the reason is `otherwise`.
    schema: what a function's dict holds, such as "id string not null, amount bigint": `id` must be there.
    keep: columns of the record that the rows keep, such as "timestamp".
    """
    _require_records(frame)
    if isinstance(how, Column):
        return _rows(frame.withColumn(_MADE, how), F.col(_MADE), F.when(F.col(_MADE).isNull(), otherwise), keep)
    if schema is None:
        raise ConfigurationError("ow.parse(frame, function, schema) needs the schema of what the function returns")
    wanted = _schema(schema)
    made = _udf(how, wanted)
    called = frame.withColumn(_MADE, made(F.when(F.col("value").isNull(), "empty"), "value"))
    event, reason = F.col(f"{_MADE}.value"), F.col(f"{_MADE}.reason")
    fault = F.when(F.col("value").isNull(), "empty").when(reason.isNotNull(), reason)
    fault = _missing(fault.when(event.isNull(), otherwise), event, wanted)
    return _rows(called, event, fault, keep)


def parse_json(
    frame: DataFrame,
    schema: str | StructType,
    *,
    keep: Iterable[str] = (),
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Records whose value is one JSON object; "id string not null, amount bigint": `id` must be there.

    keep: columns of the record that the rows keep, such as "timestamp".
    options: Spark's for reading JSON, such as timestampFormat.
    """
    _require_records(frame)
    wanted = _schema(schema)
    text = F.col("value").cast("string")
    read = StructType([*cast("StructType", _nullable(wanted)).fields, _CORRUPTED])
    how = {**(options or {}), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPTED.name}
    made, event = frame.withColumn(_MADE, F.from_json(text, read, how)), F.col(_MADE)  # once, however many look at it
    fault = F.when(F.col("value").isNull(), "empty").when(~_is_one_object(text), "not one JSON object")
    fault = _missing(fault.when(event[_CORRUPTED.name].isNotNull(), "does not fit the schema"), event, wanted)
    return _rows(made, F.struct(*(event[it.name].alias(it.name) for it in wanted.fields)), fault, keep)


def _rows(frame: DataFrame, event: Column, fault: Column, keep: Iterable[str]) -> DataFrame:
    """The event's fields (of a dead letter there are none), what is kept, and the two columns."""
    kept, headers = list(keep), ["headers"] if "headers" in frame.columns else []
    record = F.struct(*OF_THE_RECORD, *headers).alias(RECORD)
    rows = frame.select(event.alias(_PARSED), record, *kept, fault.alias(REASON))
    struct = rows.schema[_PARSED].dataType
    if not isinstance(struct, StructType):
        raise ConfigurationError(f"ow.parse needs an expression that is a struct, not {struct.simpleString()}")
    taken = {REASON, RECORD, *(name.lower() for name in kept)}
    if clashes := sorted(taken & {field.name.lower() for field in struct.fields}):
        raise ConfigurationError(
            f"a field of the records is called {clashes[0]!r}, and so is a column that every row has besides them: "
            "call the field otherwise, or leave the column out of keep="
        )
    good = F.col(REASON).isNull()
    fields = [F.when(good, F.col(_PARSED)[it.name]).alias(it.name) for it in struct.fields]
    return rows.select(*fields, *kept, REASON, RECORD)


def _schema(schema: str | StructType) -> StructType:
    return schema if isinstance(schema, StructType) else cast("StructType", StructType.fromDDL(schema))


def _udf(function: Callable[..., Any], returns: DataType) -> Callable[..., Column]:
    """Gives what the function made, or why it could not. Not to be called twice for a row: it may answer otherwise."""
    outcome = StructType([StructField("value", _nullable(returns)), StructField("reason", StringType())])
    return F.udf(_guarded(function, returns), outcome, useArrow=True).asNondeterministic()


def _nullable(wanted: DataType) -> DataType:
    """What must be there is asked for afterwards; Spark would believe that it is."""
    if not isinstance(wanted, StructType):
        return wanted
    return StructType([StructField(it.name, it.dataType) for it in wanted.fields])


def _missing(fault: Column, event: Column, wanted: StructType) -> Column:
    for field in wanted.fields:
        if not field.nullable:
            fault = fault.when(event[field.name].isNull(), f"no {field.name}")
    return fault


def _is_one_object(text: Column) -> Column:
    """Spark reads the first object of a text and is silent about the rest, which would be lost.

    So the text is read once more, as an element of a list that ends with a word of ours: it must be the only one.
    """
    listed = F.from_json(F.concat(F.lit("["), text, F.lit(f',"{_END}"]')), "array<string>")
    ends = (F.size(listed) == 2) & (F.try_element_at(listed, F.lit(2)) == _END)
    return text.rlike(r"^\s*\{") & F.coalesce(ends, F.lit(False))  # noqa: FBT003 - a column's value


def reject(rows: DataFrame, condition: str | Column, reason: str) -> DataFrame:
    """Rows for which the condition holds are dead letters, unless they are already."""
    _require_parsed(rows)
    holds = F.expr(condition) if isinstance(condition, str) else condition
    return rows.withColumn(REASON, F.coalesce(REASON, F.when(holds, reason)))


def attempt(
    rows: DataFrame, name: str, function: Callable[..., Any], returns: str, columns: Iterable[str | Column]
) -> DataFrame:
    """A column of what a Python function makes of others; a row for which it raises is a dead letter.

    returns: the column's type, such as "decimal(12, 2)". The reason is the exception.
    """
    _require_parsed(rows)
    wanted = DataType.fromDDL(returns)
    made = _udf(function, wanted)
    called = rows.withColumn(_MADE, made(REASON, *columns))
    fault = F.coalesce(F.col(REASON), F.col(f"{_MADE}.reason"))
    return called.withColumn(name, F.col(f"{_MADE}.value")).withColumn(REASON, fault).drop(_MADE)


def _guarded(function: Callable[..., Any], returns: DataType) -> Callable[..., tuple[Any, str | None]]:
    """A function whose exceptions are reasons. Not called for a row that is a dead letter already.

    What it returns is compared with the type that it should have: Spark would make a null of another one, in silence.
    """
    verify = _make_type_verifier(_nullable(returns))

    def call(dead: str | None, *values: Any) -> tuple[Any, str | None]:
        if dead is not None:
            return None, None
        try:
            made = function(*values)
            verify(made)
        except NOT_THE_RECORDS_FAULT:
            raise
        except Exception as error:  # noqa: BLE001 - it is the reason
            return None, told(error)
        return made, None

    return call


def told(error: Exception) -> str:
    """Short, and the same in a replay: an address in memory is not."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return _ADDRESS.sub("0x…", text)[:REASON_LENGTH]


def good_rows(batch: DataFrame) -> DataFrame:
    """The rows that are no dead letters, without the two columns: for sinks beside Kafka."""
    _require_parsed(batch)
    return batch.where(F.col(REASON).isNull()).drop(REASON, RECORD)


def dead_rows(batch: DataFrame, topic: str) -> DataFrame:
    """The others, as Kafka records: as they came, with headers that say why and from where."""
    _require_parsed(batch)
    record = F.col(RECORD)
    fields = {field.name for field in batch.schema[RECORD].dataType.fields}  # type: ignore[attr-defined] # a struct
    own = [_header("reason", F.col(REASON))]
    own += [_header(name, record[name]) for name in ("topic", "partition", "offset")]
    own.append(_header("timestamp", F.unix_millis(record["timestamp"])))
    headers: Column = F.array(*own)
    if "headers" in fields:  # those of an earlier time as a dead letter are replaced
        before = F.filter(record["headers"], lambda it: ~F.startswith(it["key"], F.lit(PREFIX)))
        headers = F.concat(F.coalesce(before, F.array().cast("array<struct<key:string,value:binary>>")), headers)
    return batch.where(F.col(REASON).isNotNull()).select(
        F.lit(topic).alias("topic"),
        record["key"].alias("key"),
        record["value"].alias("value"),
        headers.alias("headers"),
    )


def _header(name: str, value: Column) -> Column:
    text = value.cast("string").cast("binary")
    return F.struct(F.lit(PREFIX + name).alias("key"), text.alias("value"))


def _require_records(frame: DataFrame) -> None:
    if missing := sorted(set(OF_THE_RECORD) - set(frame.columns)):
        raise ConfigurationError(
            f"the rows have no column {missing[0]!r}, which a dead letter carries: parse what ow.read_kafka gives, "
            "before anything else is done with it"
        )


def _require_parsed(rows: DataFrame) -> None:
    if missing := sorted({REASON, RECORD} - set(rows.columns)):
        raise InvalidRows(
            f"the rows have no column {missing[0]!r}: begin with ow.parse_json(...) or ow.parse(...), and keep "
            f"{REASON!r} and {RECORD!r} up to the sink"
        )
