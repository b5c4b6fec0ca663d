"""Planted bugs of starts and ends: what is judged when, and who is believed. None of this is on the shipped path."""

from collections.abc import Callable

from onceward.epoch import deeds, recovery
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.contract import LastCommit
from onceward.epoch.deeds import Deed
from onceward.epoch.expected import Held
from onceward.epoch.home import Home
from onceward.epoch.ledger import Entry
from onceward.epoch.new_lineage import Ending
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.recovery import Known, Recovered
from onceward.epoch.resetting import Resetting
from onceward.epoch.runner import EpochRunner
from onceward.epoch.skips import Skipped
from onceward.epoch.starting import Begins, Opened, Start
from onceward.epoch.term import Holder, Term
from onceward.savepoint import retaining
from onceward.savepoint.pins import Pins

# ruff: noqa: ARG001 - whatever a bug does not look at

_needed = retaining._needed  # noqa: SLF001 - a bug may look inside
_judge = Start._judge  # noqa: SLF001 - likewise
_pin = Pins.pin


def needs_no_savepoint(opened: Opened, runner: EpochRunner, *, saves: bool) -> str | None:
    """A checkpoint is dropped although it was asked to be saved."""
    return _needed(opened, runner, saves=False)


def silence_is_death(holder: Holder) -> bool:
    """Whoever cannot be seen from here is gone."""
    return True


def remembers_no_pins(self: Pins, checkpoint: str, epoch: int) -> str:
    """What was pinned is not compared with what is there when all is copied."""
    plan = _pin(self, checkpoint, epoch)
    self.names.clear()
    return plan


def any_query(home: Home, deed: Deed, now: QueryShape, *, any_topics: bool) -> None:
    """The state is taken for that of whichever query is started."""


def judges_once(self: Start, term: Term, begins: Begins | None) -> Deed | None:
    """What held before the wait is taken to hold after it."""
    return deeds.enter(self.home.storage, term.number)


def judges_only_before(self: Start, begins: Begins | None) -> None:
    """What was judged before the sinks were fenced is taken to hold afterwards."""
    newest = terms.newest_holder(self.home.storage)
    if newest is None or newest != self.process.holder(self.pipeline, newest.term):
        _judge(self, begins)


def asks_nobody_who_left(self: Start) -> None:
    """A sink that decided and is no longer here is forgotten, whatever it may still decide."""


def forgets_what_was_begun(self: Ending) -> Entry | None:
    """At-most-once: only what is done counts."""
    return None


def lowest_of_all(self: Resetting, source: int, topics: frozenset[str], known: object) -> dict[TopicPartition, int]:
    """Where a topic's name was read up to, whichever source read it."""
    assert isinstance(known, list)
    found: dict[TopicPartition, int] = {}
    for offsets in known:
        for place, at in offsets.items():
            found[place] = min(at, found.get(place, at))
    return found


def of_every_source(records: tuple[Skipped, ...], source: int) -> list[Skipped]:
    """A topic's name is taken for the topic."""
    return list(records)


def silences_every_sink(known: Known, recovered: Recovered, sink: str, last: LastCommit | None) -> None:
    """Who trusts the ledger over one sink is taken to trust it over all."""
    if not known.consent.trust_ledger:
        recovery.check_marker(known, recovered, sink, last)


def knows_no_absent_sink(self: Ending) -> dict[str, Held]:
    """What sinks hold that are out of the pipeline is not handed on."""
    return {}


def takes_its_own_for_theirs(put: Callable[[], None], is_ours: Callable[[], bool]) -> bool:
    """A name that is taken was taken by somebody else."""
    try:
        put()
    except FileExistsError:
        return False
    return True


def plan_may_be_lost(self: Checkpoint, epoch: int) -> None:
    """What is decided may outlive the plan that it is about."""
