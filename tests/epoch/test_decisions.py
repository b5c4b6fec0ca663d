"""The ledger as decider, on a real directory: slots that are claimed once, by whoever is first."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from onceward.epoch.decisions import FOLDER, FORMAT, Decisions, Slot
from onceward.epoch.ledger import DECIDED, RETAIN, Entry, SinkEntry
from onceward.epoch.outcome import Outcome
from onceward.epoch.sealed import unseal
from onceward.epoch.storage import LocalStorage
from onceward.errors import PipelineFenced


def entry(epoch: int, term: int = 1, rows: int = 3) -> Entry:
    files = SinkEntry.of(Outcome(rows=rows, digest=0xFE), committable={"version": 1, "names": ["a", "ä"]})
    return Entry(
        pipeline="p", lineage="L", term=term, epoch=epoch, phase=DECIDED, positions=["7"], sinks={"files": files}
    )


def file_of(epoch: int, slot: int) -> str:
    return f"{FOLDER}/{epoch:012d}-{slot:06d}.json"


def slots(storage: LocalStorage, epoch: int) -> list[tuple[int, int, bool]]:
    """For each slot of an epoch: its number, whose it is, and whether it decides."""
    names = [name for name in storage.names(FOLDER) if name.startswith(f"{epoch:012d}-")]
    found = [unseal(storage.read(f"{FOLDER}/{name}") or b"", Slot, name, FORMAT) for name in names]
    return [(slot.slot, slot.term, slot.decided is not None) for slot in found]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def driver(storage: LocalStorage) -> Callable[[int], Decisions]:
    """A driver of a term, as a process of its own would make it."""
    return lambda term: Decisions(storage, "L", term)


class TestDeciding:
    def test_a_new_home_has_decided_nothing(self, driver: Callable[[int], Decisions]) -> None:
        assert driver(1).last() is None
        assert driver(1).of(0) is None

    def test_a_decision_is_read_by_everybody_with_all_its_votes(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        """B3: whoever starts next has what every commit needs."""
        mine = driver(1)
        assert mine.close(0) is None
        mine.decide(entry(0))
        assert slots(storage, 0) == [(0, 1, False), (1, 1, True)]
        for anybody in (mine, driver(2), driver(0)):
            assert anybody.of(0) == entry(0)
            assert anybody.last() == entry(0)

    def test_epochs_after_the_first_of_a_start_take_the_first_slot(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        mine = driver(1)
        mine.close(4)
        for epoch in (4, 5, 6):
            mine.decide(entry(epoch))
        assert (slots(storage, 5), slots(storage, 6)) == ([(0, 1, True)], [(0, 1, True)])
        assert mine.last() == entry(6)

    def test_the_newest_decided_epoch_is_the_last_even_if_a_later_one_is_closed(
        self, driver: Callable[[int], Decisions]
    ) -> None:
        driver(1).decide(entry(5))
        assert driver(2).close(6) is None
        assert driver(2).last() == entry(5)

    def test_epochs_may_skip(self, driver: Callable[[int], Decisions]) -> None:
        driver(1).decide(entry(5))
        driver(1).decide(entry(9))
        assert driver(2).last() == entry(9)
        assert driver(2).of(7) is None

    def test_a_decision_is_not_made_twice(self, driver: Callable[[int], Decisions]) -> None:
        driver(1).decide(entry(5))
        with pytest.raises(PipelineFenced):
            driver(1).decide(entry(5, rows=99))
        assert driver(1).of(5) == entry(5)

    def test_other_files_in_the_folder_are_passed_over(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        driver(1).decide(entry(5))
        storage.replace(f"{FOLDER}/notes.txt", b"hello")
        (storage.root / FOLDER / ".000000000009-000000.json.0123").write_bytes(b"ha")
        assert driver(2).last() == entry(5)


class TestZombies:
    """C6: a driver that was paused just before its decision, and wakes."""

    def test_after_a_start_it_has_not_decided_and_hears_who_took_over(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        """Planted bug: a check of the term before the decision, which a pause overtakes."""
        zombie = driver(1)
        zombie.decide(entry(4))
        assert driver(2).close(5) is None
        with pytest.raises(PipelineFenced) as fenced:
            zombie.decide(entry(5))
        for named in ("'p'", "epoch 5", "term 2 has taken over", "of term 1", "Nothing of its try is visible"):
            assert named in str(fenced.value)
        assert slots(storage, 5) == [(0, 2, False)]
        assert driver(2).last() == entry(4)

    def test_one_that_had_closed_the_epoch_itself_is_fenced_too(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        zombie, heir = driver(1), driver(2)
        zombie.close(5)
        heir.close(5)
        with pytest.raises(PipelineFenced):
            zombie.decide(entry(5))
        heir.decide(entry(5, term=2))
        assert slots(storage, 5) == [(0, 1, False), (1, 2, False), (2, 2, True)]
        assert driver(3).of(5) == entry(5, term=2)

    def test_one_that_was_quicker_has_decided_and_its_successor_is_told(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        """B10: it counts, whoever is alive; the successor finishes it."""
        zombie, heir = driver(1), driver(2)
        zombie.close(5)
        zombie.decide(entry(5))
        assert heir.close(5) == entry(5)
        assert heir.close(6) is None
        heir.decide(entry(6, term=2))
        assert slots(storage, 5) == [(0, 1, False), (1, 1, True)]

    def test_one_that_wakes_after_its_successors_decision_changes_nothing(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        zombie, heir = driver(1), driver(2)
        heir.close(5)
        heir.decide(entry(5, term=2))
        before = storage.read(file_of(5, 1))
        with pytest.raises(PipelineFenced):
            zombie.decide(entry(5))
        assert zombie.close(5) == entry(5, term=2)
        assert storage.read(file_of(5, 1)) == before

    def test_two_starts_in_the_order_of_their_terms(self, driver: Callable[[int], Decisions]) -> None:
        second, third = driver(2), driver(3)
        assert second.close(5) is None
        assert third.close(5) is None
        with pytest.raises(PipelineFenced, match="term 3 has taken over"):
            second.decide(entry(5, term=2))
        third.decide(entry(5, term=3))
        assert second.of(5) == third.of(5) == entry(5, term=3)

    def test_two_starts_in_the_other_order_the_older_one_stops(self, driver: Callable[[int], Decisions]) -> None:
        """It was paused between its term and this point; the newer driver is not disturbed."""
        second, third = driver(2), driver(3)
        assert third.close(5) is None
        with pytest.raises(PipelineFenced, match=r"epoch 5 is closed by the driver of term 3; this one, of term 2"):
            second.close(5)
        third.decide(entry(5, term=3))
        assert second.close(5) == entry(5, term=3)

    def test_an_older_start_that_closes_an_epoch_of_a_running_driver_does_not_fence_it(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        """The running driver has closed only its first epoch: it steps over what an older one voided."""
        older, running = driver(2), driver(3)
        running.close(4)
        running.decide(entry(4, term=3))
        assert older.close(5) is None
        running.decide(entry(5, term=3))
        with pytest.raises(PipelineFenced, match="term 3 has taken over"):
            older.decide(entry(5, term=2))
        assert slots(storage, 5) == [(0, 2, False), (1, 3, True)]

    def test_many_starts_in_a_row_leave_one_decision(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        """Each was killed before it could decide, but for the last."""
        started = [driver(term) for term in range(1, 20)]
        for one in started:
            assert one.close(5) is None
        for one in started[:-1]:
            with pytest.raises(PipelineFenced):
                one.decide(entry(5, term=one._term))
        started[-1].decide(entry(5, term=19))
        assert [decides for _, _, decides in slots(storage, 5)] == [False] * 19 + [True]


class TestRetention:
    @pytest.fixture(autouse=True)
    def _unsynced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Thousands of fsyncs would prove nothing here."""
        monkeypatch.setattr(os, "fsync", lambda _: None)

    def test_recent_decisions_stay_and_older_ones_go(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        mine = driver(1)
        mine.close(0)
        newest = RETAIN + 350
        for epoch in range(newest + 1):
            mine.decide(entry(epoch))
            if epoch % 50 == 0:
                kept = [int(name[:12]) for name in storage.names(FOLDER)]
                assert set(range(max(0, epoch - RETAIN), epoch + 1)) <= set(kept)
        assert min(kept) == RETAIN + 300 - RETAIN
        assert mine.last() == entry(newest)

    def test_a_driver_that_slept_for_a_thousand_epochs_changes_nothing_that_counts(
        self, driver: Callable[[int], Decisions], storage: LocalStorage
    ) -> None:
        """Its slot is free again: the term, asked once more after the claim, stops it, and `last` is not moved."""
        zombie, heir = driver(1), driver(2)
        zombie.decide(entry(99))
        heir.close(100)
        for epoch in (100, 1099, 1200):
            heir.decide(entry(epoch, term=2))
        assert slots(storage, 100) == []
        zombie.decide(entry(100))
        assert driver(3).last() == entry(1200, term=2)
        assert driver(3).close(1201) is None
