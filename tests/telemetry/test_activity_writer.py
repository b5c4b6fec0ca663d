"""What a driver leaves about what it does: soon, bounded, without secrets, and never at an epoch's cost."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from onceward.epoch.observing import AbortedTry, Asked, Course, Onlookers, Step
from onceward.errors import PipelineFenced
from onceward.telemetry import activity, activity_writer
from onceward.telemetry.activity import Activity, Event, SinkActivity
from onceward.telemetry.activity_writer import ActivityWriter, Now
from onceward.watching.sight import Sight
from support.clocks import MONOTONIC
from support.waiting import eventually


class Driver:
    """A driver as its writer sees it."""

    def __init__(self, home: Path, term: int = 1) -> None:
        self.home, self.term = home, term
        self.clock = MONOTONIC
        self.now = Now()
        self.sight = Sight(pipeline="p", guarantee="exactly-once", at=MONOTONIC)
        self.writer = ActivityWriter(
            home,
            pipeline="p",
            term=term,
            pid=7,
            host="here",
            sinks=[SinkActivity(name="kafka", kind="x:KafkaSink", decides=True)],
            clock=lambda: self.clock,
        )

    def run(self) -> "Driver":
        self.writer.runs(lambda: self.sight, lambda: self.now)
        self.writer.started()
        return self

    def said(self) -> Activity:
        found = activity.parsed((self.home / activity.file_of(self.term)).read_bytes())
        assert found is not None
        return found

    def events(self) -> list[Event]:
        file = self.home / activity.events_of(self.term)
        return activity.parsed_events(file.read_bytes() if file.exists() else None)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_writer, "TICK_S", 0.01)
    monkeypatch.setattr(activity_writer, "LOOK_S", 0.0)


def until(condition: Any, what: str) -> None:
    eventually(condition, what, 10, 0.005)


def test_what_runs_is_told_step_by_step_and_by_the_time_of_day(tmp_path: Path) -> None:
    """I2."""
    driver = Driver(tmp_path).run()
    course = Course(5, MONOTONIC)
    course.try_at(MONOTONIC + 1.0)
    course.try_at(102.0)
    course.steps.append(Step("begin", "kafka", 102.0, 102.25))
    course.asked = Asked("write", "kafka", 102.25)
    driver.now = Now(running=5, course=course, epochs_committed=5, rows_read=50, rows_written=(("kafka", 9),))
    until(lambda: driver.said().epoch == 5, "the running epoch")
    said = driver.said()
    assert (said.state, said.attempt, said.in_doubt, said.rows_written) == ("running", 2, None, {"kafka": 9})
    assert [(it.name, it.sink, it.ended_at is None) for it in said.steps] == [
        ("begin", "kafka", False),
        ("write", "kafka", True),
    ]
    assert said.began_at == said.steps[0].began_at
    course.voted = 103.0
    until(lambda: driver.said().in_doubt == 5, "from its votes on it may be decided")
    driver.writer.ended(None)


def test_a_course_of_another_epoch_is_not_taken_for_the_running_one(tmp_path: Path) -> None:
    """A replay has none: the last one is of the epoch before."""
    driver = Driver(tmp_path).run()
    driver.now = Now(running=6, replaying=True, course=Course(5, MONOTONIC))
    until(lambda: driver.said().epoch == 6, "the running epoch")
    assert (driver.said().state, driver.said().steps) == ("replaying", [])
    driver.writer.ended(None)


def test_what_spark_reports_is_told(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    operators = [{"numRowsTotal": 3, "memoryUsedBytes": 40, "customMetrics": {"rocksdbSstFileSize": 2}}]
    sources = [{"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 5}}}]
    driver.sight = Sight(
        pipeline="p", guarantee="", at=MONOTONIC, progress={"stateOperators": operators, "sources": sources}
    )
    driver.run()
    until(lambda: driver.said().state_rows == 3, "Spark's report")
    assert (driver.said().state_bytes, driver.said().lag) == (42, {"t": 4})
    driver.writer.ended(None)


def test_what_is_waited_for_is_told_without_secrets(tmp_path: Path) -> None:
    """I4, J4."""
    driver = Driver(tmp_path).run()
    driver.now = Now(running=1, waits_for="sink 'db': host=db password=geheim refused")
    until(lambda: driver.said().state == "waiting", "that it waits")
    driver.writer.aborted(1, AbortedTry(1, "SinkUnreachable", "postgresql://me:geheim@db/x", MONOTONIC + 1.0))
    driver.writer.ended(RuntimeError("token=geheim"))
    assert driver.said().last_error == "token=***"
    assert b"geheim" not in b"".join(file.read_bytes() for file in (tmp_path / "activity").iterdir())


def test_aborted_tries_and_the_end_are_kept_as_events(tmp_path: Path) -> None:
    driver = Driver(tmp_path).run()
    driver.writer.aborted(4, AbortedTry(2, "SinkUnreachable", "no answer\n  at all", MONOTONIC + 1.0))
    driver.writer.ended(PipelineFenced("taken over"))
    assert [(it.kind, it.epoch, it.attempt, it.cause, it.reason) for it in driver.events()] == [
        ("started", None, None, "", ""),
        ("aborted", 4, 2, "SinkUnreachable", "no answer at all"),
        ("fenced", None, None, "PipelineFenced", "taken over"),
    ]
    assert (driver.said().state, driver.said().last_error) == ("fenced", "taken over")
    assert driver.said().ended_at is not None


@pytest.mark.parametrize(("failure", "state"), [(None, "stopped"), (RuntimeError("x"), "failed")])
def test_the_end_is_told(tmp_path: Path, failure: Exception | None, state: str) -> None:
    driver = Driver(tmp_path).run()
    driver.writer.ended(failure)
    assert (driver.said().state, driver.said().epoch, driver.said().steps) == (state, None, [])


def test_a_query_that_ended_and_that_nobody_has_closed_is_told_as_ended(tmp_path: Path) -> None:
    driver = Driver(tmp_path).run()
    driver.sight = Sight(pipeline="p", guarantee="", at=MONOTONIC, active=False, failure="out of disk")
    until(lambda: driver.said().state == "failed", "that it failed")
    assert driver.said().last_error == "out of disk"
    driver.writer.ended(None)


def test_a_driver_that_stood_still_says_so_when_it_wakes_up(tmp_path: Path) -> None:
    driver = Driver(tmp_path).run()
    until(driver.events, "its first event")
    driver.clock += 60
    until(lambda: driver.events()[-1].kind == "paused", "that it was paused")
    assert "stood still for 60 s" in driver.events()[-1].reason
    driver.writer.ended(None)


def test_what_has_not_changed_is_not_written_again_but_for_a_sign_of_life(tmp_path: Path) -> None:
    driver = Driver(tmp_path).run()
    file = tmp_path / activity.file_of(1)
    until(lambda: driver.said().state == "running", "that it runs")
    ticks = iter(range(1000))
    seen, count = file.stat().st_ino, next(ticks)
    driver.writer.runs(lambda: driver.sight, lambda: (next(ticks), driver.now)[1])
    until(lambda: next(ticks) > count + 20, "twenty looks later")
    assert file.stat().st_ino == seen
    driver.clock += activity.BEAT_S
    until(lambda: file.stat().st_ino != seen, "a sign of life")
    driver.writer.ended(None)


def test_events_are_bounded_and_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "EVENTS_BYTES", 5000)
    driver = Driver(tmp_path).run()
    for number in range(1000):
        driver.writer.aborted(number, AbortedTry(1, "X", "r" * 2000, MONOTONIC))
        if number % 50 == 0:
            until(lambda: not driver.writer._events, "that they are written")
    driver.writer.ended(None)
    assert (tmp_path / activity.events_of(1)).stat().st_size < 300_000
    assert driver.events()[-1].kind == "stopped"
    assert driver.events()[-2].epoch == 999


def test_only_the_last_terms_are_kept(tmp_path: Path) -> None:
    for term in range(1, 30):
        Driver(tmp_path, term).run().writer.ended(None)
    left = sorted({int(file.name[:6]) for file in (tmp_path / "activity").iterdir()})
    assert left == list(range(10, 30))


def test_an_observer_that_cannot_write_fails_no_epoch_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """I2: the home is gone, and is not made again."""
    driver = Driver(tmp_path / "home") if (tmp_path / "home").mkdir() is None else None
    assert driver is not None
    onlookers = Onlookers([driver.run().writer])
    shutil.rmtree(tmp_path / "home")
    with caplog.at_level(logging.WARNING, "onceward"):
        for number in range(5):
            onlookers.aborted(number, AbortedTry(1, "X", "x", MONOTONIC))
            driver.now = Now(running=number)
            until(lambda: not driver.writer._events, "that it was tried")
        onlookers.ended(None)
    assert [getattr(it, "event", "") for it in caplog.records] == ["telemetry_failed"]
    assert not (tmp_path / "home").exists()


def test_an_end_does_not_wait_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_writer, "END_S", 0.05)
    driver = Driver(tmp_path).run()
    pipe = tmp_path / activity.events_of(1)
    until(driver.events, "its first event")
    pipe.unlink()
    os.mkfifo(pipe)  # whoever opens it waits for a reader
    driver.writer.ended(None)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # let the thread go
    driver.writer._thread.join(10)  # type: ignore[union-attr]
    os.close(reader)


def test_only_files_of_its_own_term_are_written(tmp_path: Path) -> None:
    """C6: a driver that was overtaken disturbs nobody."""
    old, new = Driver(tmp_path, 1).run(), Driver(tmp_path, 2).run()
    until(lambda: new.said().state == "running" and new.events(), "the newer one")
    new.writer.ended(None)
    before = (tmp_path / activity.file_of(2)).read_bytes()
    old.writer.ended(PipelineFenced("taken over"))
    assert (tmp_path / activity.file_of(2)).read_bytes() == before
    assert (old.said().state, new.said().state) == ("fenced", "stopped")
    names = {file.name for file in (tmp_path / "activity").iterdir()}
    assert names == {"000001.json", "000001.events.jsonl", "000002.json", "000002.events.jsonl"}
