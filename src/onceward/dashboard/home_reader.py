"""One home, looked at again and again: what has not changed is not read again; a damaged home is told, not raised."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from onceward import processes
from onceward.dashboard import life
from onceward.dashboard.files import ReadOnlyFiles, Stamp
from onceward.dashboard.lag import ReadUpTo
from onceward.dashboard.ledger_index import LedgerIndex, key_of
from onceward.dashboard.life import Sign
from onceward.dashboard.summaries import Summary
from onceward.epoch import decisions as decided
from onceward.epoch import inspection, source_topics
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint, kafka_positions
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home
from onceward.epoch.inspection import Doubt
from onceward.epoch.ledger import DONE, Entry, Ledger
from onceward.epoch.sealed import unseal
from onceward.epoch.source_topics import ids_in
from onceward.epoch.term import Holder, Start
from onceward.errors import OncewardError
from onceward.telemetry import activity
from onceward.telemetry.activity import Activity, Event


@dataclass(slots=True)
class Look:
    """A home as of one look. `problem`: why the rest may be missing, or old."""

    at: datetime
    deed: Deed | None = None
    sign: Sign = field(default_factory=lambda: Sign(None))
    starts: Mapping[int, Start] = field(default_factory=dict)
    recent: list[Summary] = field(default_factory=list)
    newest: Entry | None = None
    doubt: Doubt | None = None
    gone: bool = False
    problem: str = ""


class HomeReader:
    """For one thread at a time. Only reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = ReadOnlyFiles(path)
        self.home = Home(self.files, str(path), f"file://{path}")
        self.index: LedgerIndex | None = None
        self.last = Look(datetime.now(UTC))
        self._starts: dict[int, Start] = {}
        self._starts_seen: tuple[list[str], Stamp | None] = ([], None)
        self._newest: tuple[object, Entry | None] = (None, None)
        self._lineage: tuple[str, str] | None = None

    def look(self, now: datetime) -> Look:
        """As of now. Files come and go while it is read, so what does not fit together is looked at once more."""
        try:
            try:
                self.last = self._look(now)
            except (OncewardError, OSError):
                self.last = self._look(now)
        except Exception as error:  # noqa: BLE001 - whatever somebody put into a home, it is told and others are shown
            last = self.last
            self.last = Look(
                now, last.deed, last.sign, last.starts, last.recent, last.newest, last.doubt,
                gone=not self.path.is_dir(), problem=self._problem(error),
            )  # fmt: skip
        return self.last

    def storage_of(self, deed: Deed) -> Home:
        """The part of the home that is the lineage's."""
        return self.home.of_lineage(deed)

    def decisions(self, deed: Deed) -> Decisions:
        return Decisions(self.storage_of(deed).storage, deed.lineage, term=0)

    def signs(self, term: int, now: datetime) -> Sign:
        """Of life, of one term."""
        name = f"{terms.FOLDER}/{term:06d}"
        data = self.files.read(f"{name}.json")
        holder = unseal(data, Holder, f"{name}.json", terms.FORMAT) if data is not None else None
        stamps = (self.files.stamp(f"{name}.lease"), self.files.stamp(activity.file_of(term)))
        beats = [now.timestamp() - stamp.changed_ns / 1e9 for stamp in stamps if stamp is not None]
        return Sign(
            holder=holder,
            released=terms.read_beat(self.files, term).released,
            beat_age_s=max(0.0, min(beats)) if beats else None,
            process=process_of(holder) if holder is not None else life.UNKNOWN,
            began=term in self._starts,
            said=self._said(term),
        )

    def read_up_to(self, look: Look) -> ReadUpTo:
        """Where the next epoch will begin to read; nothing is known of a home without a committed epoch."""
        done = [it.epoch for it in look.recent if it.phase == DONE]
        if look.deed is None or self.index is None or not done:
            return ReadUpTo()
        entry = look.newest if look.newest is not None and look.newest.epoch == done[-1] else None
        with suppress(OncewardError, OSError):
            entry = entry or self.index.entry(done[-1])
            ids = ids_in(Checkpoint.noted(self.storage_of(look.deed), source_topics.FILE))
            return ReadUpTo(kafka_positions(entry.positions), ids) if entry is not None else ReadUpTo()
        return ReadUpTo()

    def events(self, term: int) -> list[Event]:
        """What a driver has left about its term; it is no data, so what cannot be read is not missed."""
        with suppress(OSError):
            return activity.parsed_events(self.files.read(activity.events_of(term)))
        return []

    def _said(self, term: int) -> Activity | None:
        with suppress(OSError):
            return activity.parsed(self.files.read(activity.file_of(term)))
        return None

    def _look(self, now: datetime) -> Look:
        if not self.path.is_dir():
            raise FileNotFoundError(f"there is no directory {self.path}")
        deed = inspection.deed_of(self.home)
        starts = self._all_starts()
        newest = terms.newest_holder(self.files)
        index = self._index_of(deed)
        index.update({term: start.after_epoch for term, start in starts.items()})
        recent = index.recent()
        return Look(
            now,
            deed,
            self.signs(newest.term, now) if newest is not None else Sign(None),
            starts,
            recent,
            self._newest_entry(index),
            self._doubt(deed, starts, recent),
            problem=next(iter(index.damaged.values()), ""),
        )

    def _index_of(self, deed: Deed) -> LedgerIndex:
        if self.index is None or self._lineage != (deed.lineage, deed.folder):
            self._lineage = deed.lineage, deed.folder
            folder = f"{deed.folder}/" if deed.folder else ""
            self.index = LedgerIndex(
                self.storage_of(deed).storage, deed.lineage, lambda name: self.files.stamp(f"{folder}{name}")
            )
        return self.index

    def _all_starts(self) -> Mapping[int, Start]:
        """Every term's, read again only if one has come or the newest has changed."""
        names = [name for name in self.files.names(terms.FOLDER) if name.endswith(".start")]
        seen = names, self.files.stamp(f"{terms.FOLDER}/{names[-1]}") if names else None
        if seen != self._starts_seen:
            self._starts = {start.term: start for start in terms.starts(self.files)}
            self._starts_seen = seen
        return self._starts

    def _newest_entry(self, index: LedgerIndex) -> Entry | None:
        """All of the newest epoch: where it reads and writes."""
        if not index.keys:
            return None
        summary = index.recent(1)
        if not summary:
            return self._newest[1]
        if self._newest[0] != summary[0]:
            self._newest = summary[0], index.entry(summary[0].epoch)
        return self._newest[1]

    def _doubt(self, deed: Deed, starts: Mapping[int, Start], recent: list[Summary]) -> Doubt | None:
        """Asked of the production code, where anything is newer than the newest epoch that is done."""
        done = max((it.epoch for it in recent if it.phase == DONE), default=-1)
        decisions = self.storage_of(deed).storage.names(decided.FOLDER)
        slot = key_of(decisions[-1]) if decisions else None
        open_ = any(it.epoch > done for it in recent) or (slot is not None and slot[0] > done)
        if not open_:
            return None
        boundaries = {term: start.after_epoch for term, start in starts.items()}
        ledger = Ledger(self.storage_of(deed).storage, boundaries, deed.lineage)
        with self.files.newest_only():
            return inspection.doubt_of(ledger, self.decisions(deed))

    def _problem(self, error: Exception) -> str:
        text = str(error).removeprefix("[Errno 2] ")
        return text if isinstance(error, OncewardError) else f"it cannot be read: {text}"


def process_of(holder: Holder) -> str:
    """Certain only on the machine and in the boot that it began in."""
    if not holder.machine or holder.machine != processes.machine():
        return life.UNKNOWN
    if processes.started(holder.pid) != holder.process_start:
        return life.ENDED
    return life.HALTED if processes.state(holder.pid) in "Tt" else life.ALIVE
