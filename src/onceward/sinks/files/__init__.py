"""The file sink: directories of Parquet, JSON or CSV files that appear an epoch at a time."""

from onceward.sinks.files.sink import FileSink

__all__ = ["FileSink"]
