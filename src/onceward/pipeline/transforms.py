"""What `rows=` of a sink may be, and what becomes of it: a function of a batch and of what was looked up for it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from onceward.errors import ConfigurationError
from onceward.pipeline.batch import Transform
from onceward.pipeline.dead_letters import REASON, dead_rows, good_rows

Plain: TypeAlias = Callable[[DataFrame], DataFrame]
Rows: TypeAlias = Plain | Transform
_TOPIC: Final = "dead_letter_topic"  # attributes of the function
_TWICE: Final = "looks_twice"


def as_is(batch: DataFrame) -> DataFrame:
    """The batch's own columns."""
    return batch


def with_dead_letters(rows: Rows | None = None, *, topic: str) -> Rows:
    """`rows=` of a Kafka sink that also writes dead letters, to a topic of their own and in the same transaction.

    rows: called with the rows that are no dead letters; without it, only dead letters are written.
    """

    def split(batch: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
        dead = dead_rows(batch, topic)
        if rows is None:
            return dead
        good = transform_of(rows)(good_rows(batch), tables)
        for name in good.columns:
            if name.lower() in {"key", "value"}:
                good = good.withColumn(name, F.col(f"`{name}`").cast("binary"))
        return good.unionByName(dead, allowMissingColumns=True)

    def alone(batch: DataFrame) -> DataFrame:
        return split(batch, {})

    made: Rows = split if rows is not None and parameters_of(rows) > 1 else alone
    setattr(made, _TOPIC, topic)
    setattr(made, _TWICE, rows is not None)
    return made


def dead_letter_topic(rows: Rows) -> str | None:
    """Of a function that `with_dead_letters` has made."""
    return cast("str | None", getattr(rows, _TOPIC, None))


def looks_twice(rows: Rows) -> bool:
    """Whether it looks at the batch more than once, which must be the same batch then."""
    return bool(getattr(rows, _TWICE, False))


def transform_of(rows: Rows) -> Transform:
    """With two parameters, whatever the function takes."""
    if parameters_of(rows) < 2:
        plain = cast("Plain", rows)
        return lambda batch, _: plain(batch)
    return cast("Transform", rows)


def parameters_of(rows: Rows) -> int:
    """How many parameters a function must be given; one with a default is the function's own business."""
    try:
        parameters = inspect.signature(rows).parameters.values()
    except ValueError:  # built-in, without a signature
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(it.kind in positional and it.default is inspect.Parameter.empty for it in parameters)


def require_usable_rows(rows: Rows, *, sink: str, pipeline: str, has_lookup: bool) -> None:
    """It takes the batch, or the batch and tables that there are."""
    wanted = parameters_of(rows)
    if wanted > 2:
        raise ConfigurationError(
            f"sink {sink!r}: rows is called with the batch, or with the batch and the lookup's tables, and takes "
            f"{wanted} parameters"
        )
    if wanted == 2 and not has_lookup:
        raise ConfigurationError(
            f"sink {sink!r}: rows takes a second parameter, the tables of a lookup, and pipeline {pipeline!r} has "
            "none; give it one: Pipeline(..., lookup=ow.PostgresLookup(dsn, {'ads': 'select ...'}))"
        )


def require_dead_letters_kept(source: DataFrame) -> None:
    """Nothing between the parsing and the sinks drops a dead letter, whose other columns are null."""
    if missing := {REASON} - set(source.columns):
        raise ConfigurationError(
            f"the source has no column {missing.pop()!r}, and a sink's rows=ow.with_dead_letters(...) needs it: begin "
            "with ow.parse_json(...) or ow.parse(...)"
        )
    _walk(source._jdf.queryExecution().analyzed())  # noqa: SLF001 - PySpark shows no plans


def _walk(plan: Any) -> None:
    kind = str(plan.getClass().getSimpleName())
    children = plan.children()
    for index in range(children.size()):
        child = children.apply(index)
        if _has_reason(child.output()) and _drops(kind, plan):
            raise ConfigurationError(
                f"between the parsing and the sinks stands a {kind}, which drops dead letters: their other columns are "
                f"null. Filter in rows=, which gets none of them, or say '{REASON} is not null or ...'; let state "
                "(duplicates, joins, counts) be the work of a second pipeline that reads the first one's output."
            )
        _walk(child)


def _drops(kind: str, plan: Any) -> bool:
    if kind == "Filter":
        return not _has_reason(plan.condition().references().toSeq())
    if kind == "Join":
        return str(plan.joinType().sql()) in {"INNER", "LEFT SEMI", "LEFT ANTI", "RIGHT OUTER"}
    return kind in {"Deduplicate", "DeduplicateWithinWatermark", "GlobalLimit", "LocalLimit", "Sample"}


def _has_reason(attributes: Any) -> bool:
    return any(attributes.apply(index).name() == REASON for index in range(attributes.size()))
