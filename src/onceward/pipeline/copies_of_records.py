"""Whether a query takes the records of one Kafka source over as they are, so that nothing needs to be computed.

Only what is certain counts: Kafka's own columns under their own names, possibly as strings, the value possibly through
one Python function, through nothing but projections, and read by nothing but what `read_kafka` sets. Everything else is
Spark's business.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from onceward.errors import OncewardError
from onceward.kafka.wire import Cluster
from onceward.pipeline.java_settings import java_settings
from onceward.pipeline.source import sources
from onceward.sinks.kafka.copying import COPIED, Copied
from onceward.sinks.kafka.encoding import HASH
from onceward.sinks.kafka.functions import Function, Kind

# Settings of Spark's consumer that say nothing about which records it gives.
HARMLESS: Final = frozenset({"kafka.bootstrap.servers", "kafka.fetch.max.wait.ms", "kafka.max.poll.records"})
OTHERWISE: Final = frozenset({"minpartitions", "maxrecordsperpartition"})  # more tasks than partitions are wanted
STRICT: Final = {"kafka.isolation.level": "read_committed", "failondataloss": "true"}
BYTES: Final = frozenset({"binary", "string"})  # the same bytes, in Spark

# ruff: noqa: SLF001 - PySpark shows no plans


def copied(source: DataFrame, columns: Collection[str], sink: Cluster) -> Copied | None:
    """What is copied; None if the query is more than a copy, or reads in a way of its own.

    columns: of the sink's rows. sink: whose credentials are the source's too, if the source has some.
    """
    names, looked = frozenset(columns) - {HASH}, _Look(_takes_bytes(source.sparkSession))
    if names not in COPIED or not looked.at_all(source._jdf.queryExecution().analyzed(), names):
        return None
    cluster = _readable(source, sink)
    return Copied(cluster, "partition" in names, looked.function) if cluster is not None else None


def _readable(source: DataFrame, sink: Cluster) -> Cluster | None:
    ((_, options),) = sources(source)
    if any(options.get(name) != value for name, value in STRICT.items()) or OTHERWISE & options.keys():
        return None
    own = {name for name in options if name.startswith("kafka.")} - HARMLESS - STRICT.keys()
    try:
        cluster = Cluster(options["kafka.bootstrap.servers"], sink.settings if own else {})
        known = java_settings(cluster.settings, source.sparkSession)
    except OncewardError:  # of the sink's settings, which the source does not have
        return None
    return cluster if {name: options[name] for name in own} == known else None


def _takes_bytes(spark: SparkSession) -> bool:
    """Whether Spark gives functions a binary value as bytes; otherwise that is its business."""
    return spark.conf.get("spark.sql.execution.pyspark.binaryAsBytes") == "true"


@dataclass(slots=True)
class _Look:
    """At a plan, from its columns down to the source's."""

    takes_bytes: bool
    function: Function | None = None  # found on the way to the value

    def at_all(self, plan: Any, names: Collection[str]) -> bool:
        """Whether each of these columns is the source's column of that name."""
        output = {str(it.name()).lower(): _id(it) for it in _each(plan.output())}
        wanted: dict[int | None, str] = {output[name]: name for name in names if name in output}
        return len(wanted) == len(names) and self._lead_to_kafkas(plan, wanted)

    def _lead_to_kafkas(self, plan: Any, wanted: Mapping[int | None, str]) -> bool:
        kind = str(plan.getClass().getSimpleName())
        if kind == "StreamingRelationV2":
            found: dict[int | None, str] = {_id(it): str(it.name()) for it in _each(plan.output())}
            return all(found.get(number) == name for number, name in wanted.items())
        if kind == "Project":
            chosen = [it for it in _each(plan.projectList()) if _id(it) in wanted]
            below = {self._taken_over(it, wanted[_id(it)]): wanted[_id(it)] for it in chosen}
            return None not in below and len(below) == len(wanted) and self._lead_to_kafkas(plan.child(), below)
        return kind == "SubqueryAlias" and self._lead_to_kafkas(plan.child(), wanted)

    def _taken_over(self, expression: Any, name: str) -> int | None:
        """The column that an expression gives as it is; a value may go through one function."""
        kind = str(expression.getClass().getSimpleName())
        if kind == "AttributeReference":
            return _id(expression)
        if kind == "Alias" or (kind == "Cast" and {_type(expression), _type(expression.child())} <= BYTES):
            return self._taken_over(expression.child(), name)
        if kind == "PythonUDF" and name == "value" and self.function is None:
            self.function = self._described(expression)
            return self._taken_over(expression.children().apply(0), name) if self.function is not None else None
        return None

    def _described(self, called: Any) -> Function | None:
        function, takes = called.func(), [_type(it) for it in _each(called.children())]
        known = {it.value for it in Kind}
        if called.evalType() not in known or not called.udfDeterministic() or function.broadcastVars().size():
            return None
        if takes != ["string"] and not (takes == ["binary"] and self.takes_bytes):
            return None
        if _type(called) not in BYTES:
            return None
        pickled = bytes(function.command().unsafeArray())
        return Function(Kind(called.evalType()), takes == ["string"], _type(called) == "string", pickled)


def _id(expression: Any) -> int:
    return int(expression.exprId().id())


def _type(expression: Any) -> str:
    return str(expression.dataType().simpleString())


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))
