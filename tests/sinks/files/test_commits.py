"""Two that commit the same epoch at once: a paused driver wakes while its successor commits and goes on."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward.sinks.files import FileSink, markers
from onceward.sinks.files.target import Target
from onceward.testing.rehearsal import Prepared, Process, Rehearsal
from support.lake import all_end_well, committing_processes
from support.paused import once

Meddle = Callable[[], object]


def overtaken(rehearsal: Rehearsal, prepared: Prepared, meanwhile: Meddle = lambda: None) -> Meddle:
    """A successor commits the epoch and two more."""

    def go_on() -> None:
        heir = rehearsal.start()
        heir.commit(prepared)
        for epoch in (2, 3):
            heir.run(epoch, range(10 * epoch, 10 * epoch + 10))
        meanwhile()

    return go_on


@pytest.fixture
def woken(rehearse: Any) -> tuple[Rehearsal, Process, Prepared]:
    """A driver that has an epoch behind it and another decided."""
    rehearsal: Rehearsal = rehearse()
    zombie = rehearsal.start()
    zombie.run(0, range(10))
    return rehearsal, zombie, zombie.prepare(1, range(10, 20))


def require_untouched(rehearsal: Rehearsal, *parts: range) -> None:
    rehearsal.expect_visible(*parts, when="after a paused driver's late commit")
    heir = rehearsal.start()
    heir.expect_last_commit(3, "after a paused driver's late commit")
    heir.abort(4)
    rehearsal.expect_nothing_staged("after a paused driver's late commit, and abort() of what follows")
    heir.run(4, range(40, 50))
    rehearsal.expect_visible(*parts, range(40, 50), when="after the epoch that follows")


def test_a_driver_that_stood_still_before_its_rename_adds_nothing(
    woken: tuple[Rehearsal, Process, Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6: what it would rename is published."""
    rehearsal, zombie, prepared = woken
    monkeypatch.setattr(Target, "publish", once(Target.publish, overtaken(rehearsal, prepared)))
    zombie.commit(prepared)
    require_untouched(rehearsal, range(40))


def test_and_where_it_was_published_and_taken_away_it_is_not_missed(
    woken: tuple[Rehearsal, Process, Prepared], monkeypatch: pytest.MonkeyPatch, target: Path
) -> None:
    """People may archive what is published: then neither is there, and all is well."""
    rehearsal, zombie, prepared = woken

    def archive() -> None:
        for folder in target.glob("epoch=000000000001*"):
            shutil.rmtree(folder)

    monkeypatch.setattr(Target, "publish", once(Target.publish, overtaken(rehearsal, prepared, archive)))
    zombie.commit(prepared)
    require_untouched(rehearsal, range(10), range(20, 40))


def test_a_driver_that_stood_still_before_its_marker_does_not_set_it_back(
    woken: tuple[Rehearsal, Process, Prepared], monkeypatch: pytest.MonkeyPatch, staging: Path
) -> None:
    """J6: epochs that follow would be missed, and the pipeline stop."""
    rehearsal, zombie, prepared = woken
    monkeypatch.setattr(markers, "record", once(markers.record, overtaken(rehearsal, prepared)))
    zombie.commit(prepared)
    assert max(it.name for it in (staging / "committed").iterdir()).startswith("000001-000000000003-")
    require_untouched(rehearsal, range(40))


def test_processes_that_commit_at_once_publish_the_epoch_once(
    woken: tuple[Rehearsal, Process, Prepared], tmp_path: Path, staging: Path
) -> None:
    rehearsal, zombie, prepared = woken
    assert isinstance(zombie.sink, FileSink)
    go = tmp_path / "go"
    with committing_processes(zombie.sink, 1, prepared.committable, [2, 3, 4, 5], go) as processes:
        go.touch()
        all_end_well(processes)
    rehearsal.expect_visible(range(20), when="after four commits at once")
    rehearsal.expect_nothing_staged("after four commits at once")
    assert [it.name.rpartition("-")[0] for it in (staging / "committed").iterdir()] == ["000001-000000000001"]
