"""Onceward: end-to-end exactly-once stream processing in Python, on Spark and Kafka.

    import onceward as ow

The public names are the ones listed here; everything else may change. They are loaded when first used, so that
the command line and Spark's workers start without what they do not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onceward import errors as errors
    from onceward.epoch.contract import EpochContext as EpochContext
    from onceward.epoch.contract import Guarantee as Guarantee
    from onceward.epoch.contract import LastCommit as LastCommit
    from onceward.epoch.contract import Owner as Owner
    from onceward.epoch.contract import TwoPhaseCommitSink as TwoPhaseCommitSink
    from onceward.epoch.outcome import Outcome as Outcome
    from onceward.errors import OncewardError as OncewardError
    from onceward.kafka.copies import copy_prefix as copy_prefix
    from onceward.kafka.copies import topic as topic
    from onceward.lookups import Lookup as Lookup
    from onceward.lookups.postgres import PostgresLookup as PostgresLookup
    from onceward.pipeline.dead_letters import attempt as attempt
    from onceward.pipeline.dead_letters import good_rows as good_rows
    from onceward.pipeline.dead_letters import parse as parse
    from onceward.pipeline.dead_letters import parse_json as parse_json
    from onceward.pipeline.dead_letters import reject as reject
    from onceward.pipeline.pipeline import Pipeline as Pipeline
    from onceward.pipeline.query import Query as Query
    from onceward.pipeline.reading_state import state as state
    from onceward.pipeline.session import configure as configure
    from onceward.pipeline.session import session as session
    from onceward.pipeline.source import read_kafka as read_kafka
    from onceward.pipeline.state import State as State
    from onceward.pipeline.transforms import with_dead_letters as with_dead_letters
    from onceward.sinks.delta import DeltaSink as DeltaSink
    from onceward.sinks.files import FileSink as FileSink
    from onceward.sinks.function import FunctionSink as FunctionSink
    from onceward.sinks.iceberg import IcebergSink as IcebergSink
    from onceward.sinks.kafka import KafkaSink as KafkaSink
    from onceward.sinks.postgres import PostgresSink as PostgresSink
    from onceward.telemetry.logs import JsonFormatter as JsonFormatter

    __version__: str

_HOMES: Final = {
    "DeltaSink": "onceward.sinks.delta",
    "EpochContext": "onceward.epoch.contract",
    "FileSink": "onceward.sinks.files",
    "FunctionSink": "onceward.sinks.function",
    "Guarantee": "onceward.epoch.contract",
    "IcebergSink": "onceward.sinks.iceberg",
    "JsonFormatter": "onceward.telemetry.logs",
    "KafkaSink": "onceward.sinks.kafka",
    "LastCommit": "onceward.epoch.contract",
    "Lookup": "onceward.lookups",
    "OncewardError": "onceward.errors",
    "Outcome": "onceward.epoch.outcome",
    "Owner": "onceward.epoch.contract",
    "Pipeline": "onceward.pipeline.pipeline",
    "PostgresLookup": "onceward.lookups.postgres",
    "PostgresSink": "onceward.sinks.postgres",
    "Query": "onceward.pipeline.query",
    "State": "onceward.pipeline.state",
    "TwoPhaseCommitSink": "onceward.epoch.contract",
    "attempt": "onceward.pipeline.dead_letters",
    "configure": "onceward.pipeline.session",
    "copy_prefix": "onceward.kafka.copies",
    "good_rows": "onceward.pipeline.dead_letters",
    "parse": "onceward.pipeline.dead_letters",
    "parse_json": "onceward.pipeline.dead_letters",
    "read_kafka": "onceward.pipeline.source",
    "reject": "onceward.pipeline.dead_letters",
    "session": "onceward.pipeline.session",
    "state": "onceward.pipeline.reading_state",
    "topic": "onceward.kafka.copies",
    "with_dead_letters": "onceward.pipeline.transforms",
}
__all__ = [
    "DeltaSink",
    "EpochContext",
    "FileSink",
    "FunctionSink",
    "Guarantee",
    "IcebergSink",
    "JsonFormatter",
    "KafkaSink",
    "LastCommit",
    "Lookup",
    "OncewardError",
    "Outcome",
    "Owner",
    "Pipeline",
    "PostgresLookup",
    "PostgresSink",
    "Query",
    "State",
    "TwoPhaseCommitSink",
    "attempt",
    "configure",
    "copy_prefix",
    "errors",
    "good_rows",
    "parse",
    "parse_json",
    "read_kafka",
    "reject",
    "session",
    "state",
    "topic",
    "with_dead_letters",
]


def __getattr__(name: str) -> Any:
    if name == "errors":  # `except ow.errors.PipelineFenced`
        return import_module("onceward.errors")
    if name == "__version__":
        return import_module("importlib.metadata").version("onceward")
    if name not in _HOMES:
        raise AttributeError(f"module 'onceward' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
