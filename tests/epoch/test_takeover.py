# ruff: noqa: ARG002 - a sink's methods take what the contract says
"""A start over what earlier drivers left: what it finishes, what it refuses, and what a person may say to it."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from epoch.memory import Memory
from epoch.started import Driver, ListSink, Pipeline, Place
from onceward.epoch.contract import AFTER, EpochContext, Guarantee, LastCommit, Verdict
from onceward.epoch.journal import Journal
from onceward.epoch.ledger import DONE
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.epoch.unfinished import PATIENCE_S
from onceward.errors import CommitUnfinished, ConfigurationError, LedgerCorrupt, MarkerMissing, PipelineFenced


class Died(BaseException):
    """The driver is gone: nothing of it runs any more."""


class DiesCommitting(ListSink):
    """After the decision, before anything is visible."""

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        raise Died


class DiesDeciding(ListSink):
    """After the votes, before the decision."""

    def decide(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        raise Died


class Away(ListSink):
    """A target that does not answer a commit."""

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        raise ConnectionError("away")


class Woken(Memory):
    """The older driver wakes just before its successor closes the epoch to it."""

    sleeper: Driver | None = None

    def claim(self, name: str, data: bytes) -> bool:
        if name.startswith("decisions/") and self.sleeper is not None:
            sleeper, self.sleeper = self.sleeper, None
            with suppress(PipelineFenced):
                sleeper.run(0, "a")
        return super().claim(name, data)


def left_by(pipeline: Pipeline, kind: type[ListSink]) -> Driver:
    """What a driver leaves whose sinks have that habit, in its first epoch."""
    pipeline.kind = kind
    driver = pipeline.start()
    with pytest.raises(Died):
        driver.run(0, "a")
    pipeline.kind = None
    return driver


class TestADecidedEpoch:
    def test_is_finished_in_every_sink_and_recorded(self) -> None:
        pipeline = Pipeline(others={"t": Place()})
        left_by(pipeline, DiesCommitting)
        taken = pipeline.start().taken
        assert pipeline.place.rows == pipeline.others["t"].rows == ["a"]
        assert "epoch 0 was decided by the ledger in term 1 and not finished: committed in s, t" in taken.resolved
        assert taken.ledger.read(0).phase == DONE
        assert taken.expected.held == {"s": ("L", 0), "t": ("L", 0)}

    def test_of_a_sink_that_the_pipeline_no_longer_has_stops_the_start_and_nothing_is_committed(self) -> None:
        pipeline = Pipeline(others={"t": Place()})
        left_by(pipeline, DiesCommitting)
        gone = pipeline.others.pop("t")
        with pytest.raises(ConfigurationError, match=r"epoch 0 is decided .*in sink 't', which the pipeline no longer"):
            pipeline.start()
        assert pipeline.place.rows == []
        pipeline.others["t"] = gone
        pipeline.start()
        assert pipeline.place.rows == gone.rows == ["a"]

    def test_that_a_sink_cannot_take_is_tried_for_a_minute_then_named_and_the_next_start_goes_on(self) -> None:
        pipeline = Pipeline()
        left_by(pipeline, DiesCommitting)
        pipeline.kind = Away
        with pytest.raises(CommitUnfinished, match=r"epoch 0.*sink 's'"):
            pipeline.start()
        assert pipeline.now >= PATIENCE_S
        pipeline.kind = None
        pipeline.start()
        assert pipeline.place.rows == ["a"]

    def test_that_a_newer_start_is_finishing_is_left_to_it(self) -> None:
        pipeline = Pipeline()
        left_by(pipeline, DiesCommitting)

        class Overtaken(Away):
            def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
                pipeline.kind = None
                pipeline.start()
                super().commit(context, committable)

        pipeline.kind = Overtaken
        with pytest.raises(PipelineFenced, match="term 2 and stops"):
            pipeline.start()
        assert pipeline.place.rows == ["a"]

    def test_by_a_driver_that_woke_at_the_last_moment_counts_and_is_finished(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def ready(journal: Journal) -> None:
            journal.positions_synced()  # and its term was current, when it asked

        storage = Woken()
        pipeline = Pipeline(storage=storage)
        storage.sleeper = older = pipeline.start()
        older.plan(0, 1)
        monkeypatch.setattr(Journal, "ready", ready)
        taken = pipeline.start().taken
        assert (taken.recovered.committed, pipeline.place.rows) == (0, ["a"])

    @pytest.mark.parametrize("trust_ledger", [True, False])
    def test_is_not_compared_with_its_predecessor_where_a_person_has_looked(self, trust_ledger: bool) -> None:
        """`AFTER` names the epoch that a target must hold; after a backup was restored knowingly, it does not."""
        seen: list[Mapping[str, Any]] = []

        class Follows(ListSink):
            def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
                return {**super().pre_commit(context, outcome), AFTER: None}

            def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
                seen.append(committable)
                if len(seen) == 1:
                    raise Died
                super().commit(context, committable)

        pipeline = Pipeline(kind=Follows)
        with pytest.raises(Died):
            pipeline.start().run(0, "a")
        pipeline.start(trust=["s"] if trust_ledger else [])
        assert pipeline.place.rows == ["a"]
        assert (AFTER in seen[-1]) is not trust_ledger


class TestAnEpochInDoubt:
    """It is settled by whoever was to decide it."""

    def test_stops_a_start_without_the_kafka_sink_that_was_to_decide_it(self) -> None:
        pipeline = Pipeline(decides=True, others={"t": Place()})
        left_by(pipeline, DiesDeciding)
        pipeline.decides = False
        with pytest.raises(
            ConfigurationError, match=r"no longer has its sink 's'.*driver of term 1 did not end in order"
        ):
            pipeline.start()
        pipeline.decides = True
        assert pipeline.start().taken.recovered.committed == -1

    def test_stops_a_start_with_a_kafka_sink_where_the_ledger_was_to_decide_it(self) -> None:
        pipeline = Pipeline()
        left_by(pipeline, DiesCommitting)
        pipeline.decides = True
        with pytest.raises(ConfigurationError, match=r"epoch 0 of 'p' was decided by the ledger and is not finished"):
            pipeline.start()
        assert pipeline.place.rows == []


class TestMarkersThatCannotBeRead:
    """Others' offsets stand in the marker's place."""

    class Strange(ListSink):
        def peek(self, pipeline: str) -> LastCommit | None:
            raise MarkerMissing("others use the group")

        def last_commit(self) -> LastCommit | None:
            raise MarkerMissing("others use the group")

    def test_stop_a_start_unless_the_ledger_is_trusted(self) -> None:
        pipeline = Pipeline(decides=True)
        driver = pipeline.start()
        driver.run(0, "a")
        driver.runner.close()
        pipeline.kind = self.Strange
        with pytest.raises(MarkerMissing, match="others use the group"):
            pipeline.start()
        taken = pipeline.start(trust=["s"]).taken
        assert taken.recovered.committed == 0
        assert pipeline.place.marker is not None

    def test_are_not_asked_of_a_sink_that_remembers_nothing(self) -> None:
        class Forgetful(self.Strange):  # type: ignore[name-defined]
            remembers = False

        pipeline = Pipeline(kind=Forgetful, others={"t": Place()})
        assert pipeline.start().taken.last is None


class TestTheEntryOfTheLastEpoch:
    """A driver may die between the decision and its entry."""

    class Tells(ListSink):
        """As Kafka's marker does: what was written, and from where."""

        def decide(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
            ListSink.commit(self, context, committable)
            self.place.marker = LastCommit(
                lineage="L", epoch=context.epoch, term=1, outcome=Outcome(rows=1), positions=context.positions
            )
            return Verdict.COMMITTED

    def test_is_written_from_the_marker_and_a_replay_is_compared_with_it(self) -> None:
        pipeline = Pipeline(decides=True, kind=self.Tells)
        pipeline.start().run(0, "a")  # its entry never reaches the disk
        again = pipeline.start()
        entry = again.taken.ledger.read(0)
        assert (entry.phase, entry.sinks["s"].rows, entry.decider, entry.finished_at) == (DONE, 1, "s", "noon")
        assert (entry.term, entry.positions, entry.plan) == (2, ['{"in":{"0":1}}'], 'v1\n{}\n{"in":{"0":1}}')
        again.run(0, "a")
        assert pipeline.place.rows == ["a"]

    def test_that_vanishes_before_the_replay_is_written_anew_from_the_marker(self) -> None:
        pipeline = Pipeline(decides=True, kind=self.Tells)
        pipeline.start().run(0, "a")
        again = pipeline.start()
        for name in pipeline.storage.names("ledger"):
            pipeline.storage.remove(f"ledger/{name}")
        again.run(0, "a")
        assert again.taken.ledger.read(0).sinks["s"].rows == 1

    def test_cannot_be_made_up_where_the_marker_does_not_tell(self) -> None:
        pipeline = Pipeline(decides=True)
        pipeline.start().run(0, "a")
        again = pipeline.start()
        assert again.taken.ledger.read(0) is None
        with pytest.raises(LedgerCorrupt, match="epoch 0 of 'p' is committed and must be replayed, but its ledger"):
            again.run(0, "a")

    def test_that_a_person_vouches_for_has_positions_and_no_counts(self) -> None:
        pipeline = Pipeline(decides=True)
        pipeline.start().run(0, "a")
        pipeline.place.marker = None
        taken = pipeline.start(trust=["s"]).taken  # Spark's commit log has the epoch
        entry = taken.ledger.read(0)
        assert (entry.positions, entry.sinks) == (['{"in":{"0":1}}'], {})
        assert pipeline.place.marker is not None
        assert pipeline.place.marker.positions == {TopicPartition("in", 0): 1}


class TestAPlannedEpoch:
    def test_is_planned_anew_where_a_person_asks_for_it(self) -> None:
        pipeline = Pipeline()
        driver = pipeline.start()
        driver.run(0, "a")
        driver.runner.close()
        driver.plan(1, 1000)
        assert pipeline.start().taken.checkpoint.planned() == 1
        taken = pipeline.start(replan=True).taken
        assert taken.checkpoint.planned() == 0
        assert "epoch 1, which nobody has committed, is planned anew, as asked" in taken.resolved

    def test_that_is_committed_is_never_planned_anew(self) -> None:
        pipeline = Pipeline()
        driver = pipeline.start()
        driver.run(0, "a")
        driver.runner.close()
        assert pipeline.start(replan=True).taken.checkpoint.planned() == 0


class TestWeakerGuarantees:
    def test_at_least_once_asks_no_marker_and_finishes_nothing(self) -> None:
        pipeline = Pipeline(decides=True, guarantee=Guarantee.AT_LEAST_ONCE, kind=TestMarkersThatCannotBeRead.Strange)
        taken = pipeline.start().taken
        assert (taken.recovered.committed, taken.expected.held, taken.resolved) == (-1, {}, ())

    def test_at_most_once_gives_up_what_an_older_driver_begins_at_the_last_moment(self) -> None:
        storage = Woken()
        pipeline = Pipeline(guarantee=Guarantee.AT_MOST_ONCE, storage=storage)
        storage.sleeper = pipeline.start()
        second = pipeline.start()
        assert pipeline.place.rows == ["a"]
        second.run(0, "a")  # it may be visible in part: not written again
        second.run(1, "b")
        assert pipeline.place.rows == ["a", "b"]
