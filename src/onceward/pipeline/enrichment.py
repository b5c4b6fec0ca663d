"""What an epoch looks up: read when it first runs, kept in the home, the same rows for every further try."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from onceward import crashpoints
from onceward.epoch.patience import Patience
from onceward.errors import LookupUnusable
from onceward.events import logger
from onceward.lookups import Lookup
from onceward.lookups.kept import KeptLookups

log = logger("onceward.pipeline")


class Frames(dict[str, DataFrame]):
    """An epoch's tables as DataFrames, by name."""

    def __init__(self, epoch: int, frames: Mapping[str, DataFrame]) -> None:
        super().__init__(frames)
        self._epoch = epoch

    def __missing__(self, name: str) -> DataFrame:
        raise LookupUnusable(
            f"the lookup has no table {name!r}, but {', '.join(map(repr, self)) or 'none at all'}. If it was given one "
            f"after epoch {self._epoch} first ran: the epoch goes on with what was kept then, so start the pipeline "
            "once as it was before."
        )


class Enrichment:
    """One started pipeline's lookup. A database that is out of reach is waited for.

    keep: what is read is kept in the home; False for those who only look.
    """

    def __init__(self, lookup: Lookup, kept: KeptLookups, patience: Patience, *, keep: bool = True) -> None:
        self._lookup = lookup
        self._kept = kept
        self._patience = patience
        self._keep = keep

    def frames(self, epoch: int, positions: Sequence[str], spark: SparkSession) -> Frames:
        """The epoch's tables, made into DataFrames once for all sinks."""
        tables = self._kept.read(epoch, positions)
        if tables is None and not self._keep:
            tables = dict(self._patience.until(self._lookup.read))
        elif tables is None:
            tables = self._kept.keep(epoch, positions, self._patience.until(self._lookup.read))
        else:
            log.info(
                "epoch %d uses the rows that it looked up when it first ran", epoch,
                extra={"event": "lookup_kept", "epoch": epoch},
            )  # fmt: skip
        crashpoints.reach("looked-up", epoch)
        return Frames(epoch, {name: _frame(table, spark) for name, table in tables.items()})

    def forget(self, done: int) -> None:
        """Clear away what is kept of old epochs."""
        try:
            self._kept.forget(done)
        except Exception as error:  # noqa: BLE001 - it only takes room, and the next epoch clears it away
            log.warning(
                "epoch %d: what older epochs looked up could not be cleared away yet: %s", done, error,
                extra={"event": "lookup_not_cleared", "epoch": done, "reason": str(error)},
            )  # fmt: skip


def _frame(table: pa.Table, spark: SparkSession) -> DataFrame:
    """With a schema of its own: by itself Spark would take a time without a zone for one in the session's zone."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
