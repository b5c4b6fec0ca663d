"""A start from a savepoint: a new lineage whose state is the savepoint's, or an error before anything is touched."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from onceward import crashpoints
from onceward.epoch.checkpoint import NOTES, Checkpoint, kafka_positions
from onceward.epoch.contract import Guarantee, LastCommit
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.expected import Held, held_by, named
from onceward.epoch.home import FIRST, Home
from onceward.epoch.ledger import DONE, Entry, Ledger
from onceward.epoch.new_lineage import Ending, Found
from onceward.epoch.starting import Start
from onceward.errors import ConfigurationError, SavepointOutdated, SavepointUnusable
from onceward.savepoint.manifest import CHECKPOINT, Savepoint
from onceward.savepoint.place import Place
from onceward.savepoint.unpacking import unpack
from onceward.savepoint.verifying import verify


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """What a lineage with a savepoint begins with, and as what.

    `rewrite`: the engine's way to give the state in a folder another number of partitions, or another backend; it
    gives the epoch after which the folder then goes on.
    `knowingly`: a person has read what sinks hold instead, and wants it all the same.
    """

    word: ClassVar[str] = "restore"
    in_doubt: ClassVar[type[Exception]] = SavepointUnusable
    changed: ClassVar[type[Exception]] = SavepointOutdated
    place: Place
    savepoint: Savepoint
    start: Start
    partitions: int | None = None
    backend: str | None = None
    rewrite: Callable[[str, Savepoint, int | None, str], int]
    knowingly: bool = False

    def note(self, name: str) -> bytes | None:
        """What the pipeline's driver had noted."""
        return self.place.read(f"{CHECKPOINT}/{NOTES}/{name}")

    def check(self, differences: list[str]) -> None:
        """All that can be said without touching home or sinks. `differences`: of the query from the saved one."""
        saved = self.savepoint
        if saved.guarantee != self.start.guarantee.value:
            raise SavepointUnusable(
                f"{self.place.location} was taken of a pipeline with guarantee {saved.guarantee!r}, not "
                f"{self.start.guarantee.value!r}: what its epochs promise cannot change afterwards"
            )
        if differences:
            lines = "".join(f"\n  - {line}" for line in differences)
            raise SavepointUnusable(
                f"{self.place.location} does not fit the query: its state would be misread.{lines}\nNothing was "
                "touched. Restore it with the query that it was taken of, or start the changed query under a new name "
                "and a new home."
            )
        if self.partitions is not None and self.partitions < 1:
            raise ConfigurationError(f"partitions is a number from 1 on, not {self.partitions}")
        if self.partitions not in {None, saved.partitions} and not saved.operators:
            raise ConfigurationError(
                f"{self.place.location} holds no state, so there is nothing to share out over {self.partitions} "
                "partitions; leave --partitions (partitions=) out"
            )
        verify(self.place)

    def origin(self, ending: Ending) -> Origin:  # noqa: ARG002 - the savepoint says it
        saved = self.savepoint
        return Origin(
            savepoint=saved.id,
            pipeline=saved.pipeline,
            lineage=saved.lineage,
            epoch=saved.epoch,
            begins_after=saved.epoch,
            first_term=0,
        )

    def judge(self, ending: Ending, found: Found, begun: Entry | None) -> None:
        """The sinks hold what the savepoint knows of, or a person wants it all the same."""
        if self.knowingly:
            return
        if self.start.guarantee is Guarantee.AT_MOST_ONCE:
            self._require_nothing_begun(ending, begun)
        known, mark = self._known(ending), self._mark(ending)
        strange = {name: last for name, last in sorted(found.items()) if held_by(last) not in {known.get(name), mark}}
        told = [line for name, last in strange.items() if (line := self._difference(name, last, ending))]
        if told:
            saved, lines = self.savepoint, "".join(f"\n  - {line}" for line in told)
            raise SavepointOutdated(
                f"the savepoint is of epoch {saved.epoch} of pipeline {saved.pipeline!r} (lineage "
                f"{saved.lineage[:8]}), and its sinks hold something else:{lines}\nNothing was touched. Restore a "
                "savepoint that fits, or put the sinks right first; or start with --new-lineage (new_lineage=True) to "
                "begin a new lineage knowingly: what the sinks hold stays there, and everything after the savepoint is "
                "committed as new."
            )

    def lay_out(self, room: Home, deed: Deed, ending: Ending, found: Found, begun: Entry | None) -> int:  # noqa: ARG002
        """The savepoint's checkpoint in its place, as many partitions as wanted, and the ledger's first entry."""
        unpack(self.place, self.savepoint, room, FIRST)
        crashpoints.reach("restore-copied")
        saved, epoch = self.savepoint, self.savepoint.epoch
        partitions, backend = self.partitions or saved.partitions, self.backend or saved.backend
        if saved.operators and (partitions, backend) != (saved.partitions, saved.backend):
            self.start.report(
                f"rewriting the state: {partitions} partitions, backend {backend} (was {saved.partitions}, "
                f"{saved.backend})"
            )
            epoch = self.rewrite(room.uri(FIRST), saved, partitions, backend)
            crashpoints.reach("restore-rescaled")
            for name in room.storage.walk(FIRST):  # what was unpacked is synced, what the engine wrote is not
                room.storage.sync(f"{FIRST}/{name}")
        self._record(room, deed, epoch)
        self.start.report(
            f"restored from {self.place.location}: epoch {saved.epoch} of {saved.pipeline!r}, lineage "
            f"{deed.lineage[:8]}"
        )
        return epoch

    def _record(self, room: Home, deed: Deed, epoch: int) -> None:
        """The ledger knows where the lineage begins, and nothing before."""
        assert deed.origin is not None
        positions = Checkpoint(room.storage, FIRST, room.uri(FIRST)).positions(epoch)
        entry = Entry(
            pipeline=deed.pipeline,
            lineage=deed.lineage,
            term=deed.origin.first_term,
            epoch=epoch,
            phase=DONE,
            positions=positions.texts,
            plan=positions.plan,
            finished_at=self.start.process.now(),
        )
        Ledger(room.storage, {}, deed.lineage).write(entry)

    def _known(self, ending: Ending) -> dict[str, Held]:
        """What the savepoint knows the sinks to hold; of a lineage that began with it and did nothing, what they do."""
        return ending.held() if self._is_untouched(ending, ending.last) else self.held(ending)

    def _mark(self, ending: Ending) -> Held | str:
        """What the first start of a lineage that did nothing writes into the deciding sink, before it says so."""
        newest = ending.last
        return (ending.lineage, newest.epoch) if newest and self._is_untouched(ending, newest) else "no mark"

    def held(self, ending: Ending) -> dict[str, Held]:
        """Of the pipeline itself what the savepoint says, also of sinks that are out now; a copy's hold nothing."""
        return named(self.savepoint.held, ending.decider) if self.start.pipeline == self.savepoint.pipeline else {}

    def _is_untouched(self, ending: Ending, newest: Entry | None) -> bool:
        """Whether the lineage in force began with this very savepoint, and has done nothing since."""
        origin = ending.deed.origin if ending.deed is not None else None
        if origin is None or origin.savepoint != self.savepoint.id or newest is None:
            return False
        return newest.epoch == origin.begins_after

    def _require_nothing_begun(self, ending: Ending, begun: Entry | None) -> None:
        """At-most-once: what was begun after the savepoint may be visible, and would be written a second time."""
        saved = self.savepoint
        newest = begun or ending.last
        is_saved = newest is not None and (newest.lineage, newest.epoch) == (saved.lineage, saved.epoch)
        is_copys_first = newest is None and self.start.pipeline != saved.pipeline
        if is_copys_first or is_saved or self._is_untouched(ending, newest):
            return
        known = ending.deed is not None and ending.lineage == saved.lineage
        raise SavepointOutdated(
            f"{self.start.pipeline!r} promises at-most-once, and "
            f"{f'has begun epochs up to {newest.epoch}' if newest is not None else 'what it has begun'} since the "
            f"savepoint of epoch {saved.epoch} {'may be visible' if known else 'cannot be told here'}: restoring would "
            "write it again. Start with --new-lineage (new_lineage=True) to do so knowingly."
        )

    def _difference(self, sink: str, last: LastCommit | None, ending: Ending) -> str:
        """In words; empty: it is as the savepoint says."""
        saved, since = self.savepoint, ending.entries
        held = named(saved.held, ending.decider).get(sink)
        if last is None:
            return self._nothing(sink, held)
        if self.start.pipeline != saved.pipeline:
            return (
                f"sink {sink!r} holds epoch {last.epoch} of a pipeline named {self.start.pipeline!r} already: choose "
                "another name for the copy"
            )
        if last.lineage != saved.lineage:
            return (
                f"sink {sink!r} holds epoch {last.epoch} of lineage {last.lineage[:8]}, which is another one: the "
                "savepoint was restored before, or the pipeline was started anew. What that one has committed"
                f"{_told([entry for entry in since if entry.lineage == last.lineage], sink)} would be doubled"
            )
        known = held[1] if held is not None else saved.epoch
        if last.epoch > known:
            return _ahead(saved.entry, known, sink, last, since)
        return (
            f"sink {sink!r} holds epochs only up to {last.epoch}, the savepoint is newer: epochs {last.epoch + 1} to "
            f"{known} are missing there (restored from a backup?) and would stay missing"
        )

    def _nothing(self, sink: str, held: Held | None) -> str:
        if self.start.pipeline != self.savepoint.pipeline or held is None:
            return ""
        return (
            f"sink {sink!r} holds no epoch of the pipeline, the savepoint knows of epochs up to {held[1]} there: it "
            "was emptied, restored from an older backup, or is another one. These epochs would be missing"
        )


def _ahead(saved: Entry, known: int, sink: str, last: LastCommit, since: list[Entry]) -> str:
    later = [it for it in since if it.lineage == saved.lineage and known < it.epoch <= last.epoch]
    complete = {entry.epoch for entry in later} == set(range(known + 1, last.epoch + 1))
    rows = sum(entry.sinks[sink].rows for entry in later if sink in entry.sinks)
    records = f"{rows} records" if complete else "a number of records that only its home knows"
    begins = kafka_positions(saved.positions)
    newest = max(later, key=lambda entry: entry.epoch).positions if complete and later else None
    ends = kafka_positions(newest) if newest is not None else last.positions
    read = ", ".join(
        f"{place} from {begins.get(place, 0)} to {end}"
        for place, end in sorted(ends.items())
        if end != begins.get(place, 0)
    )
    return (
        f"sink {sink!r} has committed {_epochs(known + 1, last.epoch)} since: {records}"
        f"{f', made of {read}' if read else ''}, would be committed a second time"
    )


def _told(entries: list[Entry], sink: str) -> str:
    """How much a lineage has committed, as far as its home knows."""
    mine = [entry for entry in entries if sink in entry.sinks]
    if not mine:
        return ""
    rows = sum(entry.sinks[sink].rows for entry in mine)
    return f" ({_epochs(mine[0].epoch, mine[-1].epoch)}, {rows} records)"


def _epochs(first: int, last: int) -> str:
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"
