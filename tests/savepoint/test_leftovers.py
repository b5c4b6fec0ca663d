"""What restores that died have left in a home: cleared by the next one, and never what is in use or not ours."""

from dataclasses import replace
from pathlib import Path

import pytest

from epoch.started import Pipeline
from onceward.epoch import deeds
from onceward.epoch.contract import Guarantee
from onceward.epoch.deeds import Deed
from onceward.epoch.home import LINEAGES
from onceward.epoch.new_lineage import NewLineage
from onceward.epoch.starting import Start
from onceward.epoch.term import Holder, Term
from onceward.errors import PipelineFenced
from onceward.savepoint.manifest import load
from onceward.savepoint.restoring import Restoring
from savepoint.homes import HandMade, now, saved_home


class Restored:
    """A home into which its savepoint is restored, again and again."""

    def __init__(self, folder: Path) -> None:
        self.made: HandMade = saved_home(folder / "home")
        self.place = self.made.save(to=folder / "saved")
        self.storage = self.made.home.storage

    def enter(self, number: int) -> Term:
        deeds.enter(self.storage, number)
        holder = Holder(term=number, pipeline="p", host="here", machine="m", pid=1, process_start="1", since=now())
        return Term(self.storage, number, holder)

    def restore(self, term: Term) -> Deed:
        process = replace(Pipeline().process, fresh=lambda: f"{term.number:032x}")
        guarantee = Guarantee.EXACTLY_ONCE
        start = Start(home=self.made.home, pipeline="p", guarantee=guarantee, sinks={}, process=process)
        restoring = Restoring(place=self.place, savepoint=load(self.place), start=start, rewrite=lambda *_: 0)
        return NewLineage(start=start, begins=restoring)(term)

    def left_by(self, name: str) -> None:
        self.storage.replace(f"{LINEAGES}/{name}/checkpoints/000000/metadata", b"half of it")

    def lineages(self) -> list[str]:
        return self.storage.names(LINEAGES)


@pytest.fixture
def home(tmp_path: Path) -> Restored:
    return Restored(tmp_path)


def test_the_next_restore_clears_what_dead_ones_have_left(home: Restored) -> None:
    """E7: of every older term, the folders that no deed names."""
    first = home.restore(home.enter(1))
    home.left_by("000001-of-nobody")
    home.left_by("000002-died")
    home.left_by("000003-died")
    second = home.restore(home.enter(4))
    assert [f"{LINEAGES}/{name}" for name in home.lineages()] == [first.folder, second.folder]
    assert deeds.in_force(home.storage) == second


def test_what_a_newer_restore_is_laying_out_is_left_alone(home: Restored) -> None:
    """C6: by one that was paused, is overtaken, and wakes. What it has laid out itself the next one clears."""
    sleeper = home.enter(1)
    home.enter(2)
    home.left_by("000002-at-work")
    home.left_by("written-by-somebody-else")
    with pytest.raises(PipelineFenced, match="restore once more"):
        home.restore(sleeper)
    mine = f"000001-{1:032x}"
    assert home.lineages() == [mine, "000002-at-work", "written-by-somebody-else"]
    home.restore(home.enter(3))
    assert mine not in home.lineages()
