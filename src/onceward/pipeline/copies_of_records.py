"""Whether a query takes the records of one Kafka source over as they are, so that nothing needs to be computed.

Only what is certain counts: Kafka's own columns under their own names, possibly as strings, through nothing but
projections, read by nothing but what `read_kafka` sets. Everything else is Spark's business.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame

from onceward.errors import OncewardError
from onceward.kafka.wire import Cluster
from onceward.pipeline.source import java_settings, sources
from onceward.sinks.kafka.copying import COPIED
from onceward.sinks.kafka.encoding import HASH

# Settings of Spark's consumer that say nothing about which records it gives.
HARMLESS: Final = frozenset({"kafka.bootstrap.servers", "kafka.fetch.max.wait.ms", "kafka.max.poll.records"})
STRICT: Final = {"kafka.isolation.level": "read_committed", "failondataloss": "true"}
BYTES: Final = frozenset({"binary", "string"})  # the same bytes, in Spark

# ruff: noqa: SLF001 - PySpark shows no plans


def copied(source: DataFrame, columns: Collection[str], sink: Cluster) -> Cluster | None:
    """Where the records are to be read; None if the query is more than a copy, or reads in a way of its own.

    columns: of the sink's rows. sink: whose credentials are the source's too, if the source has some.
    """
    names = frozenset(columns) - {HASH}
    if names not in COPIED or not _are_kafkas(source._jdf.queryExecution().analyzed(), names):
        return None
    ((_, options),) = sources(source)
    if any(options.get(name) != value for name, value in STRICT.items()):
        return None
    own = {name for name in options if name.startswith("kafka.")} - HARMLESS - STRICT.keys()
    try:
        cluster = Cluster(options["kafka.bootstrap.servers"], sink.settings if own else {})
        known = java_settings(cluster.settings, source.sparkSession)
    except OncewardError:  # of the sink's settings, which the source does not have
        return None
    return cluster if {name: options[name] for name in own} == known else None


def _are_kafkas(plan: Any, names: Collection[str]) -> bool:
    """Whether each of these columns is the source's column of that name."""
    output = {str(it.name()).lower(): _id(it) for it in _each(plan.output())}
    wanted: dict[int | None, str] = {output[name]: name for name in names if name in output}
    return len(wanted) == len(names) and _lead_to_kafkas(plan, wanted)


def _lead_to_kafkas(plan: Any, wanted: Mapping[int | None, str]) -> bool:
    kind = str(plan.getClass().getSimpleName())
    if kind == "StreamingRelationV2":
        found: dict[int | None, str] = {_id(it): str(it.name()) for it in _each(plan.output())}
        return all(found.get(number) == name for number, name in wanted.items())
    if kind == "Project":
        below = {_taken_over(it): wanted[_id(it)] for it in _each(plan.projectList()) if _id(it) in wanted}
        return None not in below and len(below) == len(wanted) and _lead_to_kafkas(plan.child(), below)
    return kind == "SubqueryAlias" and _lead_to_kafkas(plan.child(), wanted)


def _taken_over(expression: Any) -> int | None:
    """The column that an expression gives as it is."""
    kind = str(expression.getClass().getSimpleName())
    if kind == "AttributeReference":
        return _id(expression)
    if kind == "Cast" and {_type(expression), _type(expression.child())} <= BYTES:
        return _taken_over(expression.child())
    return _taken_over(expression.child()) if kind == "Alias" else None


def _id(expression: Any) -> int:
    return int(expression.exprId().id())


def _type(expression: Any) -> str:
    return str(expression.dataType().simpleString())


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))
