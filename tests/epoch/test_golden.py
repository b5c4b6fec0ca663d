"""Files as this format has them: whoever changes it raises its number, and leaves the old file here."""

from pathlib import Path

import msgspec
import pytest

from epoch.samples import DECISION, DEED, ENTRY, HOLDER, LINEAGE, OUTCOME, SHAPE, SLOT, START
from onceward.epoch import decisions, deeds, ledger, query_shape, term
from onceward.epoch.decisions import Slot
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
    "ledger": (Entry, ENTRY, ledger.FORMAT),
    "decision": (Slot, DECISION, decisions.FORMAT),
    "deed": (Deed, DEED, deeds.FORMAT),
    "slot": (deeds.Slot, SLOT, deeds.FORMAT),
    "holder": (Holder, HOLDER, term.FORMAT),
    "start": (Start, START, term.FORMAT),
    "query": (QueryShape, SHAPE, query_shape.FORMAT),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_every_format_so_far_is_read_by_this_build(name: str) -> None:
    kind, value, newest = FILES[name]
    assert newest == 1, "whoever raises it adds the old sample here"
    data = (GOLDEN / f"{name}-1.json").read_bytes()
    assert unseal(data, kind, name, newest) == value  # type: ignore[arg-type]
    assert seal(value) == data, "what is written has changed: that is another format"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FILES)
def test_every_format_so_far_has_a_file(name: str) -> None:
    newest = FILES[name][2]
    there = sorted(file.name for file in GOLDEN.glob(f"{name}-*.json"))
    assert there == [f"{name}-{number}.json" for number in range(1, newest + 1)]


def test_a_marker_of_format_1_is_read_by_this_build() -> None:
    found = marker.newest([(GOLDEN / "marker-1.json").read_text(encoding="utf-8")])
    assert found is not None
    assert (found.format, found.lineage, found.epoch, found.term) == (1, LINEAGE, 41, 2)
    assert found.outcome == OUTCOME


def test_a_newer_format_is_refused_and_both_numbers_are_named(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.replace("ledger/000000000041-000002.json", seal(msgspec.structs.replace(ENTRY, format=4)))
    with pytest.raises(HomeMismatch, match=r"format 4, written by a newer Onceward; this one reads up to 1"):
        Ledger(storage, {}, LINEAGE).read(41)


def test_a_newer_format_with_other_fields_is_refused_as_newer_not_as_damage() -> None:
    class Other(msgspec.Struct):
        format: int = 9
        something: str = "else"

    with pytest.raises(HomeMismatch, match="format 9"):
        unseal(seal(Other()), Entry, "ledger/x", ledger.FORMAT)
