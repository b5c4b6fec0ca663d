"""Which lineage is in force: slots that one term fills and every later one closes."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from onceward.epoch import deeds
from onceward.epoch.deeds import FILE, Deed
from onceward.epoch.home import Home
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.errors import HomeMismatch, LedgerCorrupt, PipelineFenced
from onceward.proof.simulation.disk import Disk, Mount

EXACTLY = "exactly-once"


def other(lineage: str) -> Deed:
    return Deed(pipeline="p", lineage=lineage, guarantee=EXACTLY, folder=f"lineages/{lineage}")


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    Home.at(tmp_path).open("p", EXACTLY, "first")
    return LocalStorage(tmp_path)


def test_without_a_restore_the_first_lineage_stays_in_force(storage: LocalStorage) -> None:
    for term in range(1, 5):
        deed = deeds.enter(storage, term)
        assert deed is not None
        assert deed.lineage == "first"
    assert storage.names("terms") == ["000001.lineage", "000002.lineage", "000003.lineage"]


def test_a_lineage_begins_with_its_term_and_stays_in_force(storage: LocalStorage) -> None:
    """E8: every later start finds it, however many there are."""
    deeds.enter(storage, 2)
    deeds.begin(storage, 2, other("second"))
    assert deeds.in_force(storage) == other("second")
    for term in range(3, 7):
        assert deeds.enter(storage, term) == other("second")
    deeds.begin(storage, 6, other("third"))
    assert deeds.enter(storage, 9) == deeds.in_force(storage) == other("third")


def test_a_restore_that_was_paused_and_overtaken_changes_nothing(storage: LocalStorage) -> None:
    """E8, C6: its successor has closed its slot, so that the two never run under different lineages."""
    deeds.enter(storage, 1)
    assert deeds.enter(storage, 2) is not None
    with pytest.raises(PipelineFenced, match="Nothing has changed"):
        deeds.begin(storage, 1, other("second"))
    assert deeds.enter(storage, 3) == deeds.first(storage)


def test_a_term_that_died_before_it_closed_its_predecessors_slot_is_made_up_for(storage: LocalStorage) -> None:
    deeds.begin(storage, 1, other("second"))
    assert deeds.enter(storage, 5) == other("second")
    assert len(storage.names("terms")) == 4


def test_a_home_that_begins_with_a_savepoint_is_opened_like_any_other(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    assert home.deed() is None
    deeds.begin(home.storage, 1, other("second"))
    assert not (tmp_path / FILE).exists()
    assert home.open("p", EXACTLY, "fresh") == home.deed() == other("second")
    with pytest.raises(HomeMismatch, match="is the home of pipeline 'p'"):
        home.open("q", EXACTLY, "fresh")
    assert home.of_lineage(other("second")).location == f"{tmp_path}/lineages/second"


def ended(epoch: int = 7) -> deeds.Ended:
    return deeds.Ended(epoch=epoch, reason="stopped", retain="never", at="noon")


@pytest.mark.parametrize("restored", [False, True])
def test_a_pipeline_that_has_ended_for_good_stays_so_until_another_lineage_begins(
    storage: LocalStorage, restored: bool
) -> None:
    """E5: however many starts are refused meanwhile, and whichever lineage it was."""
    if restored:
        deeds.begin(storage, 1, other("second"))
    deeds.enter(storage, 3)
    assert deeds.ended(storage) is None
    assert deeds.end(storage, 3, ended())
    for term in range(4, 8):
        deed = deeds.enter(storage, term)
        assert deed is not None
        assert deed.lineage == ("second" if restored else "first")
        assert deeds.in_force(storage) == deed
        assert deeds.ended(storage) == ended()
    deeds.begin(storage, 7, other("third"))
    assert deeds.ended(storage) is None
    assert deeds.enter(storage, 9) == other("third")


def test_a_pipeline_that_was_started_meanwhile_is_not_ended(storage: LocalStorage) -> None:
    """E5, C6: its slot is closed; whoever wanted to drop the checkpoint leaves it alone."""
    deeds.enter(storage, 2)
    deeds.enter(storage, 3)
    assert not deeds.end(storage, 2, ended())
    assert deeds.ended(storage) is None


def test_how_a_pipeline_has_ended_is_told() -> None:
    assert str(ended()) == "ended after epoch 7, at noon (stopped), with retain='never': its checkpoint is gone"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s.replace("terms/000002.lineage", b"x"), "terms/000002.lineage is damaged"),
        (lambda s: s.remove("terms/000001.lineage"), "terms/000001.lineage is missing"),
        (lambda s: s.replace("terms/000002.lineage", s.read("terms/000001.lineage")), "is of term 1, since 0: files"),
        (lambda s: s.replace("terms/000002.lineage", seal(deeds.Slot(term=2, since=2))), "is of term 2, since 2"),
        (
            lambda s: s.replace("terms/000001.lineage", seal(deeds.Slot(term=1))),
            "refers to terms/000001.lineage, which has no deed",
        ),
    ],
)
def test_a_damaged_slot_is_named(storage: LocalStorage, damage: object, message: str) -> None:
    """E9: nothing is guessed about which lineage counts."""
    deeds.begin(storage, 1, other("second"))
    deeds.enter(storage, 3)
    assert callable(damage)
    damage(storage)
    with pytest.raises(LedgerCorrupt, match=message):
        deeds.in_force(storage)


@pytest.mark.parametrize("folder", ["", "../elsewhere", "lineages/..", "lineages/a/../../b", "/etc"])
def test_a_deed_that_leads_out_of_the_home_is_refused(storage: LocalStorage, folder: str) -> None:
    """A home is data: whoever can write to it must not choose where else we read and write."""
    forged = msgspec.structs.replace(other("second"), folder=folder)
    storage.replace("terms/000001.lineage", seal(deeds.Slot(term=1, deed=forged)))
    with pytest.raises(LedgerCorrupt, match="which is none: it was forged"):
        deeds.enter(storage, 2)
    if folder:
        storage.remove("terms/000001.lineage")
        storage.replace(FILE, seal(forged))
        with pytest.raises(LedgerCorrupt, match="and has none: it was forged"):
            deeds.in_force(storage)


def test_a_lineage_that_was_begun_and_not_synced_lasts_once_somebody_goes_on_with_it() -> None:
    """E8: killed between the claim and its sync; what the next driver commits under it must not outlive it."""
    disk = Disk()
    storage = Mount(disk, lambda *_: "", lambda *_: None)
    Home(storage, "home", "home").open("p", EXACTLY, "first")
    disk.put("terms/000001.lineage", seal(deeds.Slot(term=1, deed=other("second"))))
    assert deeds.enter(storage, 2) == other("second")
    for seed in range(8):
        disk.cut_power(Random(seed))
    assert deeds.in_force(storage) == other("second")
