"""What an epoch looked up is one file: claimed once, checked when it is read, gone when nobody can ask for it."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from onceward.epoch.storage import LocalStorage
from onceward.errors import HomeMismatch, LedgerCorrupt, LookupUnusable, PipelineFenced
from onceward.lookups import kept
from onceward.lookups.kept import KeptLookups

GOLDEN = Path(__file__).parents[1] / "golden"
LINEAGE = "0123456789abcdef"
HERE = ['{"t":{"0":41}}']
FURTHER = ['{"t":{"0":42}}']
TABLES = {
    "ads": pa.table({"ad": ["a", None, "ü"], "weight": pa.array([1, 2, None], pa.int16())}),
    "prices": pa.table(
        {
            "price": pa.array([Decimal("12.30"), None], pa.decimal128(12, 2)),
            "since": pa.array([datetime(2026, 11, 15, 1, 2, 3, 4, UTC), None], pa.timestamp("us", "UTC")),
            "day": pa.array([None, date(2026, 11, 15)], pa.date32()),
        }
    ),
    "nothing": pa.schema([("id", pa.string()), ("at", pa.timestamp("us"))]).empty_table(),
}


def prices(value: int) -> dict[str, pa.Table]:
    return {"prices": pa.table({"price": [value]})}


@pytest.fixture
def home(tmp_path: Path) -> KeptLookups:
    return KeptLookups(LocalStorage(tmp_path), str(tmp_path), LINEAGE)


def files(root: Path) -> list[Path]:
    return sorted((root / "lookups").iterdir())


def test_what_is_kept_is_what_was_read_types_and_empty_tables_too(home: KeptLookups) -> None:
    assert home.read(7, HERE) is None
    first = home.keep(7, HERE, TABLES)
    again = home.read(7, HERE)
    assert again is not None
    for name, table in TABLES.items():
        assert first[name].equals(table)
        assert again[name].equals(table)
        assert again[name].schema == table.schema


def test_the_first_claim_wins_also_for_a_driver_that_read_earlier_and_slept(tmp_path: Path) -> None:
    """F6, C6: a zombie and its successor make the epoch of the same rows, whoever comes first."""
    zombie, successor = (KeptLookups(LocalStorage(tmp_path), str(tmp_path), LINEAGE) for _ in range(2))
    read_before_it_slept = prices(1)
    assert successor.keep(7, HERE, prices(2)) == prices(2)
    assert zombie.keep(7, HERE, read_before_it_slept) == prices(2)
    assert successor.read(7, HERE) == prices(2)


def test_a_driver_that_slept_until_its_epoch_was_cleared_away_is_fenced(home: KeptLookups, tmp_path: Path) -> None:
    home.keep(7, HERE, prices(2))

    class Slow(LocalStorage):
        """Its successor clears up between a lost claim and the look at who won."""

        def claim(self, name: str, data: bytes) -> bool:
            claimed = super().claim(name, data)
            home.forget(7 + kept.RETAIN)
            return claimed

    with pytest.raises(PipelineFenced, match="another driver"):
        KeptLookups(Slow(tmp_path), str(tmp_path), LINEAGE).keep(7, HERE, prices(1))


def test_rows_of_a_plan_that_was_lost_are_not_for_another_plan(home: KeptLookups) -> None:
    """A power cut took the plan out of Spark's log; the new one has records that arrived after the rows were read."""
    home.keep(7, HERE, prices(1))
    assert home.read(7, FURTHER) is None
    assert home.keep(7, FURTHER, prices(2)) == prices(2)
    assert home.read(7, HERE) == prices(1)


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "longer"])
def test_a_damaged_file_is_named_and_never_used(home: KeptLookups, tmp_path: Path, damage: str) -> None:
    """E9, F6: and the database is not asked instead."""
    home.keep(7, HERE, TABLES)
    (file,) = files(tmp_path)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    ways = {"flipped": bytes(data), "cut": file.read_bytes()[:-9], "emptied": b"", "longer": file.read_bytes() + b"\n"}
    file.write_bytes(ways[damage])
    with pytest.raises(LedgerCorrupt, match=rf"{file} is damaged.*epoch 7.*backup.*move it away"):
        home.read(7, HERE)
    with pytest.raises(LedgerCorrupt, match=file.name):
        home.keep(7, HERE, TABLES)


def test_a_file_of_another_epoch_or_lineage_is_noticed(home: KeptLookups, tmp_path: Path) -> None:
    home.keep(7, HERE, TABLES)
    (file,) = files(tmp_path)
    file.rename(file.with_name(file.name.replace("07-", "08-")))
    with pytest.raises(LedgerCorrupt, match="swapped"):
        home.read(8, HERE)
    with pytest.raises(LedgerCorrupt, match="swapped"):
        KeptLookups(LocalStorage(tmp_path), str(tmp_path), "another").read(8, HERE)


def test_clearing_up_leaves_the_last_ten_epochs_and_files_of_others(home: KeptLookups, tmp_path: Path) -> None:
    for epoch in range(15):
        home.keep(epoch, HERE, prices(epoch))
    home.keep(3, FURTHER, prices(3))
    (tmp_path / "lookups" / "notes.txt").write_text("somebody's")
    home.forget(13)  # 14 has begun
    assert [epoch for epoch in range(15) if home.read(epoch, HERE) is not None] == list(range(4, 15))
    assert home.read(3, FURTHER) is None
    assert (tmp_path / "lookups" / "notes.txt").exists()


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"ads": [("a", 1)]}, "pyarrow tables by name; 'ads' is a list"),
        ({"ads": pa.table([[1], [2]], names=["id", "id"])}, "'ads' has several columns named 'id'"),
        ({"ads": pa.table({})}, "'ads' has no columns"),
    ],
)
def test_what_is_no_table_is_refused(home: KeptLookups, tables: dict[str, object], why: str) -> None:
    with pytest.raises(LookupUnusable, match=why):
        home.keep(0, HERE, tables)


def test_a_file_of_every_format_so_far_is_read_and_a_later_one_refused() -> None:
    for number in range(1, kept.FORMAT + 1):
        data = (GOLDEN / f"lookup-{number}.arrow").read_bytes()
        assert kept.decode(data, "golden", LINEAGE, 41) == TABLES
    body = b'{"format":99}\n'
    with pytest.raises(HomeMismatch, match="format 99"):
        kept.decode(body + kept._checksum(body), "later", LINEAGE, 41)
