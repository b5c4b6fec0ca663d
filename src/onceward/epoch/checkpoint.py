"""Spark's own checkpoint of a query, as Onceward reads it: the positions at which an epoch ends, and what is finished.

Spark writes an epoch's plan (`offsets/N`) before it asks us anything, and on a local path it looks for a file and then
renames over it: two drivers can both succeed. So each term has a folder of its own. A start takes its predecessor's
along by one rename; what the predecessor still writes goes to a path that nobody reads (docs/decisions/0013). What a
driver notes for its successors (which query runs, which topics it reads, which records are skipped) is there, too.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.epoch.home import CHECKPOINTS, FIRST, Home
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.skips import Skipped, in_range
from onceward.epoch.storage import Below, Storage
from onceward.errors import HomeMismatch, PipelineFenced

NOTES: Final = "notes"  # in a checkpoint's folder: what its driver has written down besides, such as skipped records
_VERSION: Final = re.compile(r"v\d+")
_NO_OFFSET: Final = "-"  # Spark's word for a source that had nothing yet


@dataclass(frozen=True, slots=True)
class Positions:
    """Where each source ends: the whole entry, Spark's own text of each source, and the Kafka ones as numbers."""

    plan: str
    texts: list[str]
    kafka: Mapping[TopicPartition, int]


class TornEntry(Exception):
    """A file of Spark's logs that a power cut has emptied or cut short."""


class Checkpoint:
    """Spark's folder of one term, below a home."""

    def __init__(self, storage: Storage, folder: str, location: str) -> None:
        self._storage = storage
        self.folder = folder
        self.location = location
        self.notes: Storage = Below(storage, f"{folder}/{NOTES}")
        self._metadata_synced = False

    @classmethod
    def adopt(cls, home: Home, term: int) -> "Checkpoint":
        """The predecessor's folder becomes this term's, at once. From now on no older driver writes where we read."""
        mine = f"{CHECKPOINTS}/{term:06d}"
        while (found := _newest(home.storage)) is not None and found != mine:
            if found > mine:
                raise PipelineFenced(
                    f"{home.location}/{found} was taken by a newer driver; this one, of term {term}, was paused before "
                    "it began, and stops"
                )
            home.storage.move(found, mine)  # False: another start was quicker, so look again
        return cls(home.storage, mine, home.uri(mine))

    @classmethod
    def newest(cls, home: Home) -> "Checkpoint":
        """For those who only look."""
        folder = _newest(home.storage) or FIRST
        return cls(home.storage, folder, home.uri(folder))

    @classmethod
    def noted(cls, home: Home, name: str) -> bytes | None:
        """A note, for those who only look: of the newest driver, whose folder the next one may take along meanwhile."""
        while True:
            checkpoint = cls.newest(home)
            data = checkpoint.notes.read(name)
            if data is not None or cls.newest(home).folder == checkpoint.folder:
                return data

    def positions(self, epoch: int) -> Positions:
        """From Spark's offset log, which has the entry before the epoch runs."""
        try:
            found = self.read(epoch)
        except TornEntry as torn:
            raise HomeMismatch(f"Spark runs epoch {epoch}, but {torn}") from torn
        if found is None:
            raise HomeMismatch(f"Spark runs epoch {epoch}, but {self.location}/offsets/{epoch} is not there")
        return found

    def read(self, epoch: int) -> Positions | None:
        """The plan of an epoch; None if there is none."""
        data = self._storage.read(self._offsets(epoch))
        if data is None:
            return None
        text = data.decode("utf-8", "replace")
        lines = text.splitlines()
        if len(lines) < 3 or not is_whole(data):
            raise TornEntry(f"{self.location}/offsets/{epoch} is empty or cut short ({len(data)} bytes)")
        return Positions(text, lines[2:], kafka_positions(lines[2:]))

    def settings(self, epoch: int) -> Mapping[str, str]:
        """The engine's settings that belong to the state, as the plan of an epoch keeps them; empty if it has none."""
        return settings_of((self._storage.read(self._offsets(epoch)) or b"").decode("utf-8", "replace"))

    def input_rows(self, epoch: int, end: Positions) -> int | None:
        """How many offsets the epoch spans, if all its sources are Kafka; None when that cannot be told."""
        sources = [offsets_of(text) for text in end.texts]
        if not sources or not all(sources) or len(end.kafka) < sum(map(len, sources)):  # two over one topic
            return None
        if epoch == 0:
            before: Mapping[TopicPartition, int] = self._initial(len(sources))
        else:
            previous = self.read(epoch - 1)
            if previous is None:
                return None
            before = previous.kafka
        return sum(max(0, offset - before.get(place, 0)) for place, offset in end.kafka.items())

    def begins_of_sources(self, epoch: int) -> list[dict[TopicPartition, int]]:
        """Where an epoch begins, for each source in Spark's order: at the end of the one before, or where it began.

        Empty for one that is not Kafka's.
        """
        previous = self.read(epoch - 1) if epoch > 0 else None
        count = len(previous.texts) if previous is not None else len(self._storage.names(f"{self.folder}/sources"))
        before = [offsets_of(text) for text in previous.texts] if previous is not None else [{}] * count
        return [found or self._noted(index) for index, found in enumerate(before)]

    def passed_over(self, records: Sequence[Skipped], epoch: int, positions: Positions) -> tuple[Skipped, ...]:
        """Those that an epoch's range has. What is committed can neither be skipped nor brought back."""
        if not records:
            return ()
        return in_range(records, self.begins_of_sources(epoch), [offsets_of(text) for text in positions.texts])

    def sync_positions(self, epoch: int) -> None:
        """Make the offset log's entry survive a power cut, and the query's id; Spark itself only closes the files."""
        if not self._metadata_synced:
            self._storage.sync(f"{self.folder}/metadata")
            self._metadata_synced = True
        self._storage.sync(self._offsets(epoch))

    def planned(self) -> int | None:
        """The newest epoch in the offset log."""
        return max(self._numbers("offsets"), default=None)

    def finished(self, epoch: int) -> bool:
        """Whether Spark's commit log has the epoch."""
        return self._storage.read(self._commits(epoch)) is not None

    def is_next(self, epoch: int) -> bool:
        """Whether Spark would plan this one next."""
        planned, finished = self.planned(), self.last_finished()
        return planned == finished and (planned if planned is not None else -1) == epoch - 1

    def last_finished(self) -> int | None:
        """The newest epoch in Spark's commit log."""
        return max(self._numbers("commits"), default=None)

    def all_finished(self) -> list[int]:
        """Every epoch that Spark's commit log still has."""
        return self._numbers("commits")

    def require_intact(self, committed: int) -> None:
        """Refuse a checkpoint that lost what the pipeline has already committed, or has what it never committed."""
        planned, finished = self._numbers("offsets"), self._numbers("commits")
        # Before any epoch is over, a power cut may have taken it, and a new query does no harm.
        begun = committed >= 0 or finished
        if begun and planned and self._storage.read(f"{self.folder}/metadata") is None:
            raise HomeMismatch(
                f"{self.location} has lost its file 'metadata': Spark would take the query for a new one. Restore the "
                "checkpoint from a backup."
            )
        if committed >= 0 and committed not in planned:
            raise HomeMismatch(
                f"epoch {committed} is committed, but Spark's checkpoint {self.location} "
                f"{'ends at epoch ' + str(max(planned)) if planned else 'is empty'}: deleted, or an old copy. "
                "Going on would commit epochs again. Restore the whole home from one backup, or give the pipeline a "
                "new name and a new home."
            )
        if max(finished, default=-1) > committed:
            raise HomeMismatch(
                f"Spark's checkpoint {self.location} has epoch {max(finished)} as finished, but the pipeline has "
                f"committed {'only up to epoch ' + str(committed) if committed >= 0 else 'none'}: the home's ledger "
                "and decisions are older than its checkpoint. Going on would lose the epochs between. Restore the "
                "whole home from one backup."
            )

    def clear_torn(self, committed: int) -> list[str]:
        """What a power cut has torn and nobody needs is taken away; what became of it, in words.

        A commit log entry: its epoch runs again, and writes nothing. The query's id before anything was committed.
        """
        told: list[str] = []
        metadata = self._storage.read(f"{self.folder}/metadata")
        if metadata is not None and not _is_json(metadata.decode("utf-8", "replace")) and committed < 0:
            self._storage.remove(f"{self.folder}/metadata")
            told.append(f"{self.location}/metadata was torn, and nothing is committed: Spark writes it anew")
        while (newest := self.last_finished()) is not None:
            if is_whole(self._storage.read(self._commits(newest)) or b""):
                break
            self._storage.remove(self._commits(newest))
            told.append(f"Spark's commit log entry of epoch {newest} was torn: taken away, the epoch is replayed")
        return told

    def restore(self, epoch: int, plan: str) -> None:
        """Put back an epoch's plan, as the ledger kept it."""
        self._storage.replace(self._offsets(epoch), plan.encode())

    def discard(self, epoch: int) -> None:
        """Take away the plan of an epoch that nobody has committed: Spark plans it anew."""
        self._storage.remove(self._offsets(epoch))

    def initial(self) -> dict[TopicPartition, int]:
        """Where the first epoch began, as each Kafka source noted it."""
        return self._initial(len(self._storage.names(f"{self.folder}/sources")))

    def topics(self) -> frozenset[str]:
        """Kafka topics that the newest plan has positions of; before the first one, those that sources began with."""
        planned = self.planned()
        try:
            plan = self.read(planned) if planned is not None else None
        except TornEntry:  # a start puts it right, or plans it anew
            plan = None
        places = plan.kafka if plan is not None else self.initial()
        return frozenset(place.topic for place in places)

    def begin_at(self, source: int, places: Mapping[TopicPartition, int]) -> None:
        """Where a Kafka source is to begin, as it would have noted it itself before its first epoch (SPARK-19517)."""
        self._storage.replace(f"{self.folder}/sources/{source}/0", b"\0v1\n" + as_text(places).encode())

    def _offsets(self, epoch: int) -> str:
        return f"{self.folder}/offsets/{epoch}"

    def _commits(self, epoch: int) -> str:
        return f"{self.folder}/commits/{epoch}"

    def _numbers(self, log: str) -> list[int]:
        return [int(name) for name in self._storage.names(f"{self.folder}/{log}") if name.isdigit()]

    def _initial(self, sources: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for index in range(sources):
            found.update(self._noted(index))
        return found

    def _noted(self, source: int) -> dict[TopicPartition, int]:
        note = self._storage.read(f"{self.folder}/sources/{source}/0")
        return offsets_of(note.split(b"\n", 1)[-1].decode("utf-8", "replace")) if note is not None else {}


def kafka_positions(texts: list[str], pick: Callable[[int, int], int] = min) -> dict[TopicPartition, int]:
    """The Kafka ones among the sources' positions.

    Two sources over one topic: the earlier position counts, since a group has one place per partition; or as `pick`.
    """
    found: dict[TopicPartition, int] = {}
    for text in texts:
        for place, offset in offsets_of(text).items():
            found[place] = pick(offset, found.get(place, offset))
    return found


def as_text(places: Mapping[TopicPartition, int]) -> str:
    """Kafka's positions as Spark writes them."""
    topics: dict[str, dict[str, int]] = {}
    for place, offset in sorted(places.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)


def _newest(storage: Storage) -> str | None:
    """The folder of the newest term that has one."""
    terms = [name for name in storage.names(CHECKPOINTS) if name.isdigit()]
    return f"{CHECKPOINTS}/{max(terms)}" if terms else None


def is_whole(entry: bytes) -> bool:
    """Whether an entry of Spark's logs has all its lines: a version, then JSON, or a dash for a source without any."""
    lines = entry.decode("utf-8", "replace").splitlines()
    return len(lines) > 1 and bool(_VERSION.fullmatch(lines[0])) and all(map(_is_json, lines[1:]))


def settings_of(plan: str) -> Mapping[str, str]:
    """The engine's settings that a plan keeps, in its second line; empty if it has none, or is torn."""
    lines = plan.splitlines()
    try:
        found = json.loads(lines[1])["conf"] if len(lines) > 1 else {}
    except (ValueError, KeyError, TypeError):
        return {}  # told where the plan itself is read
    return found if isinstance(found, dict) else {}


def _is_json(line: str) -> bool:
    if line == _NO_OFFSET:
        return True
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def offsets_of(text: str) -> dict[TopicPartition, int]:
    """Kafka's positions look like {"topic": {"0": 42}}; anything else is another source's."""
    try:
        topics = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(topics, dict) or not all(isinstance(value, dict) for value in topics.values()):
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
            if type(offset) is int
        }
    except ValueError:
        return {}
