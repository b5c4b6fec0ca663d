"""The Iceberg sink."""

from onceward.sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink"]
