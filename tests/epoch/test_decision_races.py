"""Drivers that race for an epoch's decision, in every order of their storage calls: one decision, for ever."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from epoch.interleaving import Interleaved, Stepped, every_schedule, with_long_pauses
from epoch.memory import Memory
from onceward.epoch.decisions import FOLDER, FORMAT, Decisions, Slot
from onceward.epoch.ledger import DECIDED, Entry
from onceward.epoch.sealed import unseal
from onceward.epoch.storage import LocalStorage, Storage
from onceward.epoch.term import Holder, acquire
from onceward.errors import PipelineFenced
from support.clocks import MONOTONIC

RANDOM_SCHEDULES = 400
Actor = Callable[[Stepped], None]


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of fsyncs would prove nothing here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def homes(tmp_path: Path) -> Callable[[], LocalStorage]:
    """A directory for each schedule."""
    numbers = itertools.count()
    return lambda: LocalStorage(tmp_path / str(next(numbers)))


def entry(epoch: int, term: int) -> Entry:
    return Entry(pipeline="p", lineage="L", term=term, epoch=epoch, phase=DECIDED, positions=[])


class Race:
    """What happened, in order: (what, term, epoch). Only one actor runs at a time, so a list will do."""

    def __init__(self, kind: type[Decisions] = Decisions) -> None:
        self.kind = kind
        self.history: list[tuple[str, int, int]] = []

    def decisions(self, storage: Storage, term: int) -> Decisions:
        return self.kind(storage, "L", term)

    def zombie(self, term: int, epoch: int) -> Actor:
        """Paused just before its decision; it never closed this epoch, for it is not its first."""
        return lambda storage: self.decide(self.decisions(storage, term), term, epoch)  # type: ignore[return-value]

    def start(self, term: int, epoch: int) -> Actor:
        """Closes the epoch, then decides it, unless somebody was quicker."""

        def act(storage: Stepped) -> None:
            mine = self.decisions(storage, term)
            if self.close(mine, term, epoch) == "closed":
                self.decide(mine, term, epoch)

        return act

    def driver(self, until: int) -> Actor:
        """A term, all that a start does to find where to go on, then epoch after epoch."""

        def act(storage: Stepped) -> None:
            term = acquire(
                storage, holder, is_gone=lambda _: True, clock=lambda: MONOTONIC, sleep=lambda _: None, take_over=True
            )
            mine = self.decisions(storage, term.number)
            closed = "quicker"
            while closed == "quicker":
                last = mine.last()
                epoch = last.epoch + 1 if last is not None else 0
                closed = self.close(mine, term.number, epoch)
            with suppress(PipelineFenced):
                while closed == "closed" and epoch < until:
                    term.require_current()
                    if not self.decide(mine, term.number, epoch):
                        return
                    epoch += 1

        return act

    def close(self, mine: Decisions, term: int, epoch: int) -> str:
        try:
            found = mine.close(epoch)
        except PipelineFenced:
            return self.note("fenced at close", term, epoch)
        if found is not None:
            self.history.append((f"found {found.term}", term, epoch))
            return "quicker"
        return self.note("closed", term, epoch)

    def decide(self, mine: Decisions, term: int, epoch: int) -> bool:
        try:
            mine.decide(entry(epoch, term))
        except PipelineFenced:
            self.note("fenced", term, epoch)
            return False
        self.note("decided", term, epoch)
        return True

    def note(self, what: str, term: int, epoch: int) -> str:
        self.history.append((what, term, epoch))
        return what


def holder(term: int) -> Holder:
    return Holder(term=term, pipeline="p", host="h", machine="m", pid=1, process_start="1", since="noon")


def slots_of(storage: Storage) -> list[Slot]:
    names = [f"{FOLDER}/{name}" for name in storage.names(FOLDER)]
    return [unseal(storage.read(name) or b"", Slot, name, FORMAT) for name in names]


def violations(history: Sequence[tuple[str, int, int]], slots: Sequence[Slot]) -> list[str]:
    """Every way in which a race broke the rules; pure."""
    decided: dict[int, list[int]] = {}
    for slot in slots:
        if slot.decided is not None:
            decided.setdefault(slot.epoch, []).append(slot.decided.term)
    found = [f"epoch {epoch} was decided by terms {terms}" for epoch, terms in decided.items() if len(terms) > 1]
    closed: dict[int, int] = {}  # the newest term that closed each epoch so far
    for what, term, epoch in history:
        believed = {"decided": term}.get(what, int(what.split()[1]) if what.startswith("found") else None)
        if believed is not None and decided.get(epoch) != [believed]:
            found.append(f"term {term} believes in {believed}'s decision of epoch {epoch}; the slots say {decided}")
        if what in {"closed", "decided"} and term < closed.get(epoch, 0):
            found.append(f"term {term} {what} epoch {epoch} after term {closed[epoch]} had closed it")
        if what == "closed":
            closed[epoch] = term
        rivals = [slot for slot in slots if slot.epoch == epoch and (slot.term > term or slot.decided is not None)]
        if what == "fenced" and not rivals:
            found.append(f"term {term} was fenced from epoch {epoch} by nobody newer")
    return found


def test_a_zombie_and_its_successor_never_both_decide_in_any_order(homes: Callable[[], LocalStorage]) -> None:
    """B3, C6: every interleaving of a paused decision with a start."""
    ends = set()
    for choose in every_schedule():
        race, storage = Race(), homes()
        Interleaved(choose).run([race.zombie(1, 5), race.start(2, 5)], storage)
        assert violations(race.history, slots_of(storage)) == []
        ends.add(tuple(sorted(what for what, _, _ in race.history)))
    assert ends == {("decided", "found 1"), ("closed", "decided", "fenced")}


def races(kind: type[Decisions]) -> Iterator[list[str]]:
    """Every interleaving of a zombie and two starts at once."""
    for choose in every_schedule():
        race, storage = Race(kind), Memory()
        Interleaved(choose).run([race.zombie(1, 5), race.start(2, 5), race.start(3, 5)], storage)
        yield violations(race.history, slots_of(storage))


def test_a_zombie_and_two_starts_at_once_make_one_decision_in_any_order() -> None:
    """A7, B3: whoever comes last in time, the newest term is never fenced by an older one."""
    count = 0
    for found in races(Decisions):
        assert found == []
        count += 1
    assert count > 1_000


def test_drivers_that_start_and_run_at_random_moments_make_one_decision_for_each_epoch(
    homes: Callable[[], LocalStorage],
) -> None:
    """A7, B3, C6: terms, starts and decisions as they are, over several epochs."""
    for seed in range(RANDOM_SCHEDULES):
        assert run_drivers(seed, Decisions, homes()) == [], f"seed {seed}"


def run_drivers(seed: int, kind: type[Decisions], storage: Storage) -> list[str]:
    """Two to four drivers, each of which may be paused anywhere and for long; the same for one seed."""
    random, race = Random(seed), Race(kind)
    drivers = random.randint(2, 4)
    Interleaved(with_long_pauses(random)).run([race.driver(until=3)] * drivers, storage)
    slots = slots_of(storage)
    terms = [slot.decided.term for slot in slots if slot.decided is not None]
    found = violations(race.history, slots)
    found += [f"{what}, but it is the newest" for what, term, _ in race.history if "fenced" in what and term == drivers]
    found += [] if terms == sorted(terms) else [f"an older driver decided after a newer one: {terms}"]
    return found + ([] if len(terms) == 3 else [f"the newest driver lives, and only {len(terms)} epochs are decided"])


class LooksTwice(Decisions):
    """A decision that falls between the two looks is overlooked."""

    def close(self, epoch: int) -> Entry | None:
        while True:
            if (decided := self.of(epoch)) is not None:
                return decided
            free = max((slot for found, slot in self._all() if found == epoch), default=-1) + 1
            if self._claim(epoch, free, None):
                self._own[epoch] = free + 1
                return None


class ClosesNothing(Decisions):
    def close(self, epoch: int) -> Entry | None:
        self._own[epoch] = len(self._slots(epoch))
        return self.of(epoch)


class TakesAnyFreeSlot(Decisions):
    def decide(self, found: Entry) -> None:
        self._own[found.epoch] = len(self._slots(found.epoch))
        super().decide(found)


class LetsAnOlderTermClose(Decisions):
    def close(self, epoch: int) -> Entry | None:
        own, self._term = self._term, 10**6
        try:
            return super().close(epoch)
        finally:
            self._term = own


class LetsAnOlderStartFence(Decisions):
    def decide(self, found: Entry) -> None:
        if not self._claim(found.epoch, self._own.get(found.epoch, 0), found):
            raise PipelineFenced("by whomever")


class IgnoresTheRefusal(Decisions):
    def decide(self, found: Entry) -> None:
        self._claim(found.epoch, self._own.get(found.epoch, 0), found)


@pytest.mark.parametrize(
    "planted", [LooksTwice, ClosesNothing, TakesAnyFreeSlot, LetsAnOlderTermClose, IgnoresTheRefusal]
)
def test_a_planted_bug_is_found_by_some_order(planted: type[Decisions]) -> None:
    """G3: the checker itself can fail."""
    assert any(found != [] for found in races(planted))


def test_a_start_that_is_paused_for_long_would_fence_the_driver_in_its_place_with_a_planted_bug() -> None:
    """G3."""
    assert any(run_drivers(seed, LetsAnOlderStartFence, Memory()) for seed in range(RANDOM_SCHEDULES))


def test_threads_without_a_schedule_agree_too(homes: Callable[[], LocalStorage]) -> None:
    """The same with nobody to order them: the file system itself decides."""
    for _ in range(30):
        race, storage, barrier = Race(), homes(), threading.Barrier(5)

        def act(actor: Actor, storage: LocalStorage = storage, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(30)
            actor(storage)  # type: ignore[arg-type]

        actors = [race.zombie(1, 5), *(race.start(term, 5) for term in range(2, 6))]
        threads = [threading.Thread(target=act, args=(actor,)) for actor in actors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len([slot for slot in slots_of(storage) if slot.decided is not None]) <= 1
        winners = [term for what, term, _ in race.history if what == "decided"]
        decided = Decisions(storage, "L", 99).of(5)
        assert winners == ([decided.term] if decided is not None else [])
