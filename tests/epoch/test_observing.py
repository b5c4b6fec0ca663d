# ruff: noqa: ARG002 - sinks and observers take what their contract says
"""Who looks on is told each aborted try and each committed epoch, once, and can harm nothing."""

import logging
from typing import Any

import pytest

from epoch.started import Driver, ListDecider, ListSink, Pipeline, Place
from onceward.epoch.contract import EpochContext, Guarantee, Verdict
from onceward.epoch.ledger import Entry
from onceward.epoch.observing import AbortedTry, Asked, Course, Observer, Onlookers
from onceward.errors import EpochFailed, HomeMismatch, InvalidRows, SinkUnreachable
from support.clocks import MONOTONIC


class Seen(Observer):
    """Remembers everything."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.courses: list[Course] = []
        self.tries: list[AbortedTry] = []
        self.failures: list[tuple[int, Course | None, BaseException]] = []
        self.rest: list[object] = []

    def started(self) -> None:
        self.rest.append("started")

    def aborted(self, epoch: int, tried: AbortedTry) -> None:
        self.tries.append(tried)

    def committed(self, entry: Entry, course: Course) -> None:
        self.entries.append(entry)
        self.courses.append(course)

    def failed(self, epoch: int, course: Course | None, error: BaseException) -> None:
        self.failures.append((epoch, course, error))

    def ended(self, failure: BaseException | None) -> None:
        self.rest.append(failure)


def watched(pipeline: Pipeline, *observers: Observer) -> Driver:
    driver = pipeline.start()
    driver.runner.observer = driver.taken.coordinator.observer = Onlookers(observers)
    return driver


class Slow(ListSink):
    """Every step takes a second."""

    pipeline: Pipeline

    def begin(self, context: EpochContext) -> None:
        super().begin(context)
        self.pipeline.now += 1

    def pre_commit(self, *args: Any) -> Any:
        self.pipeline.now += 1
        return super().pre_commit(*args)

    def commit(self, *args: Any) -> None:
        self.pipeline.now += 1
        super().commit(*args)


class Stumbles(ListSink):
    """Fails as often as is said."""

    errors: list[Exception]

    def write(self, context: EpochContext, rows: list[str]) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return super().write(context, rows)


def test_each_committed_epoch_is_told_once_and_a_replay_is_not() -> None:
    """I2: so a histogram has each epoch once, however rarely somebody asks."""
    pipeline, seen = Pipeline(), Seen()
    driver = watched(pipeline, seen)
    for epoch in range(3):
        driver.run(epoch, "a")
    driver.runner.close()
    again = watched(pipeline, seen)
    again.run(2, "a")
    assert [it.epoch for it in seen.entries] == [0, 1, 2]


def test_the_course_of_an_epoch_has_the_times_of_its_real_steps() -> None:
    pipeline, seen = Pipeline(kind=Slow, decides=True, others={"t": Place()}), Seen()
    Slow.pipeline = pipeline
    driver = watched(pipeline, seen)
    driver.run(0, "a")
    course = seen.courses[0]
    steps = [(it.name, it.sink, it.began - MONOTONIC, it.ended - MONOTONIC) for it in course.steps]
    assert steps == [
        ("begin", "t", 0, 1), ("begin", "s", 1, 2), ("write", "t", 2, 2), ("write", "s", 2, 2),
        ("pre_commit", "t", 2, 3), ("pre_commit", "s", 3, 4), ("decide", "s", 4, 4), ("commit", "t", 4, 5),
    ]  # fmt: skip
    assert (course.tried, course.voted, course.decided) == (MONOTONIC, MONOTONIC + 4, MONOTONIC + 4)
    assert not course.in_doubt
    (entry,) = seen.entries
    assert entry.milliseconds == {"vote": 4000.0, "decide": 0.0, "commit": 2000.0}  # the decider is asked too
    assert entry.sinks["t"].milliseconds == {"begin": 1000.0, "write": 0.0, "pre_commit": 1000.0, "commit": 1000.0}
    assert entry.sinks["s"].milliseconds == {"begin": 1000.0, "write": 0.0, "pre_commit": 1000.0, "decide": 0.0}


def test_the_step_that_is_under_way_can_be_seen_and_stays_when_it_fails() -> None:
    """I2: of a sink that is asked for ever, who looks on sees what for and since when."""

    class Looks(ListSink):
        def write(self, context: EpochContext, rows: list[str]) -> Any:
            asked.append((course().attempt, course().asked))
            if len(asked) == 1:
                raise RuntimeError("lost a task")
            return super().write(context, rows)

        def abort(self, context: EpochContext) -> None:
            if asked:  # not the start's own
                asked.append((course().attempt, course().asked))
            super().abort(context)

    def course() -> Course:
        found = driver.taken.coordinator.course
        assert found is not None
        return found

    asked: list[tuple[int, Asked | None]] = []
    driver = watched(Pipeline(kind=Looks))
    driver.run(0, "a")
    assert asked == [(attempt, Asked("write", "s", MONOTONIC)) for attempt in (1, 1, 2)]
    assert course().asked is None


def test_an_aborted_try_is_told_with_the_class_of_its_error() -> None:
    pipeline, seen = Pipeline(kind=Stumbles), Seen()
    Stumbles.errors = [RuntimeError("lost a task"), RuntimeError("lost a task")]
    driver = watched(pipeline, seen)
    driver.run(0, "a")
    assert [(it.attempt, it.cause, it.reason) for it in seen.tries] == [
        (number, "RuntimeError", "RuntimeError: lost a task") for number in (1, 2)
    ]
    assert list(seen.courses[0].aborted) == seen.tries
    assert seen.entries[0].attempts == 3


def test_a_transaction_that_timed_out_is_a_cause_of_its_own() -> None:
    class TimesOut(ListDecider):
        verdicts: list[Verdict]

        def decide(self, *args: Any) -> Verdict:
            return self.verdicts.pop() if self.verdicts else super().decide(*args)

    TimesOut.verdicts = [Verdict.ABORTED]
    seen = Seen()
    watched(Pipeline(kind=TimesOut, decides=True), seen).run(0, "a")
    assert [it.cause for it in seen.tries] == ["TransactionTimedOut"]


def test_what_is_out_of_reach_is_told_in_a_word_or_two_and_for_how_long() -> None:
    pipeline, seen = Pipeline(kind=Stumbles, patience_s=60), Seen()
    driver = watched(pipeline, seen)
    waiting: list[object] = []

    class Looks(Observer):
        def aborted(self, epoch: int, tried: AbortedTry) -> None:
            waiting.append(driver.taken.coordinator.patience.waiting)

    driver.runner.observer = driver.taken.coordinator.observer = Onlookers([seen, Looks()])
    Stumbles.errors = [SinkUnreachable("refused") for _ in range(3)]
    driver.run(0, "a")
    assert [it.cause for it in seen.tries] == ["SinkUnreachable"] * 3
    assert waiting[0] is None
    assert getattr(waiting[2], "subject", "") == "sink 's'"


def test_an_epoch_that_stops_the_query_is_told_with_how_far_it_came() -> None:
    pipeline, seen = Pipeline(kind=Stumbles), Seen()
    Stumbles.errors = [RuntimeError("no") for _ in range(6)]
    driver = watched(pipeline, seen)
    with pytest.raises(EpochFailed):
        driver.run(0, "a")
    ((epoch, course, error),) = seen.failures
    assert (epoch, len(course.aborted), type(error)) == (0, 6, EpochFailed)
    assert not course.in_doubt


def test_an_epoch_whose_decision_is_not_known_is_in_doubt() -> None:
    class Silent(ListDecider):
        def decide(self, *args: Any) -> Verdict:
            raise InvalidRows("no answer")

    seen = Seen()
    with pytest.raises(InvalidRows):
        watched(Pipeline(kind=Silent, decides=True), seen).run(0, "a")
    assert seen.failures[0][1].in_doubt


def test_an_epoch_that_fails_before_its_first_try_has_no_course() -> None:
    seen = Seen()
    driver = watched(Pipeline(), seen)
    driver.run(0, "a", end=5)
    with pytest.raises(HomeMismatch):
        driver.run(1, "a", end=2)
    assert seen.failures[0][:2] == (1, None)


def test_at_most_once_epochs_are_told_too() -> None:
    seen = Seen()
    watched(Pipeline(guarantee=Guarantee.AT_MOST_ONCE), seen).run(0, "a")
    assert [it.epoch for it in seen.entries] == [0]
    assert seen.courses[0].ended == MONOTONIC


def test_an_observer_that_raises_is_blamed_once_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """I2: looking on is not data: epochs are committed, and the others are told."""

    class Broken(Observer):
        def committed(self, entry: Entry, course: Course) -> None:
            raise ValueError("no disk")

    pipeline, seen = Pipeline(), Seen()
    driver = watched(pipeline, Broken(), seen)
    with caplog.at_level(logging.WARNING, "onceward"):
        for epoch in range(3):
            driver.run(epoch, "a")
    assert pipeline.place.rows == ["a"] * 3
    assert len(seen.entries) == 3
    (line,) = [record for record in caplog.records if getattr(record, "event", "") == "telemetry_failed"]
    assert "no disk" in line.getMessage()
    assert line.pipeline == "p"  # type: ignore[attr-defined]


def test_everything_is_handed_to_everybody() -> None:
    first, second = Seen(), Seen()
    both, error = Onlookers([first, Observer(), second]), RuntimeError("x")
    both.started()
    both.aborted(1, AbortedTry(1, "X", "x", 0.0))
    both.failed(1, None, error)
    both.ended(error)
    Observer().committed(None, None)  # type: ignore[arg-type]
    for seen in (first, second):
        assert (seen.rest, len(seen.tries), len(seen.failures)) == (["started", error], 1, 1)
