"""What is out of reach is waited for, for as long as the pipeline says."""

import itertools
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from epoch.scripted import JOURNAL, Hopeless, Lost, World
from epoch.started import ListSink, Pipeline
from onceward.epoch.contract import Verdict
from onceward.epoch.patience import FULL, Patience, SinkOutage, Waiting, seconds
from onceward.epoch.tries import ATTEMPTS, Judging
from onceward.errors import (
    BrokerUnreachable,
    CommitUnfinished,
    ConfigurationError,
    EpochFailed,
    LookupUnreachable,
    OutageTooLong,
    PipelineFenced,
    SinkUnreachable,
)
from support.clocks import MONOTONIC


class Clock:
    """Time passes only in sleep."""

    def __init__(self) -> None:
        self.now = MONOTONIC

    @property
    def waited(self) -> float:
        return self.now - MONOTONIC

    def __call__(self) -> float:
        return self.now

    def sleep(self, pause_s: float) -> None:
        self.now += pause_s


def patient(clock: Clock, patience_s: float = 60.0, keep_on: Callable[[], None] = lambda: None) -> Patience:
    return Patience(patience_s, clock=clock, sleep=clock.sleep, keep_on=keep_on)


def world_with(patience_s: float, **script: object) -> tuple[World, Clock]:
    world, clock = World("files", "table", "kafka", decider="kafka", **script), Clock()  # type: ignore[arg-type]
    world.coordinator.patience = patient(clock, patience_s, world.keep_on)
    world.coordinator._clock = clock
    return world, clock


def away(times: int | None = None, kind: type[Exception] = SinkUnreachable) -> Iterable[Exception]:
    error = kind("connection refused")
    return itertools.repeat(error) if times is None else itertools.repeat(error, times)


@pytest.mark.parametrize(
    ("said", "meant"), [("10min", 600.0), ("90s", 90.0), ("1h", 3600.0), ("500ms", 0.5), (5, 5.0), (0, 0.0)]
)
def test_patience_is_said_as_people_say_it(said: str | float, meant: float) -> None:
    assert seconds(said) == meant


@pytest.mark.parametrize("said", ["soon", "-1s", -1, "", float("inf"), True])
def test_patience_that_is_none_is_refused(said: str | float) -> None:
    with pytest.raises(ConfigurationError, match="'10min', '90s', '1h' or seconds"):
        seconds(said)


class TestAnEpoch:
    @pytest.mark.parametrize("step", ["begin", "write", "pre_commit"])
    @pytest.mark.parametrize("kind", [SinkUnreachable, BrokerUnreachable])
    def test_waits_for_a_sink_longer_than_six_tries_and_goes_on_by_itself(
        self, step: str, kind: type[Exception], caplog: pytest.LogCaptureFixture
    ) -> None:
        """I5: a passing outage of a sink ends nothing."""
        world, clock = world_with(600, script={("table", step): away(4 * ATTEMPTS, kind)})
        with caplog.at_level(logging.WARNING, "onceward.epoch"):
            done = world.run()
        assert done.attempts == 4 * ATTEMPTS + 1
        assert clock.waited > 60
        assert world.slept == []  # those are the pauses of tries that count
        assert "waiting for sink 'table': connection refused (0 s)" in caplog.text
        assert "sink 'table' is back after" in caplog.text
        assert len([line for line in caplog.messages if line.startswith("waiting")]) < 10

    def test_says_how_long_it_waited_when_patience_ends(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, "onceward.epoch")
        world, clock = world_with(42, script={("table", "write"): away()})
        with pytest.raises(OutageTooLong, match=r"sink 'table' was waited for 42 s .*refused.*Nothing is lost"):
            world.run()
        assert clock.waited == pytest.approx(42)
        assert "is back" not in caplog.text  # it is not
        assert world.asked("decide") == []
        assert world.lines()[-3:] == ["kafka.abort", "table.abort", "files.abort"]

    def test_answers_a_stop_at_once_while_it_waits(self) -> None:
        class Asked(Exception):
            pass

        world, clock = world_with(600, script={("table", "write"): away(), (JOURNAL, "keep_on"): [None, None, Asked()]})
        with pytest.raises(Asked):
            world.run()
        assert clock.waited < 2

    def test_that_is_overtaken_while_it_waits_stops(self) -> None:
        world, _ = world_with(600, script={("table", "write"): away(), (JOURNAL, "keep_on"): [PipelineFenced("newer")]})
        with pytest.raises(PipelineFenced):
            world.run()

    def test_counts_other_failures_as_before(self) -> None:
        """Between them the outage does not count."""
        mixed = itertools.cycle([SinkUnreachable("away"), Lost("task")])
        world, _ = world_with(600, script={("table", "write"): mixed})
        with pytest.raises(EpochFailed, match=f"aborted {ATTEMPTS} times.*Lost: task"):
            world.run()
        assert len(world.asked("write")) > 2 * ATTEMPTS

    def test_each_try_has_a_number_of_its_own(self) -> None:
        world, _ = world_with(600, script={("table", "begin"): away(9)})
        world.run()
        tries = [event.attempt for event in world.events if event[:2] == ("table", "begin")]
        assert tries == list(range(1, 11))

    def test_waits_for_a_decider_that_cannot_abort_and_aborts_it_before_anybody_is_asked(self) -> None:
        """Its open transaction would hold up those who ask for its marker."""
        world, _ = world_with(
            600, script={("files", "write"): [Lost("task")], ("kafka", "abort"): away(3, BrokerUnreachable)}
        )
        assert world.run().attempts == 3
        second = [event for event in world.events if event.attempt == 2]
        assert second[0][:2] == ("kafka", "abort")
        assert all(event.step in {"abort", "keep_on"} for event in second)

    def test_whose_decider_timed_out_and_is_away_waits_and_is_redone(self) -> None:
        world, _ = world_with(
            600, script={("kafka", "decide"): [Verdict.ABORTED], ("kafka", "abort"): away(2, BrokerUnreachable)}
        )
        assert world.run().attempts == 2 + 1

    def test_raises_what_is_final_although_the_decider_is_away(self) -> None:
        world, _ = world_with(600, script={("kafka", "abort"): away(None, BrokerUnreachable)})
        world._script["files", "write"] = iter([Hopeless("no")])
        with pytest.raises(Hopeless):
            world.run()

    def test_waits_for_room_on_the_disk(self) -> None:
        world, _ = world_with(600, script={(JOURNAL, "prepare"): [OSError(next(iter(FULL)), "No space left")] * 9})
        assert world.run().attempts == 10

    def test_without_patience_tries_as_often_as_for_any_other_failure(self) -> None:
        world = World("files", "table", script={("table", "write"): away()})
        with pytest.raises(EpochFailed):
            world.run()
        assert len(world.asked("write")) == 2 * ATTEMPTS

    def test_that_is_decided_shows_for_whom_it_waits(self) -> None:
        world, _ = world_with(600, script={("table", "commit"): away(3)})
        seen: list[str] = []
        world.coordinator._sleep = lambda _: seen.append(str(world.coordinator.patience.waiting))  # type: ignore[union-attr]
        world.run()
        assert len(seen) == 3
        assert "sink 'table' to commit epoch 7" in seen[0]
        assert world.coordinator.patience is not None
        assert world.coordinator.patience.waiting is None


class TestTheUsersOwnCode:
    def test_that_fails_twice_in_the_same_way_is_not_tried_again(self) -> None:
        world = World("files", script={("files", "write"): itertools.repeat(Lost("line 7: division by zero"))})
        self.judge(world)
        with pytest.raises(Lost, match="line 7"):
            world.run()
        assert len(world.asked("write")) == len(world.asked("abort")) == 2

    def test_that_fails_in_another_way_each_time_is_tried_as_often_as_allowed(self) -> None:
        world = World("files", script={("files", "write"): (Lost(f"line {number}") for number in range(99))})
        self.judge(world)
        with pytest.raises(EpochFailed):
            world.run()
        assert len(world.asked("write")) == ATTEMPTS

    def judge(self, world: World) -> None:
        world.coordinator._judging = Judging(is_final=lambda _: False, own=str)


class TestWhatIsSaid:
    """One line when the waiting begins, one every half minute, one when it is over."""

    def test_reasons_that_change_are_no_news(self, caplog: pytest.LogCaptureFixture) -> None:
        """A database that restarts refuses, then starts up, then recovers: that was a line for each."""
        clock = Clock()
        patience = patient(clock, 600)
        reasons = [SinkUnreachable(f"step {number}") for number in range(12)]
        for error in reasons:
            error.sink = "db"
        left = iter(reasons)

        def ask() -> None:
            for error in left:
                raise error

        with caplog.at_level(logging.WARNING, "onceward.epoch"):
            patience.until(ask)
        said = [line.partition(":")[0] for line in caplog.messages]
        assert said == ["waiting for sink 'db'", "waiting for sink 'db'", "sink 'db' is back after 44 s"]

    def test_it_is_said_anew_for_each_outage_and_for_each_that_is_away(self, caplog: pytest.LogCaptureFixture) -> None:
        patience = patient(Clock(), 600)
        with caplog.at_level(logging.WARNING, "onceward.epoch"):
            for _ in range(2):
                for _ in range(3):
                    patience.note(LookupUnreachable("no"), MONOTONIC)
                    patience.note(BrokerUnreachable("no"), MONOTONIC)
                patience.over()
        waiting = ["waiting for the lookup's database", "waiting for Kafka"]
        assert [line.partition(":")[0] for line in caplog.messages if "back" not in line] == waiting * 2

    def test_a_sink_s_own_connections_say_it_the_same_way_and_speak_for_that_sink_alone(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        clock = Clock()
        patience = patient(clock, 600)
        kafka, other = SinkOutage(patience, "kafka"), SinkOutage(patience, "other")
        with caplog.at_level(logging.WARNING, "onceward.epoch"):
            kafka.over()
            patience.beside = Waiting("the source's Kafka", "no", MONOTONIC)
            kafka.note("nobody there", MONOTONIC + 2.0)
            assert patience.waiting is None
            patience.beside = None
            clock.now = MONOTONIC + 9.0
            kafka.note("nobody there", MONOTONIC + 2.0)
            assert patience.shown == patience.waiting
            other.over()
            error = BrokerUnreachable("nobody there for 60 s")
            error.sink = "kafka"
            patience.wait(error, MONOTONIC + 8.0)
            assert patience.waiting is not None
            assert patience.waiting.since == MONOTONIC + 2.0
            clock.now = MONOTONIC + 12.0
            kafka.over()
        assert caplog.messages == ["waiting for sink 'kafka': nobody there (7 s)", "sink 'kafka' is back after 10 s"]

    def test_what_is_away_besides_is_shown_where_nothing_else_is(self) -> None:
        patience = patient(Clock())
        assert patience.shown is None
        patience.beside = Waiting("the source's Kafka", "no", MONOTONIC)
        assert patience.shown is patience.beside
        patience.note(LookupUnreachable("no"), MONOTONIC)
        assert patience.shown is patience.waiting

    def test_a_sink_that_cannot_be_aborted_because_it_is_away_is_said_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        world, _ = world_with(600, script={("table", "write"): away(9), ("table", "abort"): away(9)})
        with caplog.at_level(logging.WARNING, "onceward"):
            world.run()
        assert len(caplog.messages) < 4


class TestAQuestion:
    def test_is_repeated_until_it_is_answered(self) -> None:
        clock, answers = Clock(), iter([LookupUnreachable("away")] * 8)
        patience = patient(clock)

        def ask() -> str:
            for error in answers:
                assert patience.waiting is None or patience.waiting.what == "the lookup's database"
                raise error
            return "answer"

        assert patience.until(ask) == "answer"
        assert patience.waiting is None
        assert 20 < clock.waited < 60

    def test_that_is_wrong_is_not_repeated(self) -> None:
        with pytest.raises(Lost):
            patient(Clock()).until(lambda: (_ for _ in ()).throw(Lost("x")))

    def test_with_no_patience_at_all_is_asked_once(self) -> None:
        with pytest.raises(OutageTooLong, match="Kafka was waited for 0 s"):
            patient(Clock(), 0).until(lambda: (_ for _ in ()).throw(BrokerUnreachable("refused")))


class TestAStart:
    """Opening sinks, asking for markers, finishing what was decided: each waits."""

    @pytest.mark.parametrize("step", ["open", "last_commit", "peek"])
    def test_waits_for_a_sink_that_is_away(self, step: str) -> None:
        left = [SinkUnreachable("connection refused")] * 8
        pipeline = Pipeline(decides=True, kind=away_at(step, left), patience_s=600)
        pipeline.start().run(0, "a")
        assert pipeline.place.rows == ["a"]
        assert pipeline.waited > 10
        assert not left

    def test_says_for_how_long_it_waited(self) -> None:
        pipeline = Pipeline(kind=away_at("open", [SinkUnreachable("connection refused")] * 99), patience_s=30)
        with pytest.raises(OutageTooLong, match="sink 's' was waited for 30 s"):
            pipeline.start()

    def test_waits_with_a_decided_commit_for_as_long_as_the_pipeline_says(self) -> None:
        left = [SinkUnreachable("away")] * 99
        pipeline = Pipeline(kind=away_at("commit", left), patience_s=300)
        driver = pipeline.start()
        driver.runner._keep_on = stopped  # type: ignore[method-assign]
        with pytest.raises(CommitUnfinished):
            driver.run(0, "a")
        began = pipeline.now
        with pytest.raises(CommitUnfinished):
            pipeline.start()
        assert pipeline.now - began > 300
        left.clear()
        pipeline.start()
        assert pipeline.place.rows == ["a"]


def stopped() -> None:
    raise Lost("asked to stop")


def away_at(step: str, left: list[SinkUnreachable]) -> type[ListSink]:
    """A sink that does not answer at one step, as long as `left` has errors."""

    class Away(ListSink):
        def __getattribute__(self, name: str) -> Any:
            real = super().__getattribute__(name)
            return partial(answer, real) if name == step else real

    def answer(real: Callable[..., Any], *asked: object) -> Any:
        if left:
            raise left.pop()
        return real(*asked)

    return Away
