"""A query as far as its state depends on it, read from Spark's plan of it. Nothing runs, nothing is started.

The plan is the optimized one, as the query will be run: a column that nobody uses downstream of a join is not in the
join's state. Names and types are told, never Spark's expression ids, which differ in every process.
"""
# ruff: noqa: SLF001 - PySpark shows no plans

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from onceward.epoch.query_shape import OperatorShape, QueryShape
from onceward.pipeline.source import sources
from onceward.pipeline.state import State, effective

SUBSCRIPTIONS: Final = ("subscribe", "subscribepattern", "assign")
WINDOW: Final = "spark.timeWindow"
SESSION: Final = "spark.sessionWindow"
# What Spark may invent, and a release of it may call otherwise: named, though not understood.
STATEFUL: Final = re.compile(r"WithState|Deduplicate")
MICROSECONDS: Final = re.compile(r"\b\d{4,}(?=L?\b)")
INTERVAL: Final = re.compile(r"INTERVAL '[^']*'[A-Z ]*")


def shape_of(frame: DataFrame, output_mode: str, state: State | None) -> QueryShape:
    """Of a streaming DataFrame that is about to be started."""
    backend, snapshots = effective(state, frame.sparkSession)
    return QueryShape(
        sources=[_source(kind, options) for kind, options in sources(frame)],
        operators=list(_operators(_plan(frame))),
        output=[f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields],
        output_mode=output_mode,
        backend=backend,
        snapshots=snapshots,
    )


def _plan(frame: DataFrame) -> Any:
    analyzed = cast("Any", frame)._jdf.queryExecution().analyzed()
    try:
        return cast("Any", frame.sparkSession)._jsparkSession.sessionState().optimizer().execute(analyzed)
    except Py4JError:  # what a stream alone cannot be optimized without
        return analyzed


def _source(kind: str, options: dict[str, str]) -> str:
    """Kafka's with its topics, whose positions are kept; whatever else by its kind."""
    told = [f"{name}={_subscribed(name, options[name])}" for name in SUBSCRIPTIONS if name in options]
    return " ".join([kind, *told]) if kind == "kafka" else kind


def _subscribed(name: str, value: str) -> str:
    """Names in any order; a comma of a pattern is no comma of a list."""
    return value if name == "subscribepattern" else ",".join(sorted(value.split(",")))


def _operators(plan: Any) -> Iterator[OperatorShape]:
    """In Spark's order: from the top, left before right."""
    if bool(plan.isStreaming()):
        kind = str(plan.getClass().getSimpleName())
        describe = KNOWN.get(kind)
        try:
            found = describe(plan) if describe is not None else None
        except Py4JError:
            found = OperatorShape(name=kind)
        if describe is None and STATEFUL.search(kind):
            found = OperatorShape(name=kind)
        if found is not None:
            yield found
    for child in _items(plan.children()):
        yield from _operators(child)


def _aggregate(plan: Any) -> OperatorShape:
    keys = _items(plan.groupingExpressions())
    session = any(_is(key, SESSION) for key in keys)
    functions = [
        _function(it) for column in _items(plan.aggregateExpressions()) for it in _find(column, "AggregateExpression")
    ]
    windows = [_width(plan, key) for key in keys if _is(key, WINDOW) or _is(key, SESSION)]
    return OperatorShape(
        name="SessionWindowAggregate" if session else "Aggregate",
        keys=[_column(key) for key in keys],
        details=[*windows, *dict.fromkeys(functions)],
    )


def _deduplicate(plan: Any) -> OperatorShape:
    name = str(plan.getClass().getSimpleName())
    return OperatorShape(name=name, keys=[_column(key) for key in _items(plan.keys())])


def _join(plan: Any) -> OperatorShape | None:
    left, right = plan.left(), plan.right()
    if not (left.isStreaming() and right.isStreaming()):
        return None  # with a table: no state
    pairs = [
        f"{_expression(equal.left())} = {_expression(equal.right())}"
        for condition in _items(plan.condition().toList())
        for equal in _conjuncts(condition)
        if equal.getClass().getSimpleName() in {"EqualTo", "EqualNullSafe"}
    ]
    sides = [
        f"{name} rows: {', '.join(_column(it) for it in _items(side.output()))}"
        for name, side in (("left", left), ("right", right))
    ]
    return OperatorShape(name="StreamStreamJoin", keys=sorted(pairs), details=[str(plan.joinType().sql()), *sides])


def _own_state(plan: Any) -> OperatorShape:
    keys = _items(plan.child().output())[: int(plan.groupingAttributesLen())]
    return OperatorShape(
        name="TransformWithState",
        keys=[_column(key) for key in keys],
        details=[f"timers: {plan.timeMode().toString()}"],  # its variables are known once it has run
    )


def _groups_in_pandas(plan: Any) -> OperatorShape:
    return OperatorShape(
        name="ApplyInPandasWithState",
        keys=[_column(key) for key in _items(plan.groupingAttributes())],
        details=[f"state: {plan.stateType().catalogString()}", f"timeout: {plan.timeout().toString()}"],
    )


KNOWN: Final[dict[str, Callable[[Any], OperatorShape | None]]] = {
    "Aggregate": _aggregate,
    "Deduplicate": _deduplicate,
    "DeduplicateWithinWatermark": _deduplicate,
    "FlatMapGroupsInPandasWithState": _groups_in_pandas,
    "GlobalLimit": lambda _: OperatorShape(name="Limit"),
    "Join": _join,
    "TransformWithStateInPySpark": _own_state,
}


def _function(aggregate: Any) -> str:
    """Its columns and what it keeps: the formula over them may change, they may not."""
    function = aggregate.aggregateFunction()
    columns = ", ".join(dict.fromkeys(_column(it) for it in _items(function.references().toSeq())))
    kept = ", ".join(str(it.dataType().catalogString()) for it in _items(function.aggBufferAttributes()))
    return f"{function.prettyName()}({columns}): {kept}"


def _width(plan: Any, key: Any) -> str:
    """How long a window is, from the expressions that make it: their numbers are microseconds."""
    text = " ".join(str(it.sql()) for node in _nodes(plan) for it in _made_by(node, key.exprId().id()))
    lengths = sorted({int(it) / 1_000_000 for it in MICROSECONDS.findall(text)})
    told = [*(f"{length:g} s" for length in lengths), *dict.fromkeys(INTERVAL.findall(text))]
    return f"{key.name()} of {', '.join(told)}"


def _made_by(node: Any, number: int) -> Iterator[Any]:
    """The expressions by which a node of the plan makes a column; sliding windows come out of several."""
    if node.getClass().getSimpleName() == "Expand":
        for index, column in enumerate(_items(node.output())):
            if column.exprId().id() == number:
                yield from (projection.apply(index) for projection in _items(node.projections()))
        return
    for alias in (it for top in _items(node.expressions()) for it in _find(top, "Alias")):
        if alias.exprId().id() == number:
            yield alias.child()


def _column(expression: Any) -> str:
    return f"{_expression(expression)} {expression.dataType().catalogString()}"


def _expression(expression: Any) -> str:
    named = expression.getClass().getSimpleName() in {"AttributeReference", "Alias"}
    return str(expression.name()) if named else str(expression.sql())


def _is(expression: Any, mark: str) -> bool:
    return expression.getClass().getSimpleName() == "AttributeReference" and bool(expression.metadata().contains(mark))


def _conjuncts(condition: Any) -> Iterator[Any]:
    if condition.getClass().getSimpleName() == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _find(expression: Any, kind: str) -> Iterator[Any]:
    return (it for it in _nodes(expression) if it.getClass().getSimpleName() == kind)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _items(plan.children()):
        yield from _nodes(child)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
