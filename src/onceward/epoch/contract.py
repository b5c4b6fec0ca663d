r"""The contract of a sink that takes part in an epoch: begin, write, pre_commit, commit, abort.

Whatever happens, a sink is asked in this order, and commit and abort may be asked again:

    begin -> write -> pre_commit -> commit        the data becomes visible, all of it
                  \-> abort                       nothing of it ever does
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from onceward.epoch.outcome import Outcome, TopicPartition


class Guarantee(Enum):
    """What a pipeline promises about each event's effect on its outputs."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


class Verdict(Enum):
    """How a commit ended. A third way, fenced by a newer driver, is the exception `PipelineFenced`."""

    COMMITTED = "committed"
    ABORTED = "aborted"  # proven not to be out: the epoch is redone


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """On whose behalf a sink works: everything that identifies work is (pipeline, lineage, epoch)."""

    pipeline: str
    lineage: str
    term: int
    guarantee: Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochContext:
    """One epoch: its number, and where each Kafka source ends."""

    epoch: int
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    input_rows: int | None = None  # records to read, where the sources tell; decides how to write


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommit:
    """A sink's answer to the recovery question: what did you commit last?"""

    lineage: str
    epoch: int
    term: int
    outcome: Outcome
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)


class TwoPhaseCommitSink(ABC):
    """A place for rows that becomes visible epoch by epoch, or not at all."""

    @abstractmethod
    def open(self, owner: Owner) -> None:
        """Take the sink over for this owner: whatever an older owner left open is aborted for good."""

    @abstractmethod
    def last_commit(self) -> LastCommit | None:
        """The last committed epoch, asked once after `open`. None: never committed."""

    @abstractmethod
    def begin(self, context: EpochContext) -> None:
        """Open the epoch."""

    @abstractmethod
    def write(self, context: EpochContext, rows: Any, *, attempt: int) -> Outcome:
        """Write the epoch's rows, durable and not visible. `attempt` counts from 1 within one process."""

    @abstractmethod
    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        """Vote: everything is durable. Returns what `commit` needs, as small JSON."""

    @abstractmethod
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        """Make the epoch visible at once; repeating it is harmless."""

    @abstractmethod
    def abort(self, context: EpochContext) -> None:
        """Forget the epoch; repeating it is harmless."""

    @abstractmethod
    def digest(self, context: EpochContext, rows: Any) -> Outcome:
        """Run the rows without writing: what would have been put out."""

    def close(self) -> None:  # noqa: B027 - a sink without connections has nothing to close
        """Let go of connections."""
