"""The Delta sink."""

from onceward.sinks.delta.sink import DeltaSink

__all__ = ["DeltaSink"]
