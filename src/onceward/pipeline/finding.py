"""Which record makes an epoch fail: parts of it are computed by themselves, and written nowhere.

Each part runs as an epoch does, by Spark's own streaming query, but below a checkpoint in a folder of its own that is
thrown away: home, sinks, group and state are only read or not touched at all.
"""

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from onceward.epoch import poison, skips
from onceward.epoch.checkpoint import Checkpoint, Positions, TornEntry, as_text, offsets_of
from onceward.epoch.contract import EpochContext
from onceward.epoch.home import Home
from onceward.epoch.inspection import deed_of, epochs
from onceward.epoch.patience import Patience
from onceward.epoch.places import SourcePartition
from onceward.epoch.poison import Ranges
from onceward.epoch.skips import Skipped
from onceward.epoch.storage import LocalStorage
from onceward.errors import SkipRefused
from onceward.lookups.kept import KeptLookups
from onceward.pipeline.batch import Shaping, SparkBatch, Transform
from onceward.pipeline.enrichment import Enrichment
from onceward.pipeline.explaining import explained, line_of
from onceward.pipeline.relations import is_kafka, numbered
from onceward.pipeline.shape import shape_of
from onceward.pipeline.skipped_records import record_at
from onceward.pipeline.skipping import without
from onceward.pipeline.starting import start_query

if TYPE_CHECKING:
    from onceward.pipeline.pipeline import Pipeline

FOLDER: Final = "checkpoint"


@dataclass(frozen=True, slots=True)
class Poison:
    """A record of the planned epoch that fails all alone, and with what."""

    epoch: int
    record: Skipped  # as Kafka has it; nothing is skipped yet
    error: str


def find(
    pipeline: "Pipeline",
    home: Home,
    transforms: Mapping[str, Transform],
    *,
    look_twice: bool,
    report: Callable[[str], None],
) -> list[Poison]:
    """All of them: the epoch runs through without these, or there are more than `poison.MOST`."""
    _require_parts(pipeline)
    epoch, checkpoint, known = _failing(home)
    scratch = _Scratch(pipeline, home, checkpoint, epoch, transforms, look_twice=look_twice)
    whole = poison.ranges_of(checkpoint.begins_of_sources(epoch), [offsets_of(it) for it in scratch.end.texts])
    report(f"epoch {epoch} has {poison.size(whole):,} offsets; it is run in parts, and nothing is written")
    if scratch.failure({}, known) is not None:
        raise SkipRefused(f"epoch {epoch} fails without a single record: no record is at fault. {scratch.last}")
    found: list[Poison] = []
    while len(found) < poison.MOST:
        left_out = (*known, *(it.record for it in found))
        if scratch.failure(whole, left_out) is None:
            break

        def fails(part: Ranges, left_out: tuple[Skipped, ...] = left_out) -> bool:
            failed = scratch.failure(part, left_out) is not None
            report(f"{poison.said(part)}: {'fails' if failed else 'runs through'}")
            return failed

        place = poison.find(whole, fails)
        found.append(Poison(epoch, record_at(pipeline.source, place), scratch.last))
    if not found:
        raise SkipRefused(
            f"epoch {epoch} runs through when it is computed and not written: no record makes your code fail. What "
            "failed is a sink, whose error names what it does not take, or it has passed: start the pipeline again."
        )
    return found


def _require_parts(pipeline: "Pipeline") -> None:
    """A part of an epoch must give what it gives within the whole."""
    operators = shape_of(pipeline.source, pipeline.output_mode, pipeline.state).operators
    if operators:
        raise SkipRefused(
            f"pipeline {pipeline.name!r} keeps state ({', '.join(it.name for it in operators)}), so what a record does "
            "depends on those before it, and parts of an epoch tell nothing. Make epochs smaller instead, until one "
            "record is left: max_records_per_epoch=1000, one start with --replan, then 100, 10, 1 (docs/ways-out.md)."
        )
    if not all(map(is_kafka, numbered(pipeline.source))):
        raise SkipRefused(f"pipeline {pipeline.name!r} does not read from Kafka alone: only its records are numbered")


def _failing(home: Home) -> tuple[int, Checkpoint, tuple[Skipped, ...]]:
    """The epoch that is planned and not committed, and what is left out of it already."""
    if home.deed() is None:
        raise SkipRefused(f"{home.location} is nobody's home yet: nothing was read, so nothing has failed")
    lineage = home.of_lineage(deed_of(home))
    checkpoint = Checkpoint.newest(lineage)
    planned = checkpoint.planned()
    committed = max((it.epoch for it in epochs(home, 1)), default=-1)
    finished = checkpoint.last_finished()
    if planned is None or planned <= max(committed, finished if finished is not None else -1):
        raise SkipRefused(
            f"{home.location} has no epoch that is planned and not committed: nothing has failed since the last commit"
        )
    return planned, checkpoint, skips.read(checkpoint.notes.read(skips.FILE))


class _Scratch:
    """Runs parts of one epoch."""

    def __init__(
        self,
        pipeline: "Pipeline",
        home: Home,
        checkpoint: Checkpoint,
        epoch: int,
        transforms: Mapping[str, Transform],
        *,
        look_twice: bool,
    ) -> None:
        self._pipeline = pipeline
        self._epoch = epoch
        try:
            self.end: Positions = checkpoint.positions(epoch)
            self._begins = checkpoint.begins_of_sources(epoch)
        except TornEntry as torn:
            raise SkipRefused(f"{torn}: start the pipeline first, which puts it right") from torn
        self._shaping = Shaping(transforms, pipeline.sinks.values(), look_twice=look_twice)
        self._tables: Mapping[str, DataFrame] = {}
        if pipeline.lookup is not None:
            lineage = home.of_lineage(deed_of(home))
            kept = KeptLookups(lineage.storage, lineage.location, deed_of(home).lineage)
            patience = Patience(float(pipeline.patience), clock=time.monotonic, sleep=time.sleep)
            spark = pipeline.source.sparkSession
            self._tables = Enrichment(pipeline.lookup, kept, patience, keep=False).frames(epoch, self.end.texts, spark)
        self.last = ""  # what the last part that failed has failed with

    def failure(self, part: Ranges, left_out: Sequence[Skipped]) -> Exception | None:
        """What computing these records fails with, if it does."""
        failed: list[Exception] = []

        def compute(frame: DataFrame, _epoch: int) -> None:
            batch = SparkBatch(frame, self._shaping, self._tables)
            try:
                with batch.rows(EpochContext(epoch=self._epoch)) as rows:
                    for each in rows.values():
                        batch.count(each)
            except Exception as error:  # noqa: BLE001 - whatever a record makes happen
                failed.append(error)

        source = self._pipeline.source
        with tempfile.TemporaryDirectory(prefix="onceward-find-") as folder:
            location = self._plan(Path(folder), part)
            frame = without(source, left_out) if left_out else source
            writer = frame.writeStream.outputMode(self._pipeline.output_mode).trigger(once=True).foreachBatch(compute)
            query = start_query(writer, source.sparkSession, location, {})
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                failed.append(error)
            finally:
                with suppress(Exception):  # interrupted: the folder is about to go
                    query.stop()
        if not failed:
            return None
        self.last = line_of(explained(failed[0]) or failed[0])
        return failed[0]

    def _plan(self, folder: Path, part: Ranges) -> str:
        """A checkpoint whose only epoch is planned: these records."""
        storage = LocalStorage(folder)
        storage.replace(f"{FOLDER}/metadata", json.dumps({"id": str(uuid.uuid4())}).encode())  # Spark's: which query
        scratch = Checkpoint(storage, FOLDER, (folder / FOLDER).as_uri())
        texts = []
        for index, text in enumerate(self.end.texts):
            ends = offsets_of(text)
            begins = self._begins[index] if index < len(self._begins) else {}
            cut = {
                place: _within(range(begins.get(place, 0), end), part.get(SourcePartition(index, *place)))
                for place, end in ends.items()
            }
            scratch.begin_at(index, {place: it.start for place, it in cut.items()})
            texts.append(as_text({place: it.stop for place, it in cut.items()}))
        head = self.end.plan.splitlines()[:2]  # the log's version; watermark, time and settings of the epoch
        scratch.restore(0, "\n".join([*head, *texts]))
        return scratch.location


def _within(offsets: range, part: range | None) -> range:
    """One source's offsets of a part, which may be none: then at its beginning."""
    if part is None:
        return range(offsets.start, offsets.start)
    start = min(max(offsets.start, part.start), offsets.stop)
    return range(start, max(start, min(offsets.stop, part.stop)))
