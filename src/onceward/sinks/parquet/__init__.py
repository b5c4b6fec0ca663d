"""Parquet files that wait until their table names them: what the lake-table sinks share."""
