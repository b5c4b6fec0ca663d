r"""The contract of a sink that takes part in an epoch: begin, write, pre_commit, commit, abort.

Whatever happens, a sink is asked in this order, and commit and abort may be asked again, by another process too:

    begin -> write -> pre_commit -> (decision) -> commit      the epoch becomes visible, all of it
                  \-> abort                                   nothing of it ever does

The coordinator promises: an epoch begins only after every earlier one is committed in every sink; `commit` is asked
only for what was decided, with exactly the committable that `pre_commit` gave; two processes may ask `commit` for the
same committable at once (a paused driver that wakes), never for different ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, ClassVar, Final

from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.epoch.skips import Skipped

Committable = Mapping[str, Any]  # small JSON with a "version": it crosses crashes, and is read by later releases
AFTER: Final = "after"  # in a committable: the epoch that the target must still hold; without the key nobody compares


class Guarantee(StrEnum):
    """What a pipeline promises about each event's effect on its outputs."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


class Verdict(Enum):
    """How a decision ended. A third way, fenced by a newer driver, is the exception `PipelineFenced`."""

    COMMITTED = "committed"
    ABORTED = "aborted"  # proven not to be out: the epoch is redone


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """On whose behalf a sink works: everything that identifies work is (pipeline, lineage, epoch).

    `sink` is this sink's name within the pipeline; `term` rises with every start of the pipeline.
    """

    pipeline: str
    lineage: str
    term: int
    guarantee: Guarantee
    sink: str = ""
    before: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # what each sink held when the lineage began


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochContext:
    """One try of one epoch: its number, which try it is, and where each Kafka source ends."""

    epoch: int
    attempt: int = 1  # counts within one process; (term, epoch, attempt) is unique for ever
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    input_rows: int | None = None  # records to read, where the sources tell; decides how to write
    begins: Mapping[TopicPartition, int] | None = None  # where each Kafka source begins; None unless that is certain
    skipped: tuple[Skipped, ...] = ()  # records of its range that a person has told the pipeline to pass over


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """A sink's answer to the recovery question: what did you commit last?"""

    lineage: str
    epoch: int
    term: int
    outcome: Outcome | None = None  # where the marker tells
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)


class TwoPhaseCommitSink(ABC):
    """A place for rows that becomes visible epoch by epoch, or not at all.

    Under at-least-once and at-most-once (`self.owner.guarantee`) a sink may write straight to its target in `write`;
    nothing is decided then, `last_commit` is not asked, and `commit` follows at once.
    """

    remembers: ClassVar[bool] = True  # False: has no marker of its own, `last_commit` cannot tell; the ledger's counts
    repeatable: bool = True  # False: an epoch redone would have its effect twice; refused under exactly-once
    owner: Owner

    def open(self, owner: Owner) -> None:
        """Take the sink over for this owner; check that the target can be written, before anything is read.

        What an older owner has pre-committed must stay: it may have been decided.
        """
        self.owner = owner

    @abstractmethod
    def last_commit(self) -> LastCommit | None:
        """The last committed epoch of (pipeline, sink), of whichever lineage; None: the target knows of none.

        Asked after `open` and before every epoch, so it must be quick, tell what the target says *now* (a target that
        was set back, by a restored backup or a failover, tells the older epoch) and change nothing. An error that may
        pass is `SinkUnreachable`.
        """

    @abstractmethod
    def begin(self, context: EpochContext) -> None:
        """Open the epoch."""

    @abstractmethod
    def write(self, context: EpochContext, rows: Any) -> Outcome | None:
        """Write the epoch's rows, durable and not visible. None: the pipeline counts and digests the rows itself."""

    @abstractmethod
    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        """Vote: everything is durable, no more writes. Returns what `commit` needs in another process, as small JSON.

        Whatever could make `commit` fail for good has to be found here.
        """

    @abstractmethod
    def commit(self, context: EpochContext, committable: Committable) -> None:
        """Make the epoch visible at once. Decided: it must succeed, now or later; repeating it is harmless."""

    @abstractmethod
    def abort(self, context: EpochContext) -> None:
        """Forget everything staged for this epoch by any try of this term or an older one; repeating it is harmless.

        Never what a newer term has staged: the caller may be a paused driver that woke after its successor's start.
        Earlier epochs are committed everywhere, so what is staged for them may go too.
        """

    @property
    def computing_s(self) -> float:
        """Of the last `write`: how long the engine computed its rows; 0 where that cannot be told from writing them."""
        return 0.0

    def digest(self, context: EpochContext, rows: Any) -> Outcome | None:  # noqa: ARG002 - for those who override it
        """Run the rows without writing: what `write` would have returned. None as in `write`."""
        return None

    def describe(self) -> Mapping[str, Any] | None:
        """Keyword arguments that make this sink again, as JSON and without secrets, for `onceward resolve`."""
        return None

    def when_repeated(self) -> str:
        """What becomes of rows that events make a second time, after `onceward reset`; half a sentence for people."""
        return "events that are read again are written again: it has them twice unless you empty it first"

    def close(self) -> None:  # noqa: B027 - a sink without connections has nothing to close
        """Let go of connections."""


class DecidingSink(TwoPhaseCommitSink):
    """A sink that cannot stay prepared, so that its own commit *is* the decision; a pipeline has one at most."""

    @abstractmethod
    def decide(self, context: EpochContext, committable: Committable) -> Verdict:
        """Commit for good, or learn that it did not happen. An unknown end is never a verdict: find out, or raise."""

    @abstractmethod
    def peek(self, pipeline: str) -> LastCommit | None:
        """The last commit as of now, without opening the sink and changing nothing.

        For people who look, and for a start, which must not fence a healthy pipeline only to be refused.
        """

    @abstractmethod
    def write_marker(self, last: LastCommit) -> None:
        """The marker alone, without rows: before the first epoch ("nothing yet"), and again before it expires."""

    def commit(self, context: EpochContext, committable: Committable) -> None:
        """`decide` has done it."""


def decider_of(sinks: Mapping[str, TwoPhaseCommitSink]) -> str | None:
    """The name of the sink that decides, if one does."""
    return next((name for name, sink in sinks.items() if isinstance(sink, DecidingSink)), None)
