"""A store with a marker, and a sink on it that keeps the contract: staged by try, published at once with the marker."""

from collections.abc import Callable
from typing import Any, Final

from onceward.epoch.contract import Committable, EpochContext, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.outcome import Outcome
from onceward.epoch.recovery import require_ours
from onceward.errors import SinkUnreachable, StagingLost
from onceward.proof.history import Row
from onceward.proof.simulation.engine import Batch, TaskLost, of_rows
from onceward.proof.simulation.world import World
from onceward.sinks import succession
from onceward.sinks.succession import Succession

TASKS: Final = 2
Try = tuple[str, int, int, int]  # lineage, epoch, term, attempt


class Store:
    """A database far away: it outlives every driver and the machine they run on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.staged: dict[Try, dict[str, list[Row]]] = {}  # by task attempt
        self.rows: list[Row] = []
        # Epoch and term by lineage, written with the rows, the newest commit's last. Another pipeline was here before.
        self.markers: dict[str, tuple[int, int]] = {"another": (7, 1)}
        self._first: dict[str, int] = {}  # each lineage's first epoch here
        self._commits: dict[tuple[str, int], list[Row]] = {}  # by lineage and epoch

    def forget(self) -> Callable[[], None] | None:
        """Restored from a backup: its newest commit is gone. What puts it back; None: there is none yet."""
        if (newest := self.newest()) is None:
            return None
        lineage, epoch, _ = newest
        rows, marker = self._commits[lineage, epoch], self.markers[lineage]
        self.rows = [row for row in self.rows if row not in rows]
        self.markers[lineage] = (epoch - 1, marker[1])
        if epoch == self._first[lineage]:
            del self.markers[lineage]

        def restore() -> None:
            if self.committed(lineage) < epoch:
                self.rows = [*self.rows, *rows]
                self.markers[lineage] = marker

        return restore

    def stage(self, which: Try, part: str, rows: list[Row]) -> None:
        """A task's write. Without its staging place, which an abort has dropped, it fails."""
        if which not in self.staged:
            raise SinkUnreachable(f"{self.name}: no staging for {which}")
        self.staged[which][part] = rows

    def publish(self, which: Try, parts: list[str], term: int, judge: Callable[[], None] = lambda: None) -> bool:
        """One transaction: the rows that the vote names, the marker, and the staging goes. False: it is gone.

        `judge` looks at the marker within it, and raises to stop it.
        """
        lineage, epoch, _, _ = which
        if self.committed(lineage) >= epoch:
            return True
        judge()
        if which not in self.staged:
            return False
        staged = self.staged.pop(which)
        self._commits[lineage, epoch] = rows = [row for part in parts for row in staged[part]]
        self.rows += rows
        self.mark(lineage, epoch, term)
        return True

    def mark(self, lineage: str, epoch: int, term: int) -> None:
        """The newest commit is this one."""
        self.markers.pop(lineage, None)
        self.markers[lineage] = (epoch, term)
        self._first.setdefault(lineage, epoch)

    def newest(self) -> tuple[str, int, int] | None:
        """Lineage, epoch and term of the pipeline's newest commit."""
        lineage = next(reversed(self.markers))
        return (lineage, *self.markers[lineage]) if lineage != "another" else None

    def committed(self, lineage: str) -> int:
        """The last epoch of a lineage that is in."""
        return self.markers.get(lineage, (-1, 0))[0]

    def drop(self, lineage: str, epoch: int, term: int) -> None:
        """What this term or an older one has staged up to this epoch, and lineages that are over."""
        for which in [w for w in self.staged if w[2] <= term and (w[0] != lineage or w[1] <= epoch)]:
            del self.staged[which]


class PlainSink(TwoPhaseCommitSink):
    """What a store gets under weaker guarantees: rows, at once."""

    def __init__(self, world: World, store: Store) -> None:
        self.world, self.store = world, store

    def last_commit(self) -> None:
        """Nobody asks."""

    def begin(self, context: EpochContext) -> None:
        """Nothing is staged."""

    def write(self, context: EpochContext, rows: Batch) -> Outcome:
        """Visible from here on, also where the answer is lost."""
        made = rows.computed(self.owner.term, context.attempt)
        mode = self.world.enter_sink("publish", self.store.name)
        if mode != "sink-before":
            self.store.rows += made
        if mode:
            raise SinkUnreachable(f"{self.store.name}: no answer")
        return of_rows(made)

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:  # noqa: ARG002 - there is no vote
        return {"version": 1}

    def commit(self, context: EpochContext, committable: Committable) -> None:
        """It is."""

    def abort(self, context: EpochContext) -> None:
        """What is written stays."""

    def digest(self, context: EpochContext, rows: Batch) -> Outcome:
        return of_rows(rows.computed(self.owner.term, context.attempt))


class StoreSink(TwoPhaseCommitSink):
    """One driver's door to a store."""

    def __init__(self, world: World, store: Store) -> None:
        self.world, self.store = world, store
        self._parts: list[str] = []
        self.succession = Succession()

    def open(self, owner: Owner) -> None:
        """Nothing to take over: terms are compared at each call."""
        super().open(owner)
        self.succession.forget()
        if (last := self._marker()) is not None:
            require_ours(owner, owner.sink, last)

    def last_commit(self) -> LastCommit | None:
        return self.succession.told(self.call("marker", self._marker))

    def begin(self, context: EpochContext) -> None:
        """A staging place of this try's own."""
        self._parts = []

        def begin() -> None:
            self.succession.begin(self.owner, context.epoch, self._marker())
            self.store.staged.setdefault(self.which(context), {})

        self.call("begin", begin)

    def write(self, context: EpochContext, rows: Batch) -> Outcome:
        """Each task stages its part under its own name, and reports it."""
        made = rows.computed(self.owner.term, context.attempt)
        which = self.which(context)
        for task in range(TASKS):
            mine = [row for row in made if row.key % TASKS == task]
            if (late := self.world.task_dies(self.store.name)) is not None:
                # The next attempt of the task starts while this one, out of sight, is still about to write.
                self.world.later(late, self._zombie(which, f"{task}.0", mine), f"a zombie task stages {which}")
                self._stage(which, f"{task}.1", mine)
                if late % 2:
                    raise TaskLost(f"task {task} of {self.store.name} failed too often")
            else:
                self._stage(which, f"{task}.0", mine)
        return of_rows(made)

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:  # noqa: ARG002
        """Only what reports name counts."""
        self.world.step("vote", self.store.name)
        return {"version": 1, "try": list(self.which(context)), "parts": self._parts, **self.succession.noted}

    def commit(self, context: EpochContext, committable: Committable) -> None:
        """At once, with the marker."""
        lineage, epoch, term, attempt = committable["try"]
        which = (lineage, epoch, term, attempt)
        self.succession.forget()

        def judge() -> None:
            self.judge(context, committable)

        if not self.call("publish", lambda: self.store.publish(which, committable["parts"], self.owner.term, judge)):
            raise StagingLost(f"{self.store.name}: epoch {context.epoch}, {which} is neither staged nor visible")

    def abort(self, context: EpochContext) -> None:
        """Of this term or older."""
        self.call("drop", lambda: self.store.drop(self.owner.lineage, context.epoch, self.owner.term))

    def digest(self, context: EpochContext, rows: Batch) -> Outcome:
        """What `write` would have returned."""
        return of_rows(rows.computed(self.owner.term, context.attempt))

    def judge(self, context: EpochContext, committable: Committable) -> None:
        """The store still holds what it held when the epoch began."""
        succession.require_predecessor(self.owner, context.epoch, committable, self._marker(), "Restore it.")

    def which(self, context: EpochContext) -> Try:
        """The name of this try's staging."""
        return (self.owner.lineage, context.epoch, self.owner.term, context.attempt)

    def call(self, what: str, effect: Callable[[], Any]) -> Any:
        """One request to the store, which may fail before or after its effect."""
        mode = self.world.enter_sink(what, self.store.name)
        if mode == "sink-before":
            raise SinkUnreachable(f"{self.store.name} did not answer")
        result = effect()
        if mode == "sink-after":
            raise SinkUnreachable(f"{self.store.name}: the answer was lost")
        return result

    def _marker(self) -> LastCommit | None:
        newest = self.store.newest()
        return LastCommit(lineage=newest[0], epoch=newest[1], term=newest[2]) if newest is not None else None

    def _stage(self, which: Try, part: str, rows: list[Row]) -> None:
        self.call("stage", lambda: self.store.stage(which, part, rows))
        self._parts.append(part)

    def _zombie(self, which: Try, part: str, rows: list[Row]) -> Callable[[], None]:
        def write() -> None:
            if which in self.store.staged:
                self.store.stage(which, part, rows)

        return write
