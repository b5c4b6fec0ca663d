"""Spark's side of the epoch's doors: a micro-batch with each sink's rows, and a thread for what goes on beside it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame

from onceward.epoch.checkpoint import Positions
from onceward.epoch.contract import EpochContext, TwoPhaseCommitSink
from onceward.epoch.outcome import Outcome
from onceward.epoch.runner import EpochRunner
from onceward.pipeline.enrichment import Enrichment
from onceward.pipeline.letters import Letters
from onceward.sinks.rows import digest

T = TypeVar("T")
NOT_TOLD: Final[Future[int | None]] = Future()
NOT_TOLD.set_result(None)
Transform = Callable[[DataFrame, Mapping[str, DataFrame]], DataFrame]  # of a batch and of what was looked up for it

Shape = Callable[[DataFrame, Mapping[str, DataFrame]], Any]  # the same, or into what its sink takes in a frame's place


@dataclass(frozen=True, slots=True)
class Shaping:
    """How one pipeline's batches become its sinks' rows."""

    transforms: Mapping[str, Shape]
    sinks: Collection[TwoPhaseCommitSink]  # one that does not count its rows itself has them looked at twice
    letters: Letters | None = None  # what the Kafka sink carries of skipped records
    enrichment: Enrichment | None = None
    rows_dropped: Callable[[], int] = lambda: 0
    rows_read: Callable[[], "Future[int | None]"] = lambda: NOT_TOLD
    joining: Callable[[Collection[str]], None] = lambda _: None  # told the topics that an epoch reads
    look_twice: bool = False  # one job looks at the batch twice, so it is computed before that
    look_at: Callable[[Mapping[str, DataFrame]], None] = lambda _: None  # shown each sink's rows before they are used

    @property
    def shared(self) -> bool:
        """Whether several look at a batch, so that it is computed once and kept."""
        return len(self.transforms) > 1 or self.look_twice or not all(map(_counts_itself, self.sinks))


@dataclass(slots=True)
class SparkBatch:
    """`onceward.epoch.ports.Batch` over a DataFrame."""

    frame: DataFrame
    shaping: Shaping
    tables: Mapping[str, DataFrame] = field(default_factory=dict)  # what was looked up
    _read: "Future[int | None]" = field(default_factory=lambda: NOT_TOLD)

    def prepare(self, epoch: int, positions: Positions) -> None:
        """Look up, or take what an earlier try of this epoch has looked up."""
        self.shaping.joining({place.topic for place in positions.kafka})
        if self.shaping.enrichment is not None:
            self.tables = self.shaping.enrichment.frames(epoch, positions.texts, self.frame.sparkSession)

    @contextmanager
    def rows(self, context: EpochContext) -> Iterator[Mapping[str, DataFrame]]:
        """Each sink's rows; the batch is computed once for each try, however many look at it."""
        frame, how = self.frame, self.shaping
        with kept(frame, at_once=how.look_twice) if how.shared else nullcontext(frame) as shared:
            rows = {name: transform(shared, self.tables) for name, transform in self.shaping.transforms.items()}
            if (letters := self.shaping.letters) is not None:
                rows[letters.sink] = letters.added(rows[letters.sink], context.skipped)
            self.shaping.look_at(rows)
            yield rows
        self._read = self.shaping.rows_read()  # counted while the epoch is decided

    def count(self, rows: DataFrame) -> Outcome:
        """Run them into a digest."""
        return digest(rows)

    def rows_read(self) -> int | None:
        """Spark's own count."""
        return self._read.result()

    def late_rows(self) -> int:
        """Spark's own count, where it matters."""
        return self.shaping.rows_dropped()


def in_foreach_batch(runner: EpochRunner, shaping: Shaping) -> Callable[[DataFrame, int], None]:
    """What Spark calls for every micro-batch."""
    return lambda frame, epoch: runner(SparkBatch(frame, shaping), epoch)


class BackgroundThread:
    """`onceward.epoch.ports.Background`: one thread, one piece of work after the other."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Begin with it, or queue it."""
        return self._pool.submit(work)

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """The same, for an answer."""
        return self._pool.submit(question)

    def close(self) -> None:
        """Wait for all of it."""
        self._pool.shutdown(wait=True)


@contextmanager
def kept(frame: DataFrame, *, at_once: bool = False) -> Iterator[DataFrame]:
    """The frame's rows as they are first computed, for several to look at.

    Not `persist`: what an executor that is lost had cached would be computed again, and two sinks of one epoch might
    then disagree about a query that is not deterministic. Without its lineage such a loss fails the try instead.

    at_once: compute it now. Two tasks of one job that look at it might each compute it, and disagree likewise.
    """
    shared = frame.localCheckpoint(eager=at_once)
    try:
        yield shared
    finally:
        shared._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: SLF001, FBT003 - PySpark has no way


def _counts_itself(sink: TwoPhaseCommitSink) -> bool:
    return type(sink).digest is not TwoPhaseCommitSink.digest
