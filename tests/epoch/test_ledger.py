"""The ledger on a real directory: what it keeps, whose entries count, and that damage is named and never used."""

import os
import re
from pathlib import Path

import msgspec
import pytest

from epoch.samples import DEED, ENTRY, FILES_OUTCOME, LINEAGE, OUTCOME
from onceward.epoch.ledger import DECIDED, DONE, PREPARED, RETAIN, STARTED, Entry, Ledger, SinkEntry
from onceward.epoch.outcome import MODULUS, Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.errors import LedgerCorrupt


def entry(epoch: int, term: int = 1, phase: str = DONE) -> Entry:
    return msgspec.structs.replace(ENTRY, epoch=epoch, term=term, phase=phase)


def file_of(epoch: int, term: int = 1) -> str:
    return f"ledger/{epoch:012d}-{term:06d}.json"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def ledger_with(storage: LocalStorage, *entries: Entry, boundaries: dict[int, int] | None = None) -> Ledger:
    ledger = Ledger(storage, boundaries or {}, LINEAGE)
    for one in entries:
        ledger.write(one)
    return ledger


class TestRoundTrip:
    def test_an_entry_is_read_as_it_was_written(self, storage: LocalStorage) -> None:
        """B3: with every sink's vote, for a process that has nothing else."""
        ledger = ledger_with(storage, ENTRY)
        found = ledger.read(41)
        assert found == ENTRY
        assert found.outcome_of("kafka") == OUTCOME
        assert found.outcome_of("files") == FILES_OUTCOME
        assert found.sinks["files"].committable["files"] == [{"name": "part-0.parquet", "bytes": 123}]
        assert Ledger(storage, {}, LINEAGE).last() == ENTRY

    def test_an_outcome_is_read_as_it_was_written(self, storage: LocalStorage) -> None:
        for outcome in (
            Outcome(),
            Outcome(rows=1, digest=MODULUS - 1),
            Outcome.of([(TopicPartition(f"t{n % 3}", n), PartitionOutcome(n, n << 40)) for n in range(20)]),
        ):
            ledger_with(storage, msgspec.structs.replace(ENTRY, sinks={"x": SinkEntry.of(outcome)}))
            found = Ledger(storage, {}, LINEAGE).read(41)
            assert found is not None
            assert found.outcome_of("x") == outcome

    def test_what_one_sink_lacks_is_not_taken_from_another(self) -> None:
        assert ENTRY.outcome_of("added-later") is None
        assert entry(1).outcome_of("") is None

    def test_writing_an_entry_again_changes_nothing(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, ENTRY)
        before = storage.read(file_of(41, 2))
        ledger.write(ENTRY)
        assert storage.read(file_of(41, 2)) == before
        assert storage.names("ledger") == [file_of(41, 2).removeprefix("ledger/")]

    def test_completion_takes_the_place_of_the_votes(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(7, phase=PREPARED), entry(7, phase=DONE))
        assert ledger.read(7) == entry(7)
        assert ledger.last(PREPARED) is None

    def test_an_empty_ledger_has_no_last_entry(self, storage: LocalStorage) -> None:
        ledger = Ledger(storage, {}, LINEAGE)
        assert ledger.last() is ledger.read(0) is ledger.read_of(0, 1) is None
        assert ledger.newest(10) == []

    @pytest.mark.parametrize("phase", [STARTED, PREPARED, DECIDED])
    def test_the_last_entry_is_that_of_the_phase_asked_for(self, storage: LocalStorage, phase: str) -> None:
        """What is noted before it is out is not taken for being out."""
        ledger = ledger_with(storage, entry(1), entry(2), entry(3, phase=phase))
        assert ledger.last() == entry(2)
        assert ledger.last(phase) == entry(3, phase=phase)

    def test_what_one_term_wrote_is_read_by_its_name(self, storage: LocalStorage) -> None:
        """Kafka's marker names the term whose votes count, older or not."""
        ledger = ledger_with(storage, entry(5, 1, PREPARED), entry(5, 2), boundaries={2: 4})
        assert ledger.read_of(5, 1) == entry(5, 1, PREPARED)
        assert ledger.read_of(5, 2) == entry(5, 2)
        assert ledger.read_of(5, 3) is ledger.read_of(6, 1) is None

    def test_the_newest_entries_come_oldest_first_one_for_each_epoch(self, storage: LocalStorage) -> None:
        ledger = ledger_with(
            storage, entry(3), entry(4), entry(5, 1), entry(5, 2), entry(9, 2, PREPARED), boundaries={2: 5}
        )
        assert ledger.newest(3) == [entry(4), entry(5, 2), entry(9, 2, PREPARED)]
        assert len(ledger.newest(99)) == 4

    def test_who_reads_all_entries_lists_the_folder_once(
        self, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A thousand are kept, and a listing for each took seconds."""
        ledger, listed, names = ledger_with(storage, *map(entry, range(20))), list[str](), storage.names

        def count(folder: str) -> list[str]:
            listed.append(folder)
            return names(folder)

        monkeypatch.setattr(storage, "names", count)
        assert len(ledger.newest(99)) == 20
        assert len(listed) == 1

    def test_other_files_in_the_folder_are_passed_over(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(1))
        storage.replace("ledger/notes.txt", b"hello")
        storage.replace("ledger/000000000009.json", b"hello")
        (storage.root / "ledger" / ".000000000009-000001.json.0123").write_bytes(b"ha")
        assert ledger.last() == entry(1)


class TestDamage:
    """E9; thousands of random ones are in test_damage."""

    def test_a_damaged_newest_entry_is_not_passed_over_for_an_older_one(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(1), entry(2))
        storage.replace(file_of(2), b"")
        for ask in (ledger.last, lambda: ledger.read(2), lambda: ledger.read_of(2, 1), lambda: ledger.newest(1)):
            with pytest.raises(LedgerCorrupt, match=re.escape(file_of(2))):
                ask()

    def test_an_entry_of_another_lineage_is_named(self, storage: LocalStorage) -> None:
        ledger_with(storage, entry(1))
        with pytest.raises(LedgerCorrupt, match=r"000000000001-000001.json is of lineage .*swapped"):
            Ledger(storage, {}, "another").read(1)

    def test_swapped_entries_are_named(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(1), entry(2))
        first, second = storage.read(file_of(1)), storage.read(file_of(2))
        storage.replace(file_of(1), second or b"")
        storage.replace(file_of(2), first or b"")
        with pytest.raises(
            LedgerCorrupt, match=r"000000000001-000001.json holds epoch 2 of term 1: files were swapped"
        ):
            ledger.read(1)
        with pytest.raises(LedgerCorrupt, match="holds epoch 1 of term 1"):
            ledger.last()

    def test_an_entry_of_another_term_under_this_name_is_named(self, storage: LocalStorage) -> None:
        storage.replace(file_of(1, 2), seal(entry(1, term=1)))
        for ask in (lambda ledger: ledger.read(1), lambda ledger: ledger.read_of(1, 2)):
            with pytest.raises(LedgerCorrupt, match="holds epoch 1 of term 1"):
                ask(Ledger(storage, {}, LINEAGE))

    def test_a_whole_file_of_another_kind_is_named(self, storage: LocalStorage) -> None:
        storage.replace(file_of(1), seal(DEED))
        with pytest.raises(LedgerCorrupt, match=r"000000000001-000001.json is whole, but holds no Entry.*swapped"):
            Ledger(storage, {}, LINEAGE).read(1)

    def test_a_vote_of_another_shape_is_named(self, storage: LocalStorage) -> None:
        """Its checksum is right: written by something else that thinks it is of this format."""
        strange = msgspec.structs.replace(entry(1), sinks={"files": 17})  # type: ignore[dict-item]
        storage.replace(file_of(1), seal(strange))
        with pytest.raises(LedgerCorrupt, match=r"000000000001-000001.json is whole, but holds no Entry"):
            Ledger(storage, {}, LINEAGE).read(1)

    def test_a_file_that_goes_away_while_it_is_read_is_missing(self, tmp_path: Path) -> None:
        """An old one may be forgotten by its driver while somebody looks."""

        class Vanishing(LocalStorage):
            def read(self, name: str) -> bytes | None:
                return None if name == file_of(1) else super().read(name)

        ledger_with(LocalStorage(tmp_path), entry(1), entry(2, phase=PREPARED))
        ledger = Ledger(Vanishing(tmp_path), {}, LINEAGE)
        assert ledger.read(1) is ledger.last() is None
        assert ledger.newest(5) == [entry(2, phase=PREPARED)]


class TestReplacedDrivers:
    """Decision 0004: a driver that was replaced may go on writing for a while."""

    def test_what_an_older_term_says_about_epochs_after_its_successors_start_is_passed_over(
        self, storage: LocalStorage
    ) -> None:
        """C6."""
        ledger = ledger_with(storage, entry(5, 1), entry(6, 1), entry(7, 1), entry(6, 2), boundaries={1: -1, 2: 5})
        assert ledger.read(5) == entry(5, 1)
        assert ledger.read(6) == entry(6, 2)
        assert ledger.read(7) is None
        assert ledger.last() == entry(6, 2)
        assert ledger.newest(9) == [entry(5, 1), entry(6, 2)]

    def test_votes_of_a_replaced_driver_are_passed_over_too(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(5, 1), entry(6, 1, PREPARED), boundaries={2: 5})
        assert ledger.last(PREPARED) is None

    def test_the_successors_own_start_does_not_bind_itself(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(6, 2), boundaries={1: -1, 2: 5})
        assert ledger.read(6) == entry(6, 2)

    def test_any_later_start_counts_not_only_the_next(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(4, 1), entry(5, 1), boundaries={3: 4})
        assert ledger.read(4) == entry(4, 1)
        assert ledger.read(5) is None

    def test_a_damaged_entry_that_does_not_count_does_no_harm(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(5, 1), boundaries={2: 5})
        storage.replace(file_of(6, 1), b"half an ent")
        assert ledger.last() == entry(5, 1)

    def test_the_newest_term_that_could_have_committed_an_epoch_is_believed(self, storage: LocalStorage) -> None:
        """B10: a later term notes the completion of an epoch that an earlier one decided."""
        ledger = ledger_with(storage, entry(5, 1, PREPARED), entry(5, 2), boundaries={2: 5})
        assert ledger.read(5) == entry(5, 2)
        assert ledger.last() == entry(5, 2)


class TestRetention:
    @pytest.fixture(autouse=True)
    def _unsynced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Thousands of fsyncs would prove nothing here."""
        monkeypatch.setattr(os, "fsync", lambda _: None)

    def test_the_ledger_keeps_its_last_entries_and_forgets_older_ones(self, storage: LocalStorage) -> None:
        ledger = Ledger(storage, {}, LINEAGE)
        newest = 2 * RETAIN + 300
        for epoch in range(RETAIN - 100, newest + 1):
            ledger.write(entry(epoch, term=1 + epoch // 700))
        kept = [int(name[:12]) for name in storage.names("ledger")]
        assert kept == list(range(newest - RETAIN, newest + 1))
        assert ledger.last() == entry(newest, 1 + newest // 700)
        assert ledger.read(newest - RETAIN) is not None
        assert ledger.read(newest - RETAIN - 1) is None

    def test_votes_alone_forget_nothing(self, storage: LocalStorage) -> None:
        """Before the decision nothing is cleaned up: it only takes time then."""
        ledger = ledger_with(storage, entry(1), entry(RETAIN + 100, phase=PREPARED))
        assert ledger.read(1) == entry(1)
        ledger.write(entry(RETAIN + 100))
        assert ledger.read(1) is None
