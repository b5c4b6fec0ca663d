"""Who may drive a home: the term and its lease.

Each start claims the next term number. The holder keeps moving a counter; whoever wants the home watches
that counter on its own clock and takes over once it has stood still, so no two clocks are ever compared.
Pure but for the storage: clock and sleep are passed in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import HomeInUse, LedgerCorrupt, PipelineFenced

FORMAT: Final = 1
FOLDER: Final = "terms"
RENEW_S: Final = 1.0
LEASE_S: Final = 5.0  # a counter that stands still this long has no living holder: five missed renewals
WAIT_S: Final = 8.0  # how long a start waits for a living holder to let go
POLL_S: Final = 0.1


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who claimed a term, in words for people and in facts for a check on the same machine."""

    format: int = FORMAT
    term: int
    pipeline: str
    host: str
    machine: str  # identifies one boot of one kernel and process namespace
    pid: int
    process_start: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since} (term {self.term})"


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """The lease's counter, as it stands in its file."""

    format: int = FORMAT
    count: int
    released: bool = False
    settled: bool = False  # released with nothing open: of all that was asked to be decided the end is on record


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where a term began: entries of older terms about later epochs do not count."""

    format: int = FORMAT
    term: int
    after_epoch: int
    resolved: list[str] = []  # what was in doubt at this start, and what became of it
    held: dict[str, tuple[str, int]] = {}  # by sink, also of those that are out: the lineage and epoch that it held
    sinks: list[str] = []  # that its epochs are committed in
    decider: str | None = None  # the one of them that decides; None: the ledger


Numbered = TypeVar("Numbered", Holder, Start)


@dataclass(slots=True)
class Term:
    """The term that this driver has claimed."""

    storage: Storage
    number: int
    holder: Holder
    count: int = 0
    settled: bool = False  # nothing is open that a sink may have decided

    def renew(self) -> None:
        self.count += 1
        self._beat(released=False)

    def release(self) -> None:
        """Let go at once, so that the next start need not wait."""
        self.count += 1
        self._beat(released=True)

    def begin(
        self,
        after_epoch: int,
        resolved: Iterable[str],
        held: Mapping[str, tuple[str, int]],
        sinks: Iterable[str] = (),
        decider: str | None = None,
    ) -> None:
        """Record what was committed when this term began, what it found in doubt, and what each sink held."""
        start = Start(
            term=self.number,
            after_epoch=after_epoch,
            resolved=[*resolved],
            held=dict(held),
            sinks=[*sinks],
            decider=decider,
        )
        self.storage.replace(f"{FOLDER}/{self.number:06d}.start", seal(start))

    def following(self) -> "Term":
        """The next term, for what ends this one; `PipelineFenced` if somebody else has it."""
        number = self.number + 1
        claimed = msgspec.structs.replace(self.holder, term=number)
        if not self.storage.claim(_file(number), seal(claimed)):
            self.require_current()
        return Term(self.storage, number, claimed)

    def require_current(self) -> None:
        """Raise `PipelineFenced` if a newer term exists."""
        if self.storage.read(_file(self.number + 1)) is not None:
            newest = newest_holder(self.storage)
            raise PipelineFenced(
                f"pipeline {self.holder.pipeline!r} was taken over by {newest}; this driver holds term {self.number} "
                "and stops. Nothing it had open is visible; the newer driver goes on from the last commit."
            )

    def _beat(self, *, released: bool) -> None:
        # Not synced: only living observers read it, and after a power cut there is no holder to protect.
        beat = Beat(count=self.count, released=released, settled=released and self.settled)
        self.storage.replace(f"{FOLDER}/{self.number:06d}.lease", seal(beat), sync=False)


@contextmanager
def fenced_first(term: Term) -> Iterator[None]:
    """Whatever fails in here, the term is asked first: of a driver that was overtaken only that is news."""
    try:
        yield
    except Exception:
        with suppress(OSError):  # the home does not tell: then what happened is the news
            term.require_current()
        raise


@dataclass(slots=True)
class Watcher:
    """Looks at a home's holder, now and again, on the observer's own clock."""

    storage: Storage
    is_gone: Callable[[Holder], bool]
    clock: Callable[[], float]
    holder: Holder | None = None
    moved: bool = False  # its counter, while we looked: it is alive
    _seen: tuple[int, int] | None = None
    _since: float = 0.0

    def vacant(self) -> bool:
        """Look: nobody holds it, or the holder let go, is dead, or has not moved its counter for a whole lease."""
        self.holder = newest_holder(self.storage)
        beat = read_beat(self.storage, self.newest)
        if self._seen != (self.newest, beat.count):
            self.moved = self._seen is not None
            self._seen, self._since = (self.newest, beat.count), self.clock()
        free = self.holder is None or beat.released or self.is_gone(self.holder)
        return free or self.clock() - self._since >= LEASE_S

    @property
    def newest(self) -> int:
        """The term that was seen last; 0 before the first."""
        return self.holder.term if self.holder is not None else 0


def acquire(
    storage: Storage,
    describe: Callable[[int], Holder],
    *,
    is_gone: Callable[[Holder], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    take_over: bool = False,
    report: Callable[[str], None] = lambda _: None,
    home: str = "the home",
) -> Term:
    """Claim the next term, waiting for a holder's lease to run out; `HomeInUse` if it lives on.

    home: how messages call it.
    """
    began, told = clock(), False
    watcher = Watcher(storage, is_gone, clock)
    while True:
        if watcher.vacant() or take_over:
            number = watcher.newest + 1
            claimed = describe(number)
            if storage.claim(_file(number), seal(claimed)):
                term = Term(storage, number, claimed)
                term.renew()
                _forget(storage, number - 21)
                return term
            continue  # somebody else was quicker: watch them
        if not told:
            report(f"{home} is held by {watcher.holder}; waiting for its lease")
            told = True
        if watcher.moved and clock() - began >= WAIT_S:
            raise HomeInUse(
                f"{home} is in use by {watcher.holder}, which is alive. Stop it first, or start with --take-over "
                "(take_over=True) to fence it and take its place at once."
            )
        sleep(POLL_S)


def boundaries(storage: Storage) -> dict[int, int]:
    """For each term that began: the last epoch committed before it."""
    return {start.term: start.after_epoch for start in starts(storage)}


def starts(storage: Storage) -> list[Start]:
    """Every term that began, oldest first."""
    return [_read(storage, name, Start) for name in storage.names(FOLDER) if name.endswith(".start")]


def last_start(storage: Storage) -> Start | None:
    """The newest term that began; None: none has."""
    return max(starts(storage), key=lambda start: start.term, default=None)


def newest_holder(storage: Storage) -> Holder | None:
    """The holder of the newest term."""
    names = [name for name in storage.names(FOLDER) if name.endswith(".json")]
    return _read(storage, names[-1], Holder) if names else None


def _read(storage: Storage, file: str, kind: type[Numbered]) -> Numbered:
    name = f"{FOLDER}/{file}"
    data = storage.read(name)
    if data is None:
        raise LedgerCorrupt(f"{name} is listed and cannot be read: somebody is taking files of the home away")
    found = unseal(data, kind, name, FORMAT)
    if file.split(".", maxsplit=1)[0] != f"{found.term:06d}":
        raise LedgerCorrupt(f"{name} is of term {found.term}: files were swapped")
    return found


def read_beat(storage: Storage, number: int) -> Beat:
    """A term's counter, as it stands."""
    name = f"{FOLDER}/{number:06d}.lease"
    data = storage.read(name)
    try:
        return unseal(data, Beat, name, FORMAT) if data is not None else Beat(count=0)
    except LedgerCorrupt:  # never synced, so a power cut may tear it; it then stands still like any dead holder's
        return Beat(count=-1)


def _file(number: int) -> str:
    return f"{FOLDER}/{number:06d}.json"


def _forget(storage: Storage, newest: int) -> None:
    """Old terms' leases; claims and starts stay, for they decide which entries count."""
    for name in storage.names(FOLDER):
        if name.endswith(".lease") and int(name.split(".")[0]) <= newest:
            storage.remove(f"{FOLDER}/{name}")
