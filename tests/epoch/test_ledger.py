"""The ledger on a real directory: what it keeps, and that damage is named and never used."""

import re
from pathlib import Path
from random import Random

import msgspec
import pytest

from onceward.epoch.home import Deed
from onceward.epoch.ledger import RETAIN, Entry, Ledger, with_outcome
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import Holder
from onceward.errors import HomeMismatch, LedgerCorrupt
from onceward.kafka import marker

GOLDEN = Path(__file__).parent.parent / "golden"
MUTATIONS = 10_000
OUTCOME = Outcome.of(
    [(TopicPartition("out", 0), PartitionOutcome(2, 0xFEDC)), (TopicPartition("größe", 7), PartitionOutcome(1, 1))]
)
# What tests/golden/*-1.json hold: written by format 1, read by every build from now on.
ENTRY = with_outcome(
    Entry(
        pipeline="click-counts",
        lineage="3f2b8c1de0a94b53a7e6c9d1f0b2a4e8",
        term=2,
        epoch=41,
        phase="done",
        positions=['{"clicks":{"0":120,"1":98}}'],
        attempts=2,
        finished_at="2026-01-02T03:04:05.678+00:00",
        milliseconds={"write": 43.25, "commit": 2.5},
    ),
    OUTCOME,
)
DEED = Deed(pipeline="click-counts", lineage=ENTRY.lineage, guarantee="exactly-once")
HOLDER = Holder(
    term=2,
    pipeline="click-counts",
    host="worker-7",
    machine="boot/pid:[4026531836]",
    pid=4711,
    process_start="123456",
    since="2026-01-02T03:00:00+00:00",
)


def entry(epoch: int, term: int = 1, phase: str = "done") -> Entry:
    return msgspec.structs.replace(ENTRY, epoch=epoch, term=term, phase=phase)


def file_of(epoch: int, term: int = 1) -> str:
    return f"ledger/{epoch:012d}-{term:06d}.json"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def ledger_with(storage: LocalStorage, *entries: Entry, boundaries: dict[int, int] | None = None) -> Ledger:
    ledger = Ledger(storage, boundaries or {}, ENTRY.lineage)
    for one in entries:
        ledger.write(one)
    return ledger


class TestRoundTrip:
    def test_an_entry_is_read_as_it_was_written(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, ENTRY)
        assert ledger.read(41) == ENTRY
        assert ledger.read(41).outcome == OUTCOME  # type: ignore[union-attr]
        assert Ledger(storage, {}, ENTRY.lineage).last() == ENTRY

    def test_writing_an_entry_again_changes_nothing(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, ENTRY)
        before = storage.read(file_of(41, 2))
        ledger.write(ENTRY)
        assert storage.read(file_of(41, 2)) == before
        assert storage.names("ledger") == [file_of(41, 2).removeprefix("ledger/")]

    def test_an_empty_ledger_has_no_last_entry(self, storage: LocalStorage) -> None:
        assert Ledger(storage, {}, ENTRY.lineage).last() is None
        assert Ledger(storage, {}, ENTRY.lineage).read(0) is None

    def test_the_last_entry_is_that_of_the_phase_asked_for(self, storage: LocalStorage) -> None:
        """At-most-once notes an epoch before it writes it."""
        ledger = ledger_with(storage, entry(1), entry(2), entry(3, phase="started"))
        assert ledger.last() == entry(2)
        assert ledger.last("started") == entry(3, phase="started")

    def test_other_files_in_the_folder_are_passed_over(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(1))
        storage.replace("ledger/notes.txt", b"hello")
        storage.replace("ledger/000000000009.json", b"hello")
        assert ledger.last() == entry(1)


class TestDamage:
    """Proof, checkpoint: our files truncated, flipped, missing, swapped."""

    def test_ten_thousand_damaged_files_are_noticed_or_unharmed(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, ENTRY)
        name, random = file_of(41, 2), Random(2024)
        whole = storage.read(name)
        assert whole is not None
        noticed = unharmed = 0
        for _ in range(MUTATIONS):
            data = damaged(whole, random)
            (storage.root / name).write_bytes(data)
            try:
                found = ledger.read(41)
            except LedgerCorrupt as error:
                noticed += name in str(error)
            else:
                assert data == whole
                assert found == ENTRY
                unharmed += 1
        assert noticed + unharmed == MUTATIONS
        assert unharmed < 0.05 * MUTATIONS

    @pytest.mark.parametrize("bit", range(8))
    def test_one_flipped_bit_anywhere_is_noticed(self, bit: int) -> None:
        whole = seal(entry(3))
        for place in range(len(whole)):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            with pytest.raises(LedgerCorrupt, match="ledger/x is damaged"):
                unseal(bytes(flipped), Entry, "ledger/x", 1)

    def test_a_file_cut_short_anywhere_is_noticed(self) -> None:
        whole = seal(entry(3))
        for length in range(len(whole)):
            with pytest.raises(LedgerCorrupt, match=rf"ledger/x is damaged.*\({length} bytes\).*do not delete"):
                unseal(whole[:length], Entry, "ledger/x", 1)

    def test_a_damaged_newest_entry_is_not_skipped_for_an_older_one(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(1), entry(2))
        storage.replace(file_of(2), b"")
        with pytest.raises(LedgerCorrupt, match=re.escape(file_of(2))):
            ledger.last()

    def test_an_entry_of_another_lineage_is_named(self, storage: LocalStorage) -> None:
        ledger_with(storage, entry(1))
        with pytest.raises(LedgerCorrupt, match=r"000000000001-000001.json is of lineage .*swapped"):
            Ledger(storage, {}, "another").read(1)

    def test_swapped_entries_are_named(self, storage: LocalStorage) -> None:
        ledger = ledger_with(storage, entry(1), entry(2))
        first, second = storage.read(file_of(1)), storage.read(file_of(2))
        assert first is not None
        assert second is not None
        storage.replace(file_of(1), second)
        storage.replace(file_of(2), first)
        with pytest.raises(
            LedgerCorrupt, match=r"000000000001-000001.json holds epoch 2 of term 1: files were swapped"
        ):
            ledger.read(1)
        with pytest.raises(LedgerCorrupt, match="holds epoch 1 of term 1"):
            ledger.last()

    def test_an_entry_of_another_term_under_this_name_is_named(self, storage: LocalStorage) -> None:
        storage.replace(file_of(1, 2), seal(entry(1, term=1)))
        with pytest.raises(LedgerCorrupt, match="holds epoch 1 of term 1"):
            Ledger(storage, {}, ENTRY.lineage).read(1)

    def test_a_whole_file_of_another_kind_is_named(self, storage: LocalStorage) -> None:
        storage.replace(file_of(1), seal(DEED))
        with pytest.raises(LedgerCorrupt, match=r"000000000001-000001.json is whole, but holds no Entry.*swapped"):
            Ledger(storage, {}, ENTRY.lineage).read(1)

    def test_a_file_that_goes_away_while_it_is_read_is_named(self, tmp_path: Path) -> None:
        class Vanishing(LocalStorage):
            def read(self, name: str) -> bytes | None:  # noqa: ARG002
                return None

        ledger_with(LocalStorage(tmp_path), entry(1))
        with pytest.raises(LedgerCorrupt, match=r"000000000001-000001.json has disappeared"):
            Ledger(Vanishing(tmp_path), {}, ENTRY.lineage).read(1)


def damaged(whole: bytes, random: Random) -> bytes:
    """One of the ways in which a file goes wrong."""
    data, place = bytearray(whole), random.randrange(len(whole))
    match random.randrange(7):
        case 0:
            data[place] ^= 1 << random.randrange(8)
        case 1:
            del data[place:]
        case 2:
            del data[place : place + random.randrange(1, 40)]
        case 3:
            data[place:place] = random.randbytes(random.randrange(1, 20))
        case 4:  # may well write what stood there
            data[place] = random.randrange(256)
        case 5:  # two characters change places; may be equal ones
            other = random.randrange(len(whole))
            data[place], data[other] = data[other], data[place]
        case 6:  # a block reads as zeros
            data[place : place + 64] = bytes(len(data[place : place + 64]))
    return bytes(data)


class TestFormats:
    def test_a_newer_format_is_refused_and_both_numbers_are_named(self, storage: LocalStorage) -> None:
        storage.replace(file_of(1), seal(msgspec.structs.replace(entry(1), format=2)))
        with pytest.raises(HomeMismatch, match=r"format 2, written by a newer Onceward; this one reads up to 1"):
            Ledger(storage, {}, ENTRY.lineage).read(1)

    def test_a_newer_format_with_other_fields_is_refused_as_newer_not_as_damage(self) -> None:
        class Other(msgspec.Struct):
            format: int = 9
            something: str = "else"

        with pytest.raises(HomeMismatch, match="format 9"):
            unseal(seal(Other()), Entry, "ledger/x", 1)

    @pytest.mark.parametrize(
        ("file", "kind", "value"),
        [("ledger-1.json", Entry, ENTRY), ("deed-1.json", Deed, DEED), ("holder-1.json", Holder, HOLDER)],
        ids=["ledger", "deed", "holder"],
    )
    def test_files_of_format_1_are_read_by_this_build(
        self, file: str, kind: type[msgspec.Struct], value: msgspec.Struct
    ) -> None:
        assert unseal((GOLDEN / file).read_bytes(), kind, file, 1) == value

    def test_a_marker_of_format_1_is_read_by_this_build(self) -> None:
        found = marker.newest([(GOLDEN / "marker-1.json").read_text(encoding="utf-8")])
        assert found is not None
        assert (found.format, found.lineage, found.epoch, found.term) == (1, ENTRY.lineage, 41, 2)
        assert found.outcome == OUTCOME


class TestReplacedDrivers:
    """Decision 0004: a driver that was replaced may go on writing for a while."""

    def test_what_an_older_term_says_about_epochs_after_its_successors_start_is_passed_over(
        self, storage: LocalStorage
    ) -> None:
        ledger = ledger_with(storage, entry(5, 1), entry(6, 1), entry(7, 1), entry(6, 2), boundaries={1: -1, 2: 5})
        assert ledger.read(5) == entry(5, 1)
        assert ledger.read(6) == entry(6, 2)
        assert ledger.read(7) is None
        assert ledger.last() == entry(6, 2)

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
        """A replay in a later term records what the marker says about an epoch that the ledger missed."""
        ledger = ledger_with(storage, entry(5, 1), entry(5, 2), boundaries={2: 5})
        assert ledger.read(5) == entry(5, 2)


def test_the_ledger_keeps_its_last_entries_and_forgets_older_ones(tmp_path: Path) -> None:
    class Unsynced(LocalStorage):
        """2,300 fsyncs would prove nothing here."""

        def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:  # noqa: ARG002
            super().replace(name, data, sync=False)

    storage = Unsynced(tmp_path)
    ledger = Ledger(storage, {}, ENTRY.lineage)
    newest = 2 * RETAIN + 300
    for epoch in range(newest + 1):
        ledger.write(entry(epoch, term=1 + epoch // 700))
    kept = [int(name[:12]) for name in storage.names("ledger")]
    assert kept == list(range(newest - RETAIN, newest + 1))
    assert ledger.last() == entry(newest, 1 + newest // 700)
    assert ledger.read(newest - RETAIN) is not None
    assert ledger.read(newest - RETAIN - 1) is None
