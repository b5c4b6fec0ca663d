"""What an ended pipeline's checkpoint is kept for, whatever its policy says: without Spark, at moments of their own."""

import logging

import pytest

from epoch.memory import Meanwhile
from epoch.started import Driver, Pipeline
from onceward.epoch import deeds
from onceward.epoch.sealed import seal
from onceward.epoch.stop_request import StopRequest
from onceward.epoch.term import Holder
from onceward.errors import SavepointUnusable
from onceward.savepoint import pins
from onceward.savepoint.creating import create
from onceward.savepoint.pins import Note
from onceward.savepoint.retaining import settle

ELSEWHERE = Holder(
    term=0, pipeline="p", host="h2", machine="another", pid=7, process_start="1", since="2026-01-02T03:04:05"
)


@pytest.fixture
def storage() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def pipeline(storage: Meanwhile) -> Pipeline:
    return Pipeline(storage=storage)


@pytest.fixture
def driver(pipeline: Pipeline) -> Driver:
    driver = pipeline.start()
    driver.run(0, "a")
    driver.end()
    return driver


def end(driver: Driver) -> list[str]:
    """Its last step; the folders that are deleted."""
    deleted: list[str] = []
    settle(driver.opened, driver.runner, None, "never", deleted.append, saves=False, now=lambda: "noon")
    return deleted


def begins_a_savepoint(storage: Meanwhile) -> None:
    note = Note(id="0123456789abcdef", holder=ELSEWHERE)
    storage.files[f"{pins.FOLDER}/{note.id}.json"] = seal(note)


def test_nobody_needs_it_and_it_is_dropped(pipeline: Pipeline, driver: Driver) -> None:
    assert end(driver) == [driver.taken.checkpoint.location]
    assert deeds.ended(pipeline.storage) is not None
    pipeline.storage.clear(driver.taken.checkpoint.folder)
    with pytest.raises(SavepointUnusable, match=r"ended after epoch 0.*so there is nothing to save"):
        create(pipeline.home, now=lambda: "noon", sleep=lambda _: None)


def test_a_stop_for_a_savepoint_that_nobody_has_heard_counts(
    storage: Meanwhile, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """E5: the query ended by itself just then, and whoever asked takes that for the answer."""
    storage.files["requests/stop-000001.json"] = seal(StopRequest(term=1, by="a person", at="noon"))
    assert end(driver) == []
    assert "a savepoint is to be made of it" in caplog.text


def test_a_savepoint_that_is_being_made_keeps_it_and_its_maker_is_named(
    storage: Meanwhile, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """E5: a maker that cannot be seen from here may live, and a person must know what to remove if he does not."""
    begins_a_savepoint(storage)
    with caplog.at_level(logging.WARNING):
        assert end(driver) == []
    assert "process 7 on h2" in caplog.text
    assert "if it is gone, remove pins/0123456789abcdef of the home" in caplog.text


def test_a_savepoint_that_is_begun_while_the_pipeline_ends_finds_what_it_needs(
    storage: Meanwhile, driver: Driver
) -> None:
    """E5: nobody was making one when that was asked."""
    storage.at(".lineage", lambda: begins_a_savepoint(storage))
    assert end(driver) == []
    assert deeds.ended(storage) is not None, "nobody starts from it any more"


def test_one_that_is_asked_for_while_the_pipeline_ends_finds_what_it_needs(storage: Meanwhile, driver: Driver) -> None:
    """E5: as above, by a stop that came too late to be heard."""
    request = seal(StopRequest(term=1, by="a person", at="noon"))
    storage.at(".lineage", lambda: storage.files.update({"requests/stop-000001.json": request}))
    assert end(driver) == []
