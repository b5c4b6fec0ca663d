"""What the runner is given reaches those who need it, and is asked at the moments that matter."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from epoch.started import Driver, ListSink, Pipeline
from epoch.test_observing import Seen
from onceward.epoch.contract import EpochContext, Guarantee
from onceward.errors import CommitUnfinished, PipelineFenced, ReplayDiverged, SinkUnreachable


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline()


def away(pipeline: Pipeline, meanwhile: Callable[[int], object], tries: int = 1_000) -> list[int]:
    """Its sink cannot commit before so many tries, and something happens in each; which epochs it was asked for."""
    asked: list[int] = []

    class Away(ListSink):
        def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
            asked.append(context.epoch)
            meanwhile(len(asked))
            if len(asked) < tries:
                raise SinkUnreachable("connection refused")
            super().commit(context, committable)

    pipeline.kind = Away
    return asked


def require_that_the_next_start_commits(pipeline: Pipeline) -> None:
    pipeline.kind = None
    pipeline.start()
    assert pipeline.place.rows == ["a"]


class TestBetweenTwoTriesOfACommit:
    """B5, C6: a decided epoch's commit is asked for as long as this driver is the pipeline's, and nobody stops it."""

    def test_a_newer_term_ends_it_and_the_newer_driver_commits(self, pipeline: Pipeline) -> None:
        asked = away(pipeline, lambda tries: tries == 2 and pipeline.claim())
        driver = pipeline.start()
        with pytest.raises(PipelineFenced, match="was taken over"):
            driver.run(0, "a")
        assert asked == [0, 0]
        require_that_the_next_start_commits(pipeline)

    def test_a_stop_ends_it_and_the_next_start_commits(self, pipeline: Pipeline) -> None:
        asked = away(pipeline, lambda tries: setattr(driver.asked, "stop", tries == 2))
        driver = pipeline.start()
        with pytest.raises(CommitUnfinished, match="epoch 0 is decided, and sink 's' has not made it visible"):
            driver.run(0, "a")
        assert asked == [0, 0]
        require_that_the_next_start_commits(pipeline)

    def test_a_newer_term_is_the_news_also_where_somebody_asked_for_a_stop(self, pipeline: Pipeline) -> None:
        def both(_: int) -> None:
            driver.asked.stop = True
            pipeline.claim()

        away(pipeline, both)
        driver = pipeline.start()
        with pytest.raises(PipelineFenced):
            driver.run(0, "a")

    def test_it_goes_on_while_neither_happens(self, pipeline: Pipeline) -> None:
        asked = away(pipeline, lambda _: None, tries=9)
        pipeline.start().run(0, "a")
        assert asked == [0] * 9
        assert pipeline.place.rows == ["a"]


def test_an_observer_is_told_by_the_runner_and_by_the_coordinator() -> None:
    """I2: of tries, of committed epochs and of what ends the query."""

    class Stumbles(ListSink):
        def write(self, context: EpochContext, rows: list[str]) -> Any:
            if context.attempt < 3:
                raise RuntimeError("lost a task")
            if context.epoch == 1:
                raise PipelineFenced("a newer driver")
            return super().write(context, rows)

    seen = Seen()
    driver = Pipeline(kind=Stumbles).start(wired={"observer": seen})
    driver.run(0, "a")
    with pytest.raises(PipelineFenced):
        driver.run(1, "b")
    assert [(it.attempt, it.cause) for it in seen.tries] == [
        (1, "RuntimeError"), (2, "RuntimeError"), (1, "RuntimeError"), (2, "RuntimeError"), (3, "PipelineFenced"),
    ]  # fmt: skip
    assert [it.epoch for it in seen.entries] == [0]
    assert [(epoch, type(error)) for epoch, _, error in seen.failures] == [(1, PipelineFenced)]


def test_each_entry_that_the_ledger_has_is_told() -> None:
    told: list[Any] = []
    driver = Pipeline().start(wired={"recorded": told.append})
    for epoch in range(3):
        driver.run(epoch, "a")
    driver.runner.close()
    assert [(it.epoch, it.phase) for it in told] == [(0, "done"), (1, "done"), (2, "done")]


def replaying(pipeline: Pipeline, **wired: Any) -> Driver:
    """A start after an epoch that is committed and that Spark has not noted."""
    driver = pipeline.start()
    driver.run(0, "a")
    driver.runner.close()
    return pipeline.start(wired=wired)


@pytest.mark.parametrize("wired", [{}, {"on_divergence": "fail"}])
def test_a_replay_that_differs_fails_unless_a_person_has_said_otherwise(wired: dict[str, Any]) -> None:
    """G4."""
    with pytest.raises(ReplayDiverged):
        replaying(Pipeline(), **wired).run(0, "a", "b", end=1)


def test_a_replay_that_differs_is_told_where_a_person_has_said_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "onceward.epoch"):
        replaying(Pipeline(), on_divergence="warn").run(0, "a", "b", end=1)
    assert "epoch 0 is committed already" in caplog.text


def test_a_driver_that_has_just_started_does_not_renew_the_marker_that_it_found() -> None:
    """Its age is counted from the start, on whatever clock."""
    pipeline = Pipeline(decides=True)
    pipeline.start().run(0, "a")
    driver = pipeline.start(wired={"keep_alive_s": 600.0})
    pipeline.steps.clear()
    for passed, renewals in ((0.0, 0), (599.0, 0), (1.0, 1)):
        pipeline.now += passed
        driver.runner.keep_marker_alive()
        driver.runner.background.close()
        assert pipeline.steps.count("marker 0") == renewals


@pytest.mark.parametrize("keep_alive_s", [7.5, 600.0])
def test_an_idle_pipelines_marker_is_written_again_as_often_as_is_said(keep_alive_s: float) -> None:
    """C7: it expires with the group's offsets."""
    pipeline = Pipeline(decides=True)
    driver = pipeline.start(wired={"keep_alive_s": keep_alive_s})
    driver.run(0, "a")
    driver.runner.close()
    pipeline.steps.clear()

    def renewals() -> int:
        driver.runner.keep_marker_alive()
        driver.runner.background.close()
        return len([it for it in pipeline.steps if it.startswith("marker ")])

    pipeline.now += keep_alive_s - 0.25
    assert renewals() == 0
    pipeline.now += 0.25
    assert renewals() == 1
    pipeline.now += keep_alive_s
    assert renewals() == 2
    pipeline.now += 0.75 * keep_alive_s
    driver.run(1, "b")  # an epoch writes the marker itself
    pipeline.now += 0.75 * keep_alive_s
    assert renewals() == 2


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE])
def test_a_driver_that_is_overtaken_while_it_waits_for_its_last_entry_commits_no_more(
    pipeline: Pipeline, guarantee: Guarantee
) -> None:
    """C6: whether it is current is asked after the wait."""
    pipeline.guarantee = guarantee
    driver = pipeline.start(wired={"recorded": lambda _: pipeline.claim()})
    driver.run(0, "a")
    with pytest.raises(PipelineFenced, match="was taken over"):
        driver.run(1, "b")
    assert [it.epoch for it in driver.runner.finished] == [0]


def test_a_driver_that_was_overtaken_before_its_first_epoch_leaves_no_marker() -> None:
    """C6: where its successor runs without the deciding sink, nobody has fenced it there, and the marker would be found
    as a stranger's when the sink is back."""
    pipeline = Pipeline(decides=True)
    driver = pipeline.start()
    pipeline.claim()
    with pytest.raises(PipelineFenced):
        driver.run(0, "a")
    assert pipeline.place.marker is None
