"""What people do in a simulated run: how they start the next driver, and what they do about what the last one said."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from onceward.epoch.recovery import Consent
from onceward.proof.checkers.ending import OF_DAMAGE
from onceward.proof.simulation.schedule import RESCALES, RESETS

# What a person acts on: of a store that was set back a decided commit may find neither rows nor staging.
NAMES_DAMAGE: Final = OF_DAMAGE | {"CommitUnfinished"}
REFUSES: Final = frozenset({"SavepointOutdated", "SavepointUnusable", "ResetRefused", "SkipRefused"})


@dataclass(slots=True)
class Doors:
    """What they need of the run around them."""

    save: Callable[[], str] = lambda: ""  # takes a savepoint; what became of it, in words
    copy: Callable[[int], str] = lambda _: ""  # runs a copy of the pipeline to its end; what became of it
    has_savepoint: Callable[[], bool] = lambda: False
    repair: Callable[[], Consent | None] = lambda: None  # puts right what a driver has named
    finished: Callable[[], bool] = lambda: True  # all of the input
    choose_sinks: Callable[[int], frozenset[str]] = lambda _: frozenset()
    sinks_of_last: Callable[[], frozenset[str]] = frozenset  # of the driver that recovered last


@dataclass(slots=True)
class People:
    """How the next driver is started. What it is asked to do instead of running, it is asked once."""

    doors: Doors = field(default_factory=Doors)
    restoring: bool = False  # with the newest savepoint
    rescaling: bool = False  # and give its state another number of partitions
    resetting: bool = False
    by_ledger: bool = False  # to where the ledger says, since the group does not
    skipping: int | None = None  # which record
    sinks: frozenset[str] | None = None  # None: all of them
    query: int = 0
    was_refused: bool = False  # something other than to go on
    once_more: bool = False  # somebody has to be started, whether or not the input is processed
    unrepaired: bool = False
    _consent: Consent | None = None

    def want(self, kind: str, argument: int) -> str:
        """The next driver is to be started otherwise: in words; empty: that cannot be yet."""
        if kind == "restore":
            return self._restore_or_reset(argument)
        if kind == "sinks":
            self.sinks = self.doors.choose_sinks(argument // 16 + argument % 4)
            return f"run it over {', '.join(sorted(self.sinks))}"
        if kind == "query":
            self.query = 1 - self.query
            return "run another query"
        self.skipping = argument
        return "skip a record"

    def want_nothing(self) -> None:
        """The next driver runs over all sinks, and goes on."""
        self.restoring, self.rescaling, self.resetting, self.skipping, self.sinks = False, False, False, None, None

    def ended(self, how: str) -> None:
        """A driver has stopped by itself, and said why."""
        if how in REFUSES:  # then it is started as it was
            self.once_more = self.was_refused = True
            self.by_ledger = how == "ResetRefused"
        elif how == "QueryChanged":
            self.query, self.once_more = 1 - self.query, True
        elif how == "ConfigurationError":  # an epoch in doubt wants its own sinks
            self.sinks, self.once_more = self.doors.sinks_of_last() or None, True
        elif how == "CheckpointDropped" and not self.doors.finished():
            self.resetting = self.once_more = True
        if self.unrepaired and how in NAMES_DAMAGE:
            self._consent, self.once_more = self.doors.repair(), True

    def consent(self) -> Consent:
        """What the person who starts this driver says knowingly; once."""
        said, self._consent = self._consent or Consent(), None
        return said

    def asks_to_reset(self) -> bool:
        asked, self.resetting = self.resetting, False
        return asked

    def asks_to_restore(self) -> bool:
        asked, self.restoring = self.restoring and self.doors.has_savepoint(), False
        return asked

    def asks_to_rescale(self) -> bool:
        asked, self.rescaling = self.rescaling, False
        return asked

    def asks_to_skip(self) -> int | None:
        asked, self.skipping = self.skipping, None
        return asked

    def _restore_or_reset(self, argument: int) -> str:
        if argument // 16 == RESETS:
            self.resetting = True
            return "reset the home"
        fresh = self.doors.save() if argument // 4 % 2 or not self.doors.has_savepoint() else ""
        if not self.doors.has_savepoint():  # nothing is finished yet
            return ""
        self.restoring, self.resetting, self.rescaling = True, False, argument // 16 == RESCALES
        more = ", with another number of partitions" if self.rescaling else ""
        return f"restore {fresh or 'the newest savepoint'}{more}"
