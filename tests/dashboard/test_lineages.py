"""A page that is open while its pipeline is restored or reset: epochs of two lineages have the same numbers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.homes import MadeHome, ago, now
from onceward.dashboard.watch import Watch, Watched
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.deeds import Slot as DeedSlot
from onceward.epoch.ledger import DECIDED, PREPARED, Ledger
from onceward.epoch.sealed import seal
from onceward.telemetry.activity import Event

NEW = "lineages/M"


class Restored:
    """A home with ten epochs of lineage L, whose page is open, and which is then restored to epoch 4 as M."""

    def __init__(self, home: MadeHome, savepoint: str) -> None:
        self.home = home
        home.driven(1)
        home.ledger(*(home.entry(epoch, input_rows=15, finished_at=ago(60 - epoch)) for epoch in range(10)))
        home.tells(Event(at=ago(55), kind="aborted", epoch=5, attempt=1, cause="X", reason="of the old one"))
        watched = Watch([home.path]).find(home.path.name)
        assert watched is not None
        self.page: Watched = watched
        self.savepoint = savepoint
        self.at = now()

    def begin(self) -> None:
        origin = Origin(
            savepoint=self.savepoint, pipeline="orders", lineage="L", epoch=4, begins_after=4, first_term=2
        )  # fmt: skip
        deed = Deed(pipeline="orders", lineage="M", guarantee="exactly-once", folder=NEW, origin=origin, format=2)
        self.home.storage.replace("terms/000002.lineage", seal(DeedSlot(term=2, deed=deed)))
        self.home.lease(1, released=True)
        self.home.driven(2, 4)

    @property
    def room(self) -> Any:
        return self.home.home.of_lineage(
            Deed(pipeline="orders", lineage="M", guarantee="exactly-once", folder=NEW)
        ).storage  # fmt: skip

    def epoch(self, number: int, **facts: Any) -> None:
        Ledger(self.room, {}, "M").write(self.home.entry(number, lineage="M", term=2, **facts))

    def look(self) -> Any:
        """Later than the page's last look: what is fresh is shown again."""
        self.at += timedelta(seconds=5)
        return self.page.detail(self.at)

    def numbers(self) -> list[int]:
        return list(self.page.epochs(self.at, None, None, 100).epoch)


@pytest.fixture(params=["5f3a" * 8, ""], ids=["restored", "reset"])
def restored(request: pytest.FixtureRequest, tmp_path: Path) -> Restored:
    return Restored(MadeHome(tmp_path / "orders"), request.param)


def test_the_open_page_shows_the_new_lineages_epochs_and_no_others(restored: Restored) -> None:
    """I2, E8."""
    before = restored.look()
    assert (before.lineage, before.epoch, restored.numbers()) == ("L", 9, list(range(10)))
    restored.begin()
    between = restored.look()
    assert (between.lineage, between.epochs.count, restored.numbers()) == ("M", 0, [])
    restored.epoch(5, input_rows=99)
    restored.epoch(6, input_rows=98)
    after = restored.look()
    assert (after.lineage, after.epoch, restored.numbers()) == ("M", 6, [5, 6])
    assert list(restored.page.epochs(restored.at, None, None, 100).rows_in) == [99, 98]


def test_an_epochs_page_is_of_the_lineage_in_force(restored: Restored) -> None:
    """Its rows, its positions, its tries; one that only the old lineage has is none."""
    restored.look()
    old = restored.page.epoch(restored.at, 5)
    assert old is not None
    assert (old.input_rows, [it.reason for it in old.aborted]) == (15, ["of the old one"])
    restored.begin()
    restored.look()
    assert restored.page.epoch(restored.at, 5) is None
    restored.epoch(5, input_rows=99)
    restored.look()
    found = restored.page.epoch(restored.at, 5)
    assert found is not None
    assert (found.term, found.input_rows, found.aborted) == (2, 99, [])
    restored.home.tells(
        Event(at=ago(1), kind="aborted", epoch=5, attempt=1, cause="Y", reason="of the new one"), term=2
    )
    found = restored.page.epoch(restored.at, 5)
    assert found is not None
    assert [it.reason for it in found.aborted] == ["of the new one"]
    assert restored.page.epoch(restored.at, 9) is None


def test_where_it_reads_and_writes_is_told_of_the_lineage_in_force(restored: Restored) -> None:
    """After a reset it may be other topics."""
    before = restored.look()
    assert (before.sources, before.targets) == (["clicks"], ["out"])
    restored.begin()
    between = restored.look()
    assert (between.sources, between.targets) == ([], [])
    sinks = {name: part for name, part in restored.home.entry(5).sinks.items() if name == "files"}
    restored.epoch(5, positions=['{"orders":{"0":7}}'], sinks=sinks, decider=None)
    after = restored.look()
    assert (after.sources, after.targets) == (["orders"], [])


def test_an_entry_of_the_new_lineage_that_changes_is_read_again(restored: Restored) -> None:
    """Voted for, and then done."""
    restored.look()
    restored.begin()
    restored.epoch(5)
    restored.epoch(6, phase=PREPARED)
    assert (restored.look().epoch, restored.numbers()) == (5, [5])
    restored.epoch(6, finished_at=ago(0))
    assert (restored.look().epoch, restored.numbers()) == (6, [5, 6])


def test_an_epoch_of_the_new_lineage_alone_is_in_doubt(restored: Restored) -> None:
    restored.home.decider = None
    restored.look()
    restored.begin()
    restored.home.lease(2, released=True)
    restored.epoch(5)
    Decisions(restored.room, "M", 2).decide(restored.home.entry(6, lineage="M", term=2, phase=DECIDED, decider=None))
    assert [it.epoch for it in restored.look().in_doubt_epochs] == [6]


def test_only_the_lineage_in_force_can_have_an_epoch_in_doubt(restored: Restored) -> None:
    """B10: what the old one left undecided was settled before it ended, or is nobody's."""
    restored.home.decider = None
    restored.home.lease(1, released=True)
    Decisions(restored.home.storage, "L", 1).decide(restored.home.entry(10, phase=DECIDED, decider=None))
    assert [it.epoch for it in restored.look().in_doubt_epochs] == [10]
    restored.begin()
    restored.home.lease(2, released=True)
    restored.epoch(5)
    assert restored.look().in_doubt_epochs == []
    Decisions(restored.room, "M", 2).decide(
        restored.home.entry(6, lineage="M", term=2, phase=DECIDED, decider=None)
    )  # fmt: skip
    assert [it.epoch for it in restored.look().in_doubt_epochs] == [6]
