"""Files that earlier builds wrote are read by this one, and files of later ones are refused."""

from pathlib import Path

import msgspec
import pytest

from epoch.samples import (
    DECISION_1,
    DEED,
    DEED_2,
    ENTRY_1,
    ENTRY_2,
    ENTRY_3,
    FILES_OUTCOME,
    HOLDER,
    LINEAGE,
    OUTCOME,
    SHAPE_1,
)
from onceward.epoch import decisions, deeds, ledger, query_shape, term
from onceward.epoch.decisions import Decisions, Slot
from onceward.epoch.deeds import Deed
from onceward.epoch.ledger import Entry, Ledger
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import Holder, Start
from onceward.errors import HomeMismatch
from onceward.kafka import marker

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = {
    "ledger-1.json": (Entry, ENTRY_1, ledger.FORMAT),
    "ledger-2.json": (Entry, ENTRY_2, ledger.FORMAT),
    "ledger-3.json": (Entry, ENTRY_3, ledger.FORMAT),
    "decision-1.json": (Slot, DECISION_1, decisions.FORMAT),
    "deed-1.json": (Deed, DEED, deeds.FORMAT),
    "deed-2.json": (Deed, DEED_2, deeds.FORMAT),
    "holder-1.json": (Holder, HOLDER, term.FORMAT),
    "query-1.json": (QueryShape, SHAPE_1, query_shape.FORMAT),
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_every_format_so_far_is_read_by_this_build(file: str) -> None:
    kind, value, newest = FILES[file]
    assert unseal((GOLDEN / file).read_bytes(), kind, file, newest) == value  # type: ignore[arg-type]


def test_every_format_so_far_has_a_file() -> None:
    """Whoever raises a format leaves one of the old ones here."""
    for name, newest in (
        ("ledger", ledger.FORMAT),
        ("decision", decisions.FORMAT),
        ("deed", deeds.FORMAT),
        ("holder", term.FORMAT),
        ("query", query_shape.FORMAT),
    ):
        assert [f"{name}-{number}.json" for number in range(1, newest + 1)] == sorted(
            file.name for file in GOLDEN.glob(f"{name}-*.json")
        )


def test_a_home_with_entries_of_both_formats_is_one_ledger(tmp_path: Path) -> None:
    """B1: a pipeline that was upgraded goes on in its home."""
    storage = LocalStorage(tmp_path)
    storage.replace("ledger/000000000041-000002.json", (GOLDEN / "ledger-1.json").read_bytes())
    found = Ledger(storage, {}, LINEAGE)
    assert found.last() == ENTRY_1
    assert found.read(41) == found.read_of(41, 2) == ENTRY_1
    newer = msgspec.structs.replace(ENTRY_2, epoch=42)
    found.write(newer)
    assert found.last() == newer
    assert found.newest(5) == [ENTRY_1, newer]


def test_an_entry_of_format_1_has_one_outcome_whatever_its_sink_is_called() -> None:
    """It knew one sink and had no name for it."""
    assert ENTRY_1.outcome_of("kafka") == ENTRY_1.outcome_of("anything") == OUTCOME
    assert ENTRY_1.sinks == {}


def test_an_entry_of_format_2_has_an_outcome_for_each_sink() -> None:
    assert ENTRY_2.outcome_of("kafka") == OUTCOME
    assert ENTRY_2.outcome_of("files") == FILES_OUTCOME
    assert ENTRY_2.outcome_of("added-later") is None


def test_a_decision_of_format_1_is_found_and_its_epoch_is_closed_to_others(tmp_path: Path) -> None:
    """B10: decided by an earlier build, finished by this one."""
    storage = LocalStorage(tmp_path)
    storage.replace("decisions/000000000042-000001.json", (GOLDEN / "decision-1.json").read_bytes())
    heir = Decisions(storage, LINEAGE, 4)
    assert DECISION_1.decided is not None
    assert heir.last() == heir.close(42) == msgspec.structs.replace(DECISION_1.decided, decider=None)


def test_up_to_format_2_the_word_ledger_is_the_ledger_unless_a_kafka_sink_has_that_name(tmp_path: Path) -> None:
    """Trap 25: words of ours and names of users share no namespace; old files are told apart by what they hold."""
    found = Ledger(LocalStorage(tmp_path), {}, LINEAGE)
    by_ledger = msgspec.structs.replace(ENTRY_2, decider="ledger", sinks={"ledger": ENTRY_2.sinks["files"]})
    by_sink = msgspec.structs.replace(ENTRY_2, epoch=42, decider="ledger", sinks={"ledger": ENTRY_2.sinks["kafka"]})
    newer = msgspec.structs.replace(ENTRY_3, epoch=43, decider="ledger")
    for entry in (by_ledger, by_sink, newer):
        found.write(entry)
    assert [entry.decider for entry in found.newest(3)] == [None, "ledger", "ledger"]


def test_a_start_without_what_it_resolved_is_read(tmp_path: Path) -> None:
    """As it was written before there was anything to resolve."""

    class Earlier(msgspec.Struct):
        format: int
        term: int
        after_epoch: int

    storage = LocalStorage(tmp_path)
    storage.replace("terms/000003.start", seal(Earlier(format=1, term=3, after_epoch=7)))
    assert term.starts(storage) == [Start(term=3, after_epoch=7, resolved=[])]
    assert term.boundaries(storage) == {3: 7}


def test_a_marker_of_format_1_is_read_by_this_build() -> None:
    found = marker.newest([(GOLDEN / "marker-1.json").read_text(encoding="utf-8")])
    assert found is not None
    assert (found.format, found.lineage, found.epoch, found.term) == (1, LINEAGE, 41, 2)
    assert found.outcome == OUTCOME


def test_a_newer_format_is_refused_and_both_numbers_are_named(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.replace("ledger/000000000041-000002.json", seal(msgspec.structs.replace(ENTRY_2, format=4)))
    with pytest.raises(HomeMismatch, match=r"format 4, written by a newer Onceward; this one reads up to 3"):
        Ledger(storage, {}, LINEAGE).read(41)


def test_a_newer_format_with_other_fields_is_refused_as_newer_not_as_damage() -> None:
    class Other(msgspec.Struct):
        format: int = 9
        something: str = "else"

    with pytest.raises(HomeMismatch, match="format 9"):
        unseal(seal(Other()), Entry, "ledger/x", ledger.FORMAT)
