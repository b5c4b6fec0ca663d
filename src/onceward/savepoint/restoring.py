"""A start from a savepoint: a new lineage whose state is the savepoint's, or an error before anything is touched."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from onceward import crashpoints
from onceward.epoch import deeds, inspection, new_lineage
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.contract import DecidingSink, Guarantee, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, Entry, Ledger
from onceward.epoch.lineage import Inherited, inherited
from onceward.epoch.new_lineage import FIRST
from onceward.epoch.storage import Below, Storage
from onceward.epoch.term import Term, fenced_first
from onceward.errors import ConfigurationError, SavepointOutdated, SavepointUnusable
from onceward.savepoint.manifest import NOTES, Savepoint
from onceward.savepoint.place import Place
from onceward.savepoint.unpacking import unpack
from onceward.savepoint.verifying import verify

ALL: Final = 1_000_000  # epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """What is to be restored, and as what. Called once the home is ours (`onceward.pipeline.opening.Restore`).

    `rewrite`: the engine's way to give the state in a folder another number of partitions, or another backend; it
    gives the epoch after which the folder then goes on.
    """

    place: Place
    savepoint: Savepoint
    home: Home
    pipeline: str
    guarantee: Guarantee
    sinks: Mapping[str, TwoPhaseCommitSink]
    partitions: int | None = None
    backend: str | None = None
    rewrite: Callable[[str, Savepoint, int | None, str], int]
    new_lineage: bool = False
    now: Callable[[], str]
    fresh: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)  # a name for the lineage
    report: Callable[[str], None] = field(default=lambda _: None)

    @property
    def notes(self) -> Storage:
        """What the savepoint's home knew of the sources."""
        return Below(self.place.around, f"{self.place.name}/{NOTES}")

    def check(self, differences: list[str]) -> None:
        """All that can be said without touching home or sinks. `differences`: of the query from the saved one."""
        saved = self.savepoint
        if saved.guarantee != self.guarantee.value:
            raise SavepointUnusable(
                f"{self.place.location} was taken of a pipeline with guarantee {saved.guarantee!r}, not "
                f"{self.guarantee.value!r}: what its epochs promise cannot change afterwards"
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

    def __call__(self, term: Term) -> Deed:
        """Begin the lineage. Of a restore that was overtaken on its way the rest is a consequence."""
        with fenced_first(term):
            return self._begin(term)

    def _begin(self, term: Term) -> Deed:
        """Copy, rescale, then one write that ends the old lineage."""
        deed, saved = self._deed(term), self.savepoint

        def lay_out(room: Home) -> Deed:
            begins_after = self._lay_out(room)
            self._record(room, deed, term, begins_after)
            return _beginning_after(deed, begins_after)

        begun = new_lineage.put_in_force(self.home, term.number, deed, lay_out, "restore")
        self.report(
            f"restored from {self.place.location}: epoch {saved.epoch} of {saved.pipeline!r}, lineage "
            f"{deed.lineage[:8]}"
        )
        return begun

    def _deed(self, term: Term) -> Deed:
        """Of the lineage that is to begin, with what the sinks hold; refused if that is not what it should be."""
        saved, lineage = self.savepoint, self.fresh()
        owner = Owner(pipeline=self.pipeline, lineage=lineage, term=term.number, guarantee=self.guarantee)
        return Deed(
            format=deeds.FORMAT,
            pipeline=self.pipeline,
            lineage=lineage,
            guarantee=self.guarantee.value,
            folder=new_lineage.folder_of(lineage, term.number),
            origin=Origin(
                savepoint=saved.id,
                pipeline=saved.pipeline,
                lineage=saved.lineage,
                epoch=saved.epoch,
                begins_after=saved.epoch,
                first_term=term.number,
                inherits=self._judge(self.home.deed(), owner),
            ),
        )

    def _judge(self, old: Deed | None, owner: Owner) -> Inherited:
        """What the sinks hold; refused, nothing and nobody is disturbed. Then nobody else can add to it any more."""
        if self.guarantee is Guarantee.AT_MOST_ONCE:
            self._require_nothing_begun(old)
        if self.guarantee is not Guarantee.EXACTLY_ONCE:
            return {}
        since: list[Entry] = []
        if old is not None:
            self._require_none_in_doubt(old, owner)
            since = inspection.ledger_of(self.home, old).newest(ALL)
        found = new_lineage.look(self.sinks, owner)
        inherits = self._compare(found, since)
        self._fence(replace(owner, inherits=inherits), found)
        return inherits

    def look_first(self) -> None:
        """What would be refused anyway is refused before a running driver is overtaken for it.

        Only as far as can be told without opening a sink: what decides is asked, for the others the ledger speaks.
        """
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            old = self.home.deed()
            since = inspection.ledger_of(self.home, old).newest(ALL) if old is not None else []
            deciding = {name: sink for name, sink in self.sinks.items() if isinstance(sink, DecidingSink)}
            owner = Owner(pipeline=self.pipeline, lineage=self.fresh(), term=0, guarantee=self.guarantee)
            self._compare(new_lineage.look(deciding, owner), since)

    def _compare(self, found: Mapping[str, LastCommit | None], since: list[Entry]) -> Inherited:
        saved, told = self.savepoint, dict(found)
        done = max((entry for entry in since if entry.phase == DONE), key=lambda entry: entry.epoch, default=None)
        if done is not None and self.pipeline == saved.pipeline:  # of sinks that were not asked the ledger knows
            last = LastCommit(lineage=done.lineage, epoch=done.epoch, term=done.term)
            told |= {name: last for name in done.sinks if name in self.sinks and name not in found}
        inherits = inherited(saved.entry, self.pipeline, told, since, held=saved.inherits, knowingly=self.new_lineage)
        return {name: held for name, held in inherits.items() if name in found}

    def _require_nothing_begun(self, old: Deed | None) -> None:
        """At-most-once: what was begun after the savepoint may be visible, and would be written a second time."""
        saved = self.savepoint
        if self.new_lineage or self.pipeline != saved.pipeline:
            return
        begun = None
        if old is not None:
            ledger = inspection.ledger_of(self.home, old)
            decisions = Decisions(self.home.of_lineage(old).storage, old.lineage, 0)
            begun = max(it.epoch for it in (ledger.last(), decisions.last(), saved.entry) if it is not None)
        if old is None or old.lineage != saved.lineage or begun != saved.epoch:
            raise SavepointOutdated(
                f"{self.pipeline!r} promises at-most-once, and "
                f"{f'has begun epochs up to {begun}' if begun is not None else 'what it has begun'} since the "
                f"savepoint of epoch {saved.epoch} {'cannot be told here' if old is None else 'may be visible'}: "
                "restoring would write it again. Start with --new-lineage (new_lineage=True) to do so knowingly."
            )

    def _require_none_in_doubt(self, old: Deed, owner: Owner) -> None:
        entry = new_lineage.in_doubt(self.home, old, owner, self.sinks)
        if entry is not None:
            raise SavepointUnusable(
                f"epoch {entry.epoch} of {self.pipeline!r} is in doubt in {self.home.location}: restoring would throw "
                "away what may be decided. Start the pipeline once without --from, or finish the epoch with `onceward "
                "resolve`, then restore."
            )

    def _fence(self, owner: Owner, found: Mapping[str, LastCommit | None]) -> None:
        new_lineage.fence(self.sinks, owner, found, self._changed)

    def _changed(self, sink: str) -> SavepointOutdated:
        return SavepointOutdated(
            f"sink {sink!r} got another epoch of {self.pipeline!r} while the savepoint was being restored: another "
            "driver was at work, or it was set back. Nothing has changed; restore once more."
        )

    def _lay_out(self, room: Home) -> int:
        """The savepoint's checkpoint in its place, as many partitions as wanted; after which epoch it begins."""
        unpack(self.place, self.savepoint, room, FIRST)
        crashpoints.reach("restore-copied")
        saved, epoch = self.savepoint, self.savepoint.epoch
        partitions, backend = self.partitions or saved.partitions, self.backend or saved.backend
        if saved.operators and (partitions, backend) != (saved.partitions, saved.backend):
            self.report(
                f"rewriting the state: {partitions} partitions, backend {backend} (was {saved.partitions}, "
                f"{saved.backend})"
            )
            epoch = self.rewrite(room.uri(FIRST), saved, partitions, backend)
            crashpoints.reach("restore-rescaled")
            for name in room.storage.walk(FIRST):  # what was unpacked is synced, what the engine wrote is not
                room.storage.sync(f"{FIRST}/{name}")
        for name in self.notes.names(""):
            room.storage.replace(name, self.notes.read(name) or b"")
        return epoch

    def _record(self, room: Home, deed: Deed, term: Term, epoch: int) -> None:
        """The ledger knows where the lineage begins, and nothing before."""
        positions = Checkpoint(room.storage, FIRST, room.uri(FIRST)).positions(epoch)
        entry = Entry(
            pipeline=deed.pipeline,
            lineage=deed.lineage,
            term=term.number,
            epoch=epoch,
            phase=DONE,
            positions=positions.texts,
            plan=positions.plan,
            finished_at=self.now(),
        )
        Ledger(room.storage, {}, deed.lineage).write(entry)


def _beginning_after(deed: Deed, epoch: int) -> Deed:
    """Rewriting the state takes epochs of their own."""
    assert deed.origin is not None
    return msgspec.structs.replace(deed, origin=msgspec.structs.replace(deed.origin, begins_after=epoch))
