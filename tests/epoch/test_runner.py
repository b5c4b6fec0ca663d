# ruff: noqa: ARG002 - a sink's methods take what the contract says
"""The life of an epoch without an engine: what has to hold before each step, and who may write at all."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from epoch.memory import Memory
from epoch.started import ListSink, Pipeline, Place, Rows
from onceward.epoch.contract import EpochContext, Guarantee, LastCommit, TwoPhaseCommitSink
from onceward.epoch.decisions import Decisions
from onceward.epoch.ledger import DONE, STARTED, Entry
from onceward.epoch.outcome import Outcome
from onceward.epoch.runner import Stopping
from onceward.errors import (
    CommitUnfinished,
    CommitUnproven,
    HomeMismatch,
    InvalidRows,
    MarkerMissing,
    PipelineFenced,
    ReplayDiverged,
    RowsDropped,
)
from support.clocks import MONOTONIC


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline()


def test_an_epoch_becomes_visible_and_its_entry_follows(pipeline: Pipeline) -> None:
    driver = pipeline.start()
    driver.run(0, "a", "b")
    assert pipeline.place.rows == ["a", "b"]
    assert driver.taken.ledger.read(0) is None  # on its way
    driver.runner.close()
    entry = driver.taken.ledger.read(0)
    assert entry is not None
    assert (entry.phase, entry.input_rows, entry.sinks["s"].rows, entry.decider) == (
        DONE,
        1,
        2,
        None,
    )
    assert entry.plan == 'v1\n{}\n{"in":{"0":1}}'


def test_no_epoch_is_decided_before_its_plan_is_synced_and_its_predecessor_recorded(pipeline: Pipeline) -> None:
    driver = pipeline.start()
    driver.run(0, "a")
    pipeline.steps.clear()
    driver.run(1, "b")
    assert pipeline.steps == ["begin", "write", "vote", "beside", "beside", "commit"]
    assert driver.taken.ledger.read(0) is not None


def test_a_driver_that_is_overtaken_after_its_decision_leaves_the_rest_to_its_successor(pipeline: Pipeline) -> None:
    first = pipeline.start()

    class Overtaken(Decisions):
        def decide(self, entry: Entry) -> None:
            super().decide(entry)
            pipeline.start()

    first.taken.decisions.__class__ = Overtaken
    pipeline.steps.clear()
    with pytest.raises(PipelineFenced):
        first.run(0, "a")
    assert pipeline.place.rows == ["a"]  # once: by the successor
    assert pipeline.steps.count("commit") == 1


def test_a_plan_whose_sync_failed_is_synced_once_more_before_the_decision() -> None:
    synced: list[str] = []

    class Stumbles(Memory):
        def sync(self, name: str) -> None:
            synced.append(name)
            if len(synced) == 1:
                raise OSError("the disk was busy")
            super().sync(name)

    pipeline = Pipeline(storage=Stumbles())
    pipeline.start().run(0, "a")
    folder = "checkpoints/000001"
    assert synced == [f"{folder}/metadata", f"{folder}/metadata", f"{folder}/offsets/0"]
    assert pipeline.place.rows == ["a"]


def test_an_entry_whose_write_failed_is_written_once_more_before_the_next_decision() -> None:
    class Full(Memory):
        failed = False

        def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
            if name.startswith("ledger/") and not self.failed:
                self.failed = True
                raise OSError("the disk was full")
            super().replace(name, data, sync=sync)

    pipeline = Pipeline(storage=Full())
    driver = pipeline.start()
    driver.run(0, "a")
    driver.run(1, "b")
    assert driver.taken.ledger.read(0).phase == DONE
    assert pipeline.place.rows == ["a", "b"]


class TestAStop:
    def test_leaves_an_epoch_that_has_not_begun_to_the_next_start(self, pipeline: Pipeline) -> None:
        driver = pipeline.start()
        driver.asked.stop = True
        pipeline.steps.clear()
        with pytest.raises(Stopping, match="epoch 0 is left to the next start"):
            driver.run(0, "a")
        assert pipeline.steps == []
        assert driver.runner.failure is None

    def test_between_two_tries_of_a_decided_commit_names_it_and_the_next_start_finishes_it(
        self, pipeline: Pipeline
    ) -> None:
        class Away(ListSink):
            def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
                driver.asked.stop = pipeline.waited > 0  # from the second try on
                raise ConnectionError("away")

        pipeline.kind = Away
        driver = pipeline.start()
        with pytest.raises(CommitUnfinished, match="epoch 0 is decided, and sink 's' has not made it visible"):
            driver.run(0, "a")
        pipeline.kind = None
        pipeline.start()
        assert pipeline.place.rows == ["a"]


class TestAtLeastOnce:
    @pytest.mark.parametrize("decides", [True, False])
    def test_nothing_is_compared_prepared_or_decided(self, decides: bool) -> None:
        pipeline = Pipeline(decides=decides, guarantee=Guarantee.AT_LEAST_ONCE, others={"t": Place()})
        driver = pipeline.start()
        driver.run(0, "a")
        driver.runner.close()
        assert pipeline.place.rows == pipeline.others["t"].rows == ["a"]
        assert pipeline.storage.names("decisions") == []
        assert driver.taken.ledger.read(0).phase == DONE
        assert not any(step.startswith("marker") for step in pipeline.steps)


class TestTheMarker:
    def test_is_there_before_the_first_epoch_and_noted_in_the_home(self) -> None:
        """Trap 24."""
        pipeline = Pipeline(decides=True)
        pipeline.start().run(0, "a")
        assert pipeline.steps[:5] == ["abort", "marker -1", "begin", "write", "vote"]
        pipeline.place.marker = None
        with pytest.raises(MarkerMissing, match="a marker from before the first epoch, and has no marker"):
            pipeline.start()

    def test_that_was_never_written_means_that_nothing_is_committed(self) -> None:
        pipeline = Pipeline(decides=True)
        pipeline.start().plan(0, 1)
        assert pipeline.start().taken.recovered.committed == -1

    def test_that_a_person_overruled_is_written_again_at_once(self) -> None:
        pipeline = Pipeline(decides=True)
        pipeline.start().run(0, "a")
        pipeline.place.marker = None
        driver = pipeline.start(trust=["s"])
        assert pipeline.place.marker is not None
        assert (driver.taken.recovered.committed, pipeline.place.marker.epoch) == (0, 0)
        assert pipeline.start().taken.recovered.committed == 0

    def test_of_an_idle_pipeline_is_written_again_before_it_expires(self) -> None:
        pipeline = Pipeline(decides=True)
        driver = pipeline.start()
        driver.run(0, "a")
        driver.runner.close()
        pipeline.steps.clear()
        for after, expected in ((3599.0, 0), (3600.0, 1), (3601.0, 1), (7200.0, 2)):
            pipeline.now = MONOTONIC + after
            driver.runner.keep_marker_alive()
            driver.runner.background.close()
            assert pipeline.steps.count("marker 0") == expected

    def test_is_not_renewed_while_an_epoch_uses_the_sinks(self) -> None:
        pipeline = Pipeline(decides=True)
        driver = pipeline.start()
        driver.run(0, "a")
        driver.runner.close()
        pipeline.now += 4000.0
        with driver.runner._at_work:
            driver.runner.keep_marker_alive()
            driver.runner.background.close()
        assert pipeline.steps.count("marker 0") == 0

    def test_of_a_pipeline_without_a_decider_needs_no_care(self, pipeline: Pipeline) -> None:
        driver = pipeline.start()
        driver.run(0, "a")
        pipeline.now += 10_000.0
        driver.runner.keep_marker_alive()
        assert "marker 0" not in pipeline.steps


class TestASinkThatForgets:
    def test_stops_the_pipeline_before_anything_is_written(self, pipeline: Pipeline) -> None:
        """J6."""
        driver = pipeline.start()
        driver.run(0, "a")
        driver.run(1, "b")
        pipeline.place.marker = LastCommit(lineage="L", epoch=0, term=1)
        pipeline.steps.clear()
        with pytest.raises(MarkerMissing, match=r"is to hold epoch 1, and says epoch 0"):
            driver.run(2, "c")
        assert "begin" not in pipeline.steps
        assert pipeline.place.rows == ["a", "b"]


class TestSparksLog:
    def test_that_is_altered_while_the_pipeline_runs_stops_it(self, pipeline: Pipeline) -> None:
        driver = pipeline.start()
        driver.run(0, "a")
        driver.plan(0, 7)
        with pytest.raises(HomeMismatch, match=r"epoch 0 end at .*:7.*altered while the pipeline was running"):
            driver.run(1, "b", end=9)
        assert pipeline.place.rows == ["a"]

    def test_that_was_altered_before_a_start_is_put_back(self, pipeline: Pipeline) -> None:
        driver = pipeline.start()
        driver.run(0, "a")
        driver.runner.close()
        driver.plan(0, 7)
        again = pipeline.start()
        assert again.taken.checkpoint.positions(0).texts == ['{"in":{"0":1}}']
        assert "put back from the ledger" in again.taken.resolved[0]

    def test_an_overtaken_drivers_plan_is_read_by_nobody(self, pipeline: Pipeline) -> None:
        first = pipeline.start()
        first.run(0, "a")
        first.runner.close()
        second = pipeline.start()
        first.plan(0, 0)  # it wakes inside its rename
        second.run(1, "b")
        second.runner.close()
        third = pipeline.start()
        assert third.taken.checkpoint.positions(0).texts == ['{"in":{"0":1}}']
        with pytest.raises(PipelineFenced):
            first.run(1, "z")
        assert pipeline.place.rows == ["a", "b"]


def test_a_replay_that_differs_is_named_and_writes_nothing(pipeline: Pipeline) -> None:
    """G4."""
    driver = pipeline.start()
    driver.run(0, "a")
    driver.runner.close()
    again = pipeline.start()
    again.runner(Rows(["a"], ["s"]), 0)
    with pytest.raises(ReplayDiverged, match=r"epoch 0 is committed already"):
        again.runner(Rows(["a", "b"], ["s"]), 0)
    assert pipeline.place.rows == ["a"]


def test_a_replay_that_differs_goes_on_where_a_person_says_so(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    driver = pipeline.start()
    driver.run(0, "a")
    driver.runner.close()
    again = pipeline.start()
    again.runner.on_divergence = "warn"
    with caplog.at_level(logging.ERROR, "onceward.epoch"):
        again.run(0, "a", "b", end=1)
    assert "epoch 0 is committed already" in caplog.text
    again.run(1, "c")
    assert pipeline.place.rows == ["a", "c"]


def test_a_replay_into_a_sink_without_a_digest_of_its_own_is_counted_by_the_pipeline(pipeline: Pipeline) -> None:
    class Plain(ListSink):
        def digest(self, context: EpochContext, rows: list[str]) -> Outcome | None:
            return TwoPhaseCommitSink.digest(self, context, rows)

    pipeline.kind = Plain
    driver = pipeline.start()
    driver.run(0, "a")
    driver.runner.close()
    again = pipeline.start()
    again.run(0, "a")
    with pytest.raises(ReplayDiverged):
        again.run(0, "a", "b", end=1)


def test_late_rows_stop_an_epoch_before_its_decision(pipeline: Pipeline) -> None:
    driver = pipeline.start()
    with pytest.raises(RowsDropped, match=r"dropped 3 rows.*Nothing of the epoch is visible"):
        driver.run(0, "a", late=3)
    assert pipeline.place.rows == []


class TestAtMostOnce:
    @pytest.fixture
    def pipeline(self) -> Pipeline:
        return Pipeline(guarantee=Guarantee.AT_MOST_ONCE)

    def test_an_epoch_is_claimed_before_it_is_written(self, pipeline: Pipeline) -> None:
        driver = pipeline.start()
        driver.run(0, "a")
        claimed = driver.taken.decisions.of(0)
        assert claimed is not None
        assert claimed.phase == STARTED
        assert pipeline.place.rows == ["a"]

    def test_an_epoch_that_may_have_been_written_is_given_up(self, pipeline: Pipeline) -> None:
        driver = pipeline.start()
        driver.run(0, "a")
        pipeline.storage.files = {
            name: data for name, data in pipeline.storage.files.items() if not name.startswith("ledger/")
        }  # it died before its last entry
        pipeline.start().run(0, "a")
        assert pipeline.place.rows == ["a"]

    def test_what_was_begun_up_to_somewhere_else_stops_whoever_would_go_on_after_it(self, pipeline: Pipeline) -> None:
        """A5: what follows must begin where that one ended, or its rows are written a second time."""
        pipeline.start().run(0, "a", end=1)
        pipeline.storage.files = {
            name: data for name, data in pipeline.storage.files.items() if not name.startswith("ledger/")
        }
        with pytest.raises(CommitUnproven, match=r'begun by another driver, up to .*"0":1.*runs it up to .*"0":5'):
            pipeline.start().run(0, "a", "b", end=5)
        assert pipeline.place.rows == ["a"]

    def test_a_driver_that_was_paused_before_its_claim_writes_nothing(self, pipeline: Pipeline) -> None:
        """It had looked, found nothing, and slept while its successor wrote the epoch."""
        first = pipeline.start()

        class Paused(Decisions):
            def decide(self, entry: Entry) -> None:
                pipeline.start().run(0, "a")
                super().decide(entry)

        first.taken.decisions.__class__ = Paused
        with pytest.raises(PipelineFenced):
            first.run(0, "a")
        assert pipeline.place.rows == ["a"]

    def test_what_a_sink_loses_is_lost_and_counted_and_the_pipeline_goes_on(
        self, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Loses(ListSink):
            def write(self, context: EpochContext, rows: list[str]) -> Outcome:
                if context.epoch == 0:
                    raise ConnectionError("a lost task")
                return super().write(context, rows)

        pipeline.kind = Loses
        driver = pipeline.start()
        driver.run(0, "a")
        driver.run(1, "b")
        assert pipeline.place.rows == ["b"]
        assert "epoch 0 was lost in part (at-most-once), sink 's': a lost task" in caplog.text
        assert [entry.sinks["s"].rows for entry in driver.runner.finished] == [1, 1]

    def test_an_error_that_repeating_cannot_cure_is_not_taken_for_a_loss(self, pipeline: Pipeline) -> None:
        class Refuses(ListSink):
            def write(self, context: EpochContext, rows: list[str]) -> Outcome:
                raise InvalidRows("no such column")

        pipeline.kind = Refuses
        driver = pipeline.start()
        with pytest.raises(InvalidRows):
            driver.run(0, "a")
        assert driver.taken.ledger.read(0) is None

    def test_late_rows_stop_the_pipeline_and_say_what_may_be_visible(self, pipeline: Pipeline) -> None:
        with pytest.raises(RowsDropped, match=r"The rest may be visible \(at-most-once\)"):
            pipeline.start().run(0, "a", late=3)
