"""A ledger of thousands of files, of which few are read again: listed when its folder has changed, read once each."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from onceward.dashboard.summaries import Summary, summary_of
from onceward.epoch.ledger import DONE, FOLDER, Entry, Ledger
from onceward.epoch.storage import Storage
from onceward.errors import HomeMismatch, LedgerCorrupt

RECENT: Final = 100  # of these it is looked each time whether they are still what they were

Key = tuple[int, int]  # epoch and term


class LedgerIndex:
    """One lineage's ledger. `stamp` tells whether a file is still the same."""

    def __init__(self, storage: Storage, lineage: str, stamp: Callable[[str], object]) -> None:
        self._ledger = Ledger(storage, {}, lineage)
        self._storage = storage
        self._stamp = stamp
        self._names: list[str] = []
        self._boundaries: Mapping[int, int] = {}
        self._read: dict[Key, tuple[object, Summary]] = {}
        self.damaged: dict[Key, str] = {}
        self.keys: list[Key] = []  # the valid entry of each epoch, oldest first

    @property
    def kept(self) -> int:
        """How many summaries are in memory."""
        return len(self._read)

    def update(self, boundaries: Mapping[int, int]) -> None:
        """Look which entries there are; an entry counts if no later term began before its epoch."""
        names, known = self._storage.names(FOLDER), len(self._names)
        if boundaries == self._boundaries and names[:known] == self._names:
            self._add(names[known:])
            return
        self._boundaries = dict(boundaries)
        self._names, self.keys = [], []
        self._add(names)
        there = set(self.keys)
        self._read = {key: kept for key, kept in self._read.items() if key in there}
        self.damaged = {key: why for key, why in self.damaged.items() if key in there}

    def _add(self, names: list[str]) -> None:
        """What has come at the end, which is how a ledger grows."""
        self._names += names
        fresh = valid(filter(None, map(key_of, names)), self._boundaries)
        if fresh and self.keys and fresh[0][0] == self.keys[-1][0]:
            self.keys.pop()  # of the same epoch, and of a later term: names are sorted
        self.keys += fresh

    def recent(self, count: int = RECENT) -> list[Summary]:
        """The last epochs, oldest first, as their files are now."""
        return self._summaries(self.keys[-count:], checked=True)

    def between(self, first: int | None, last: int | None, count: int) -> list[Summary]:
        """The newest `count` epochs of a range."""
        wanted = [
            key
            for key in self.keys
            if (first is None or key[0] >= first) and (last is None or key[0] <= last)
        ]  # fmt: skip
        return self._summaries(wanted[-count:], checked=False)

    def entry(self, epoch: int) -> Entry | None:
        """All of one epoch, read now."""
        key = next((key for key in reversed(self.keys) if key[0] == epoch), None)
        return self._ledger.read_of(*key) if key is not None else None

    def forget(self, keep: int) -> None:
        """Let go of all summaries but the newest."""
        kept = set(self.keys[-keep:])
        self._read = {key: it for key, it in self._read.items() if key in kept}

    def _summaries(self, keys: Iterable[Key], *, checked: bool) -> list[Summary]:
        return [found for key in keys if (found := self._summary(key, checked=checked)) is not None]

    def _summary(self, key: Key, *, checked: bool) -> Summary | None:
        """An entry that is done stays what it is; others are looked at again. None: it is damaged, or just gone."""
        kept = self._read.get(key)
        if kept is not None and not checked and kept[1].phase == DONE:
            return kept[1]
        stamp = self._stamp(f"{FOLDER}/{key[0]:012d}-{key[1]:06d}.json")
        if kept is not None and kept[0] == stamp:
            return kept[1]
        self._read.pop(key, None)
        self.damaged.pop(key, None)
        try:
            entry = self._ledger.read_of(*key)
        except (LedgerCorrupt, HomeMismatch, OSError) as error:
            self.damaged[key] = str(error)
            return None
        if entry is None:
            return None
        found = summary_of(entry)
        self._read[key] = stamp, found
        return found


def key_of(name: str) -> Key | None:
    """Epoch and term of `000000000012-000003.json`; None: it is no entry."""
    if len(name) != 24 or name[12] != "-" or not name.endswith(".json"):
        return None
    epoch, term = name[:12], name[13:19]
    return (int(epoch), int(term)) if epoch.isdecimal() and term.isdecimal() else None


def valid(keys: Iterable[Key], boundaries: Mapping[int, int]) -> list[Key]:
    """Of each epoch that of the newest term, without what a driver wrote after a later term had begun."""
    found: dict[int, int] = {}
    limits: dict[int, float] = {}
    for epoch, term in keys:
        if term not in limits:
            limits[term] = min((last for other, last in boundaries.items() if other > term), default=float("inf"))
        if epoch <= limits[term]:
            found[epoch] = max(term, found.get(epoch, 0))
    return sorted(found.items())
