"""What Onceward reads of Spark's own checkpoint: the positions at which an epoch ends."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from onceward.epoch.home import CHECKPOINT, Home
from onceward.epoch.outcome import TopicPartition
from onceward.errors import HomeMismatch


@dataclass(frozen=True, slots=True)
class Positions:
    """Where each source ends: Spark's own text of it, and the Kafka ones as numbers."""

    texts: list[str]
    kafka: Mapping[TopicPartition, int]


class Checkpoint:
    """Spark's directory of a query, below a home; read only."""

    def __init__(self, home: Home) -> None:
        self._storage = home.storage
        self._location = home.checkpoint
        self._metadata_synced = False

    def positions(self, epoch: int) -> Positions:
        """From Spark's offset log, which has the entry before the epoch runs."""
        found = self._read(epoch)
        if found is None:
            raise HomeMismatch(f"Spark runs epoch {epoch}, but {self._location}/offsets/{epoch} is not there")
        return found

    def texts(self, epoch: int) -> list[str]:
        """Spark's own text of the positions."""
        return self.positions(epoch).texts

    def input_rows(self, epoch: int, end: Positions) -> int | None:
        """How many offsets the epoch spans, if all its sources are Kafka; None when that cannot be told."""
        sources = [_offsets(text) for text in end.texts]
        if not sources or not all(sources) or len(end.kafka) < sum(map(len, sources)):  # two over one topic
            return None
        if epoch == 0:
            before: Mapping[TopicPartition, int] = self._initial(len(sources))
        else:
            previous = self._read(epoch - 1)
            if previous is None:
                return None
            before = previous.kafka
        return sum(max(0, offset - before.get(place, 0)) for place, offset in end.kafka.items())

    def _read(self, epoch: int) -> Positions | None:
        text = self._storage.read(f"{CHECKPOINT}/offsets/{epoch}")
        if text is None:
            return None
        _version, _metadata, *sources = text.decode().splitlines()
        return Positions(sources, _kafka(sources))

    @staticmethod
    def kafka_positions(texts: list[str]) -> Mapping[TopicPartition, int]:
        """The Kafka ones among positions that the ledger has kept."""
        return _kafka(texts)

    def sync_positions(self, epoch: int) -> None:
        """Make the offset log's entry survive a power cut, and the query's id; Spark itself only closes the files."""
        if not self._metadata_synced:
            self._storage.sync(f"{CHECKPOINT}/metadata")
            self._metadata_synced = True
        self._storage.sync(f"{CHECKPOINT}/offsets/{epoch}")

    def planned(self) -> int | None:
        """The newest epoch in the offset log."""
        return max(self._numbers("offsets"), default=None)

    def finished(self, epoch: int) -> bool:
        """Whether Spark's commit log has the epoch."""
        return str(epoch) in self._storage.names(f"{CHECKPOINT}/commits")

    def require_intact(self, committed: int) -> None:
        """Refuse a checkpoint that lost what the pipeline has already put out."""
        planned = self._numbers("offsets")
        # Before any epoch is over, a power cut may have taken it, and a new query does no harm.
        begun = committed >= 0 or self._numbers("commits")
        if begun and planned and self._storage.read(f"{CHECKPOINT}/metadata") is None:
            raise HomeMismatch(
                f"{self._location} has lost its file 'metadata': Spark would take the query for a new one. Restore the "
                "checkpoint from a backup."
            )
        if committed >= 0 and committed not in planned:
            raise HomeMismatch(
                f"epoch {committed} is out, but Spark's checkpoint {self._location} "
                f"{'ends at epoch ' + str(max(planned)) if planned else 'is empty'}: deleted, or an old copy. "
                "Going on would put epochs out again. Restore the whole home from one backup, or give the pipeline a "
                "new name and a new home."
            )

    def _numbers(self, log: str) -> list[int]:
        return [int(name) for name in self._storage.names(f"{CHECKPOINT}/{log}") if name.isdigit()]

    def _initial(self, sources: int) -> dict[TopicPartition, int]:
        """Where the first epoch began, as each Kafka source noted it."""
        found: dict[TopicPartition, int] = {}
        for index in range(sources):
            note = self._storage.read(f"{CHECKPOINT}/sources/{index}/0")
            if note is not None:
                text = note.split(b"\n", 1)[-1].decode("utf-8", "replace")
                found.update(_offsets(text))
        return found


def _kafka(texts: list[str]) -> dict[TopicPartition, int]:
    """Two sources over one topic: the earlier position counts, since a group has one place per partition."""
    found: dict[TopicPartition, int] = {}
    for text in texts:
        for place, offset in _offsets(text).items():
            found[place] = min(offset, found.get(place, offset))
    return found


def _offsets(text: str) -> dict[TopicPartition, int]:
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
            if isinstance(offset, int)
        }
    except ValueError:
        return {}
