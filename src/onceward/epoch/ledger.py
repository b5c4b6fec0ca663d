"""The ledger: one small file per epoch with positions in, counts and digests out, votes and completion.

An entry is named by epoch and term. A driver that was replaced may still be running; what it writes under
its old term about epochs after its successor's start is passed over (docs/decisions/0004).
"""

import re
from typing import Any, Final

import msgspec

from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import LedgerCorrupt

FORMAT: Final = 1
RETAIN: Final = 1000  # epochs; ten times what Spark retains of its own logs, which is all a replay can ask for
FOLDER: Final = "ledger"
_NAME: Final = re.compile(r"(\d{12})-(\d{6})\.json")

STARTED: Final = "started"  # at-most-once: about to be written, never to be written again
PREPARED: Final = "prepared"  # every sink has voted yes; a sink's own commit decides
DECIDED: Final = "decided"  # the ledger decided; the commits are under way
DONE: Final = "done"  # visible in every sink

Partitions = list[tuple[str, int, int, str]]


class SinkEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One sink's part of an epoch. `kind` and `settings` make the sink again (without its secrets)."""

    kind: str = ""
    settings: dict[str, Any] | None = None
    rows: int = 0
    digest: str = "0"
    partitions: Partitions = []
    committable: dict[str, Any] = {}
    milliseconds: dict[str, float] = {}

    @classmethod
    def of(cls, outcome: Outcome, **facts: Any) -> "SinkEntry":
        """With an outcome's counts and digests."""
        partitions = [(*place, part.rows, f"{part.digest:x}") for place, part in sorted(outcome.partitions.items())]
        return cls(rows=outcome.rows, digest=f"{outcome.digest:x}", partitions=partitions, **facts)

    @property
    def outcome(self) -> Outcome:
        """Counts and digests, to compare a replay with."""
        parts = {
            TopicPartition(topic, partition): PartitionOutcome(rows=count, digest=int(part, 16))
            for topic, partition, count, part in self.partitions
        }
        return Outcome(rows=self.rows, digest=int(self.digest, 16), partitions=parts)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch, in one of the phases above."""

    format: int = FORMAT
    pipeline: str
    lineage: str
    term: int
    epoch: int
    phase: str
    positions: list[str]  # the end of each source, as Spark wrote it into its offset log
    plan: str = ""  # that log's whole entry, to put it back if it is torn or altered
    decider: str | None = None  # the name of the sink that decides; None: the ledger does
    sinks: dict[str, SinkEntry] = {}
    input_rows: int | None = None  # what was read, each row once, where the sources tell; what was written: `sinks`
    skipped: list[str] = []  # records of its range that were passed over, as a person has said: topic/partition/offset
    attempts: int = 1
    finished_at: str = ""
    milliseconds: dict[str, float] = {}

    @property
    def decided_by(self) -> str:
        """The decider in words, for people; never to be compared with a name."""
        return "the ledger" if self.decider is None else f"sink {self.decider!r}"

    def outcome_of(self, sink: str) -> Outcome | None:
        """What one sink received; None if it took no part."""
        return self.sinks[sink].outcome if sink in self.sinks else None


class Ledger:
    """Reads and writes a home's entries."""

    def __init__(self, storage: Storage, boundaries: dict[int, int], lineage: str) -> None:
        """`boundaries`: for each term, the last epoch that was committed when it began."""
        self._storage = storage
        self._lineage = lineage
        self._boundaries = boundaries

    def write(self, entry: Entry) -> None:
        """Record an epoch, synced. Repeating it is harmless."""
        self._storage.replace(_name(entry.epoch, entry.term), seal(entry))
        if entry.epoch % 100 == 0 and entry.phase == DONE:
            self._forget(entry.epoch - RETAIN)

    def sync(self, entry: Entry) -> None:
        """Make an entry that another driver wrote survive a power cut: it may have been stopped before it did."""
        self._storage.sync(_name(entry.epoch, entry.term))

    def read(self, epoch: int) -> Entry | None:
        """The valid entry of an epoch: that of the newest term that could have committed it."""
        terms = [term for found, term in self._index() if found == epoch]
        return self.read_of(epoch, max(terms)) if terms else None

    def read_of(self, epoch: int, term: int) -> Entry | None:
        """What one term wrote about an epoch."""
        data = self._storage.read(_name(epoch, term))
        return self._checked(data, epoch, term) if data is not None else None

    def last(self, phase: str = DONE) -> Entry | None:
        """The newest valid entry in a phase."""
        for epoch, term in sorted(self._index(), reverse=True):
            entry = self.read_of(epoch, term)
            if entry is not None and entry.phase == phase:
                return entry
        return None

    def newest(self, count: int) -> list[Entry]:
        """The valid entries of the last epochs, oldest first."""
        terms = dict(sorted(self._index()))  # of each epoch the newest term that could have committed it
        return [entry for epoch in sorted(terms)[-count:] if (entry := self.read_of(epoch, terms[epoch])) is not None]

    def _index(self) -> list[tuple[int, int]]:
        return [
            (epoch, term)
            for epoch, term in self._all()
            if all(epoch <= last for other, last in self._boundaries.items() if other > term)
        ]

    def _checked(self, data: bytes, epoch: int, term: int) -> Entry:
        name = _name(epoch, term)
        entry = unseal(data, Entry, name, FORMAT)
        if entry.lineage != self._lineage:
            raise LedgerCorrupt(
                f"{name} is of lineage {entry.lineage}, the home of {self._lineage}: files were swapped"
            )
        if (entry.epoch, entry.term) != (epoch, term):
            raise LedgerCorrupt(f"{name} holds epoch {entry.epoch} of term {entry.term}: files were swapped")
        return entry

    def _forget(self, oldest: int) -> None:
        for epoch, term in self._all():
            if epoch < oldest:
                self._storage.remove(_name(epoch, term))

    def _all(self) -> list[tuple[int, int]]:
        matches = (_NAME.fullmatch(name) for name in self._storage.names(FOLDER))
        return [(int(match[1]), int(match[2])) for match in matches if match]


def _name(epoch: int, term: int) -> str:
    return f"{FOLDER}/{epoch:012d}-{term:06d}.json"
