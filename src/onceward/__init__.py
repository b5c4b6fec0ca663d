"""Onceward: end-to-end exactly-once stream processing in Python, on Spark and Kafka.

    import onceward as ow

The public names are the ones listed here; everything else may change. They are loaded when first used, so that
the command line and Spark's workers start without what they do not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onceward.epoch.contract import Guarantee as Guarantee
    from onceward.errors import OncewardError as OncewardError
    from onceward.pipeline.pipeline import Pipeline as Pipeline
    from onceward.pipeline.query import Query as Query
    from onceward.pipeline.session import configure as configure
    from onceward.pipeline.session import session as session
    from onceward.pipeline.source import read_kafka as read_kafka
    from onceward.sinks.kafka import KafkaSink as KafkaSink

_HOMES: Final = {
    "Guarantee": "onceward.epoch.contract",
    "KafkaSink": "onceward.sinks.kafka",
    "OncewardError": "onceward.errors",
    "Pipeline": "onceward.pipeline.pipeline",
    "Query": "onceward.pipeline.query",
    "configure": "onceward.pipeline.session",
    "read_kafka": "onceward.pipeline.source",
    "session": "onceward.pipeline.session",
}
__all__ = ["Guarantee", "KafkaSink", "OncewardError", "Pipeline", "Query", "configure", "read_kafka", "session"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'onceward' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
