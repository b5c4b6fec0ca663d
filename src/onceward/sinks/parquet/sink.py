"""The life of an epoch in a lake table, whatever its format: stage files, then name them in one atomic step.

A format gives a `LakeTable`; what it reads is a `Reading`, a view of the table at one moment. `Reading.attempt` names
the files and raises the marker in one step that succeeds only if the table is still as it was read (compare and swap).
So `commit` is: read; is the marker there? then done; attempt; if somebody was faster, read again. Nothing else is
needed for exactly once, in whatever order processes do this: between a marker that was not there and a successful
attempt nothing has happened to the table, no commit by a successor and no compaction of what it committed.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from onceward.epoch.contract import Committable, EpochContext, Guarantee, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.outcome import Outcome
from onceward.epoch.recovery import require_ours
from onceward.errors import PipelineFenced, SinkUnreachable, StagingLost, TargetUnusable
from onceward.sinks import rows as shared
from onceward.sinks.parquet.staging import Place, StagedFile, Staging
from onceward.sinks.parquet.writer import Layout, WriteFiles, collected
from onceward.sinks.succession import Succession, require_predecessor

ATTEMPTS: Final = 30  # other writers may be faster again and again; the coordinator asks once more after these
LONGEST_WAIT_S: Final = 0.5
_WAY_OUT: Final = "Bring the table back to a version that has what the epoch follows, then start again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What becomes visible in one step. Without an epoch: a plain append, without a marker."""

    files: list[StagedFile]
    facts: Mapping[str, Any]  # what the layout has noted when the files were written
    epoch: int | None = None


class Reading(ABC):
    """A table at one moment."""

    place: Place  # where its files are
    last: LastCommit | None  # of this pipeline and sink, whatever its lineage
    epoch: int | None  # the last one committed by this lineage

    @abstractmethod
    def layout(self, columns: StructType) -> tuple[Layout, Mapping[str, Any]]:
        """How rows with these columns become the table's files, and what `attempt` has to know of that."""

    @abstractmethod
    def attempt(self, entry: Entry) -> bool:
        """Name the files, if the table is still as it was read. False: it may have changed, read again."""

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Name the files, however the table has changed since: no marker, no promise about repeats."""

    @abstractmethod
    def settle(self) -> None:
        """Make the table's own log, as it is now, survive a power cut."""


class LakeTable(ABC):
    """A table as one owner sees it."""

    name: str

    @abstractmethod
    def read(self) -> Reading | None:
        """The table now; None if there is none."""

    def last_commit(self) -> LastCommit | None:
        """What the marker says now; None if there is none, or no table. A format may know a quicker way."""
        reading = self.read()
        return None if reading is None else reading.last

    @abstractmethod
    def create(self, columns: StructType) -> None:
        """Make it, empty, unless it is there by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What `write` hands to `pre_commit` of the same try."""

    context: EpochContext
    staging: Staging
    files: list[StagedFile]
    facts: Mapping[str, Any]


class LakeSink(TwoPhaseCommitSink):
    """What the Delta and the Iceberg sink have in common."""

    def __init__(self, *, create: bool, small_epoch_bytes: int) -> None:
        self.create = create
        self.small_epoch_bytes = small_epoch_bytes
        self._size = shared.Size(small_epoch_bytes)
        self._table: LakeTable | None = None
        self._seen = False  # the table has been there: should it vanish, making another would hide that
        self._written: _Written | None = None
        self._succession = Succession()
        self._lasting: set[str] = set()  # places whose own names were synced by this object

    @abstractmethod
    def _connect(self, owner: Owner) -> LakeTable:
        """The table for this owner."""

    def open(self, owner: Owner) -> None:
        """Find the table; refuse one that cannot be written, or whose marker is not this home's."""
        self.owner = owner
        self._succession.forget()
        self._table = self._connect(owner)
        reading = self._table.read()
        self._seen = reading is not None
        if reading is not None and reading.last is not None and self._stages:
            require_ours(owner, owner.sink, reading.last)
        if not self._seen and not self.create:
            raise TargetUnusable(f"{self._table.name} does not exist: create it, or give the sink create=True")

    def last_commit(self) -> LastCommit | None:
        """What the table's marker says now."""
        return self._succession.told(self._require_table().last_commit()) if self._stages else None

    def begin(self, context: EpochContext) -> None:
        """Nothing is open until rows arrive."""

    def write(self, context: EpochContext, rows: DataFrame) -> Outcome:
        """Files in the table's directory that the table does not name yet; under weaker guarantees it does at once."""
        made = not self._seen
        if made:
            self._require_table().create(rows.schema)
            self._seen = True
        reading = self._read()
        if made:
            reading.settle()  # an epoch that is decided finds its table again, even if the power goes before its commit
        self._require_current(reading, context.epoch)
        layout, facts = reading.layout(rows.schema)
        staging = Staging(reading.place, self.owner)
        if not self._stages:
            return self._write_plainly(context, rows, reading, layout, facts)
        self._succession.begin(self.owner, context.epoch, reading.last)
        outcome, files = self._write_files(context, rows, layout, reading.place, staging.prefix(context))
        self._written = _Written(context=context, staging=staging, files=files, facts=facts)
        return outcome

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:  # noqa: ARG002 - ours came from write
        """Every file is closed, synced and there; which they are is the committable."""
        if not self._stages:
            return {"version": 1}
        written = self._written
        if written is None or (written.context.epoch, written.context.attempt) != (context.epoch, context.attempt):
            raise AssertionError("write() comes first")
        self._written = None  # from here on it may be decided
        sealed = written.staging.seal(context, written.files)
        if written.files and written.staging.place.path not in self._lasting:
            written.staging.place.sync_above()
            self._lasting.add(written.staging.place.path)
        return {**sealed, "facts": dict(written.facts), **self._succession.noted}

    def commit(self, context: EpochContext, committable: Committable) -> None:
        """One new version of the table with all the files and the marker, or nothing if it is there already."""
        if not self._stages:
            return
        self._succession.forget()
        reading = self._publish(context.epoch, committable)
        reading.settle()
        Staging(reading.place, self.owner).tidy(context.epoch, committable)

    def abort(self, context: EpochContext) -> None:
        """Delete what is staged. Plain appends are visible: they stay."""
        written, self._written = self._written, None
        if written is not None and written.context.epoch == context.epoch:  # no vote yet: nobody else knows of it
            written.staging.remove(written.files)
        reading = self._require_table().read()
        if reading is not None and self._stages and not _has(reading, context.epoch):
            Staging(reading.place, self.owner).clear(reading.epoch, context.epoch)

    @property
    def computing_s(self) -> float:
        """Where the rows were collected first."""
        return self._size.computing_s

    def digest(self, context: EpochContext, rows: DataFrame) -> Outcome:  # noqa: ARG002 - the contract names the epoch
        """What the rows would write."""
        return shared.digest(_named_plainly(rows))

    def _publish(self, epoch: int, committable: Committable) -> Reading:
        for number in range(ATTEMPTS):
            reading = self._read()
            if _has(reading, epoch):
                return reading
            require_predecessor(self.owner, epoch, committable, reading.last, _WAY_OUT)
            try:
                files = Staging(reading.place, self.owner).files_of(epoch, committable)
                if reading.attempt(Entry(files=files, facts=committable["facts"], epoch=epoch)):
                    return reading
            except (StagingLost, SinkUnreachable):
                # A successor may have committed and cleaned up since the marker was read; or the attempt went in, and
                # only its answer was lost.
                if _has(again := self._read(), epoch):
                    return again
                raise
            time.sleep(random.uniform(0, min(LONGEST_WAIT_S, 0.01 * 2**number)))  # noqa: S311 - spread, not secrecy
        raise SinkUnreachable(
            f"{self._require_table().name}: other writers changed the table {ATTEMPTS} times while epoch {epoch} was "
            "to be committed; it is tried again. Give them pauses, or the pipeline longer epochs."
        )

    def _write_plainly(
        self, context: EpochContext, rows: DataFrame, reading: Reading, layout: Layout, facts: Mapping[str, Any]
    ) -> Outcome:
        """A failed job leaves nothing; once the append is asked for, its files stay, for it may have happened."""
        staging = Staging(reading.place, self.owner)
        folder = staging.plain_folder()
        prefix = f"{folder}/{self.owner.term}-{context.attempt}-"
        try:
            outcome, files = self._write_files(context, rows, layout, reading.place, prefix)
        except BaseException:
            staging.clear_folder(folder, keep=())
            raise
        staging.clear_folder(folder, keep=[file.name for file in files])
        if files:
            reading.append(Entry(files=files, facts=facts))
        return outcome

    def _write_files(
        self, context: EpochContext, rows: DataFrame, layout: Layout, place: Place, prefix: str
    ) -> tuple[Outcome, list[StagedFile]]:
        work = WriteFiles(place=place, prefix=prefix, epoch=context.epoch, names=tuple(rows.columns), layout=layout)
        return collected(shared.run(_named_plainly(rows), context, self._size, work))

    def _require_current(self, reading: Reading, epoch: int) -> None:
        """A paused driver that wakes learns here that it was replaced, before it leaves files that nobody expects."""
        last, owner = reading.last, self.owner
        newer = last is not None and last.lineage == owner.lineage and last.term > owner.term
        if self._stages and (newer or _has(reading, epoch)):
            raise PipelineFenced(
                f"pipeline {owner.pipeline!r}, epoch {epoch}: {self._require_table().name} has epoch {reading.epoch}, "
                f"committed by a newer driver than this one (term {owner.term}). This one stops."
            )

    @property
    def _stages(self) -> bool:
        return self.owner.guarantee is Guarantee.EXACTLY_ONCE

    def _read(self) -> Reading:
        table = self._require_table()
        reading = table.read()
        if reading is None:
            raise TargetUnusable(f"{table.name} is gone: restore it, then start the pipeline again")
        return reading

    def _require_table(self) -> LakeTable:
        if self._table is None:
            raise AssertionError("open() comes first")
        return self._table


def _has(reading: Reading, epoch: int) -> bool:
    return reading.epoch is not None and reading.epoch >= epoch


def _named_plainly(rows: DataFrame) -> DataFrame:
    """Spark's `mapInArrow` takes dots and backquotes in a column's name for syntax: number the columns then."""
    if not any("." in name or "`" in name for name in rows.columns):
        return rows
    return rows.toDF(*(f"column_{number}" for number in range(len(rows.columns))))
