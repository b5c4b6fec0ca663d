"""DeltaSink: rows of each epoch become one version of a Delta table."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from onceward.epoch.contract import Owner
from onceward.errors import DependencyMissing, TargetUnusable
from onceward.sinks.parquet.sink import LakeSink, LakeTable
from onceward.sinks.rows import SMALL_EPOCH_BYTES


class DeltaSink(LakeSink):
    """Appends rows to a Delta table, all of an epoch in one new version.

    path: the table's directory, local or mounted, or as a file: URI; on a cluster every executor must see it.
    partition_by: columns that partition a table that this sink creates; of an existing one, to be checked.
    create: make the table with the first rows' columns if there is none.
    small_epoch_bytes: up to this size an epoch is collected and written by the driver itself; 0 never.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        partition_by: Sequence[str] = (),
        create: bool = True,
        small_epoch_bytes: int = SMALL_EPOCH_BYTES,
    ) -> None:
        super().__init__(create=create, small_epoch_bytes=small_epoch_bytes)
        try:
            import deltalake  # noqa: F401 - found missing here, not in the middle of an epoch
        except ImportError as error:
            raise DependencyMissing(f"DeltaSink needs deltalake ({error}): pip install 'onceward[delta]'") from error
        self.path = _local(str(path))
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)

    def __repr__(self) -> str:
        return f"DeltaSink({str(self.path)!r})"

    def describe(self) -> Mapping[str, Any]:
        """How to make this sink again."""
        return {
            "path": str(self.path),
            "partition_by": list(self.partition_by),
            "create": self.create,
            "small_epoch_bytes": self.small_epoch_bytes,
        }

    def _connect(self, owner: Owner) -> LakeTable:
        from onceward.sinks.delta.table import DeltaLakeTable

        there = next(place for place in (self.path, *self.path.parents) if place.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise TargetUnusable(
                f"{self.path} cannot be written: {there} is no directory, or not writable by this user"
            )
        return DeltaLakeTable(self.path, owner, self.partition_by)


def _local(text: str) -> Path:
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "file":
        host, slash, path = rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "/", rest[1:])
        if host not in ("", "localhost") or not slash:
            raise TargetUnusable(f"{text!r} names another machine: use file:///path, or mount it here")
        text = f"/{unquote(path)}"
    elif "://" in text:
        raise TargetUnusable(
            f"DeltaSink does not write to {scheme}: stores. Whether a log entry can be put there by one writer only "
            "depends on the store and on options that cannot be checked from here. Use a local or mounted directory, "
            "or IcebergSink, whose catalogue decides."
        )
    if "%" in text:
        raise TargetUnusable(f"deltalake takes %-signs in a directory's name for escapes: rename {text!r}")
    return Path(text).absolute()
