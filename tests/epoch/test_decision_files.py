"""The files of decisions on a real directory: damage and failures are named, and nothing is guessed."""

import errno
import re
from pathlib import Path

import msgspec
import pytest

from onceward.epoch.decisions import FOLDER, FORMAT, Decisions, Slot
from onceward.epoch.deeds import Deed
from onceward.epoch.ledger import DECIDED, Entry
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.errors import CommitUnproven, HomeMismatch, LedgerCorrupt, PipelineFenced

DEED = Deed(pipeline="p", lineage="L", guarantee="exactly-once")


def entry(epoch: int) -> Entry:
    return Entry(pipeline="p", lineage="L", term=1, epoch=epoch, phase=DECIDED, positions=["7"])


def file_of(epoch: int, slot: int) -> str:
    return f"{FOLDER}/{epoch:012d}-{slot:06d}.json"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


class TestDamage:
    """E9: named, never used."""

    @pytest.fixture
    def decided(self, storage: LocalStorage) -> Decisions:
        mine = Decisions(storage, "L", 1)
        mine.close(5)
        mine.decide(entry(5))
        mine.decide(entry(6))
        return mine

    @pytest.mark.parametrize("slot", [0, 1], ids=["void", "decided"])
    @pytest.mark.parametrize("data", [b"", b"{}", b"\0" * 200], ids=["empty", "other", "zeros"])
    def test_a_damaged_slot_is_named(self, decided: Decisions, storage: LocalStorage, slot: int, data: bytes) -> None:
        """A void one too: whether an epoch is decided must not depend on which slot is whole."""
        storage.replace(file_of(5, slot), data)
        for ask in (decided.of, decided.close):
            with pytest.raises(LedgerCorrupt, match=rf"{re.escape(file_of(5, slot))} is damaged.*do not delete"):
                ask(5)

    def test_a_damaged_newest_decision_is_not_passed_over_for_an_older_one(
        self, decided: Decisions, storage: LocalStorage
    ) -> None:
        whole = storage.read(file_of(6, 0)) or b""
        for length in range(0, len(whole), 7):
            storage.replace(file_of(6, 0), whole[:length], sync=False)
            with pytest.raises(LedgerCorrupt, match=r"000000000006-000000.json is damaged"):
                decided.last()

    def test_a_damaged_slot_in_the_way_of_a_decision_is_named(self, storage: LocalStorage) -> None:
        storage.replace(file_of(7, 0), b"ha")
        with pytest.raises(LedgerCorrupt, match=r"000000000007-000000.json is damaged"):
            Decisions(storage, "L", 1).decide(entry(7))

    def test_swapped_slots_are_named(self, decided: Decisions, storage: LocalStorage) -> None:
        first, second = storage.read(file_of(5, 1)), storage.read(file_of(6, 0))
        storage.replace(file_of(5, 1), second or b"")
        storage.replace(file_of(6, 0), first or b"")
        with pytest.raises(
            LedgerCorrupt, match=r"000000000005-000001.json holds slot 0 of epoch 6: files were swapped"
        ):
            decided.of(5)
        with pytest.raises(LedgerCorrupt, match=r"holds slot 1 of epoch 5: files were swapped"):
            decided.last()

    def test_a_void_in_place_of_the_decision_is_named(self, decided: Decisions, storage: LocalStorage) -> None:
        storage.replace(file_of(5, 1), storage.read(file_of(5, 0)) or b"")
        with pytest.raises(LedgerCorrupt, match="holds slot 0 of epoch 5: files were swapped"):
            decided.of(5)

    @pytest.mark.usefixtures("decided")
    def test_a_decision_of_another_lineage_is_named(self, storage: LocalStorage) -> None:
        with pytest.raises(LedgerCorrupt, match=r"is of lineage L, the home of another: files were swapped"):
            Decisions(storage, "another", 1).last()

    def test_a_whole_file_of_another_kind_is_named(self, decided: Decisions, storage: LocalStorage) -> None:
        storage.replace(file_of(6, 0), seal(DEED))
        with pytest.raises(LedgerCorrupt, match=r"is whole, but holds no Slot.*swapped"):
            decided.of(6)

    def test_a_newer_format_is_refused(self, decided: Decisions, storage: LocalStorage) -> None:
        newer = Slot(format=FORMAT + 1, lineage="L", epoch=6, slot=0, term=1)
        storage.replace(file_of(6, 0), seal(newer))
        with pytest.raises(HomeMismatch, match="newer Onceward"):
            decided.of(6)

    def test_an_entry_of_a_newer_format_within_a_slot_is_refused(
        self, decided: Decisions, storage: LocalStorage
    ) -> None:
        newer = msgspec.structs.replace(entry(6), format=4)
        storage.replace(file_of(6, 0), seal(Slot(lineage="L", epoch=6, slot=0, term=1, decided=newer)))
        with pytest.raises(HomeMismatch, match=r"an entry of format 4, written by a newer Onceward.*up to 1"):
            decided.of(6)

    @pytest.mark.usefixtures("decided")
    def test_a_slot_that_goes_away_while_it_is_read_is_named(self, tmp_path: Path) -> None:
        class Vanishing(LocalStorage):
            def read(self, name: str) -> bytes | None:  # noqa: ARG002
                return None

        with pytest.raises(LedgerCorrupt, match=r"000000000006-000000.json has disappeared"):
            Decisions(Vanishing(tmp_path), "L", 1).last()


class Failing(LocalStorage):
    """A directory whose claims fail: after the file is there, or before; and then perhaps more fails."""

    def __init__(self, root: Path, *, written: bool, read: bool = True, sync: bool = True) -> None:
        super().__init__(root)
        self.written, self.readable, self.syncable = written, read, sync
        self.synced: list[str] = []

    def claim(self, name: str, data: bytes) -> bool:
        if self.written:
            super().claim(name, data)
        raise OSError(errno.EIO, "the disk is away")

    def read(self, name: str) -> bytes | None:
        if not self.readable:
            raise OSError(errno.EIO, "the disk is still away")
        return super().read(name)

    def sync(self, name: str) -> None:
        if not self.syncable:
            raise OSError(errno.EIO, "not synced")
        self.synced.append(name)


class TestClaimsThatFail:
    """B5: an unknown decision is found out, or it stops the pipeline; it is never guessed."""

    def test_a_decision_that_was_written_all_the_same_counts_and_is_synced(self, tmp_path: Path) -> None:
        storage = Failing(tmp_path, written=True)
        Decisions(storage, "L", 1).decide(entry(5))
        assert storage.synced == [file_of(5, 0)]
        assert Decisions(LocalStorage(tmp_path), "L", 2).close(5) == entry(5)

    def test_somebody_elses_claim_is_not_taken_for_ones_own(self, tmp_path: Path) -> None:
        Decisions(LocalStorage(tmp_path), "L", 2).close(5)
        with pytest.raises(PipelineFenced):
            Decisions(Failing(tmp_path, written=False), "L", 1).decide(entry(5))

    @pytest.mark.parametrize("written", [True, False])
    def test_one_that_cannot_be_read_is_unproven(self, tmp_path: Path, written: bool) -> None:
        with pytest.raises(CommitUnproven) as unproven:
            Decisions(Failing(tmp_path, written=written, read=False), "L", 1).decide(entry(5))
        for named in ("epoch 5", file_of(5, 0), "the disk is away", "Nothing is lost", "next start"):
            assert named in str(unproven.value)
        assert isinstance(unproven.value.__cause__, OSError)
        assert Decisions(LocalStorage(tmp_path), "L", 2).of(5) == (entry(5) if written else None)

    def test_one_that_is_there_and_may_not_survive_a_power_cut_is_unproven(self, tmp_path: Path) -> None:
        with pytest.raises(CommitUnproven):
            Decisions(Failing(tmp_path, written=True, sync=False), "L", 1).decide(entry(5))

    def test_one_that_is_not_there_is_unproven_too(self, tmp_path: Path) -> None:
        """It may appear yet, where the file system is somewhere else."""
        with pytest.raises(CommitUnproven):
            Decisions(Failing(tmp_path, written=False), "L", 1).decide(entry(5))

    def test_a_void_that_was_written_all_the_same_closes_the_epoch(self, tmp_path: Path) -> None:
        heir = Decisions(Failing(tmp_path, written=True), "L", 2)
        assert heir.close(5) is None
        with pytest.raises(PipelineFenced):
            Decisions(LocalStorage(tmp_path), "L", 1).decide(entry(5))

    def test_a_void_that_was_not_written_stops_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="the disk is away"):
            Decisions(Failing(tmp_path, written=False), "L", 2).close(5)

    def test_a_void_of_which_nothing_can_be_learned_stops_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="still away"):
            Decisions(Failing(tmp_path, written=False, read=False), "L", 2)._read(5, 0)
        with pytest.raises(CommitUnproven):
            Decisions(Failing(tmp_path, written=False, read=False), "L", 2).close(5)

    def test_a_decision_that_a_start_relies_on_is_synced_first(self, tmp_path: Path) -> None:
        """Its driver may have been killed between the link and the sync; a power cut must not undo it later."""
        Decisions(LocalStorage(tmp_path), "L", 1).decide(entry(5))
        storage = Failing(tmp_path, written=False)
        assert Decisions(storage, "L", 2).last() == entry(5)
        assert storage.synced == [file_of(5, 0)]
        with pytest.raises(OSError, match="not synced"):
            Decisions(Failing(tmp_path, written=False, sync=False), "L", 2).close(5)
