"""The ledger: one small file per epoch with positions in, counts and digests out.

An entry is named by epoch and term. A driver that was replaced may still be running; what it writes under
its old term about epochs after its successor's start is passed over (docs/decisions/0004).
"""

import re
from typing import Final

import msgspec

from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import LedgerCorrupt

FORMAT: Final = 1
RETAIN: Final = 1000  # epochs; ten times what Spark retains of its own logs, which is all a replay can ask for
FOLDER: Final = "ledger"
_NAME: Final = re.compile(r"(\d{12})-(\d{6})\.json")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch, as it was committed (`done`), or as it was about to be written (`started`, at-most-once)."""

    format: int = FORMAT
    pipeline: str
    lineage: str
    term: int
    epoch: int
    phase: str
    positions: list[str]  # the end of each source, as Spark wrote it into its offset log
    rows: int = 0
    digest: str = "0"
    partitions: list[tuple[str, int, int, str]] = []
    attempts: int = 1
    finished_at: str = ""
    milliseconds: dict[str, float] = {}

    @property
    def outcome(self) -> Outcome:
        """Counts and digests, to compare a replay with."""
        parts = {
            TopicPartition(topic, partition): PartitionOutcome(rows=rows, digest=int(digest, 16))
            for topic, partition, rows, digest in self.partitions
        }
        return Outcome(rows=self.rows, digest=int(self.digest, 16), partitions=parts)


def with_outcome(entry: Entry, outcome: Outcome) -> Entry:
    """The entry with an outcome's counts and digests."""
    partitions = [
        (place.topic, place.partition, part.rows, f"{part.digest:x}")
        for place, part in sorted(outcome.partitions.items())
    ]
    return msgspec.structs.replace(entry, rows=outcome.rows, digest=f"{outcome.digest:x}", partitions=partitions)


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
        if entry.epoch % 100 == 0:
            self._forget(entry.epoch - RETAIN)

    def read(self, epoch: int) -> Entry | None:
        """The valid entry of an epoch: that of the newest term that could have committed it."""
        terms = [term for found, term in self._index() if found == epoch]
        return self._load(epoch, max(terms)) if terms else None

    def last(self, phase: str = "done") -> Entry | None:
        """The newest valid entry in a phase."""
        for epoch, term in sorted(self._index(), reverse=True):
            entry = self._load(epoch, term)
            if entry.phase == phase:
                return entry
        return None

    def _index(self) -> list[tuple[int, int]]:
        found = []
        for name in self._storage.names(FOLDER):
            if match := _NAME.fullmatch(name):
                epoch, term = int(match[1]), int(match[2])
                later = [last for other, last in self._boundaries.items() if other > term]
                if all(epoch <= last for last in later):
                    found.append((epoch, term))
        return found

    def _load(self, epoch: int, term: int) -> Entry:
        name = _name(epoch, term)
        data = self._storage.read(name)
        if data is None:
            raise LedgerCorrupt(f"{name} has disappeared while it was being read")
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
