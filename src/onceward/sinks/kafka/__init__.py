"""The Kafka sink: one transaction for each epoch. It is loaded when first used: its pure parts serve commands too."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onceward.sinks.kafka.sink import KafkaSink as KafkaSink

__all__ = ["KafkaSink"]


def __getattr__(name: str) -> Any:
    if name != "KafkaSink":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onceward.sinks.kafka.sink import KafkaSink

    return KafkaSink
