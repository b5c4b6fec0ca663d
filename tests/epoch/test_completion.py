"""One epoch after its decision: every sink commits, however often it takes, and nothing is ever taken back."""

import itertools

import pytest

from epoch.scripted import CONTEXT, JOURNAL, Hopeless, Lost, World
from onceward.epoch.coordinator import COMMIT_BACK_OFF_S, Voted
from onceward.epoch.outcome import Outcome
from onceward.errors import CommitUnfinished, PipelineFenced, SinkUnreachable, StagingLost

SHAPES = [pytest.param("kafka", id="kafka-decides"), pytest.param(None, id="ledger-decides")]


def world_of(decider: str | None, **script: object) -> World:
    names = ["files", "table", "lake", *([decider] if decider else [])]
    return World(*names, decider=decider, **script)  # type: ignore[arg-type]


class Empty(Exception):
    """An error that is falsy, as one that is a collection of causes may be."""

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("decider", SHAPES)
class TestCommitsThatFail:
    def test_one_is_repeated_for_ever_with_growing_pauses(self, decider: str | None) -> None:
        """B5: fifty failures are not too many."""
        world = world_of(decider, script={("table", "commit"): [SinkUnreachable("away")] * 50})
        done = world.run()
        assert world.asked("commit").count("table") == 51
        steps = len(COMMIT_BACK_OFF_S)
        assert world.slept == [*COMMIT_BACK_OFF_S, *[COMMIT_BACK_OFF_S[-1]] * (50 - steps)]
        assert list(COMMIT_BACK_OFF_S) == sorted(COMMIT_BACK_OFF_S)
        assert done.attempts == 1
        assert world.asked("abort") == []

    def test_one_holds_up_no_other(self, decider: str | None) -> None:
        """B5: those behind it in the row are committed in the first round, and are not asked again."""
        world = world_of(decider, script={("files", "commit"): [Lost("away")] * 9})
        world.run()
        first_pause = world.lines().index("journal.keep_on")
        assert {"table.commit", "lake.commit"} <= set(world.lines()[:first_pause])
        assert world.asked("commit").count("table") == world.asked("commit").count("lake") == 1
        assert world.asked("commit").count("files") == 10

    def test_several_are_each_repeated_until_they_succeed(self, decider: str | None) -> None:
        world = world_of(
            decider, script={("files", "commit"): [Lost("away")] * 2, ("lake", "commit"): [Lost("away")] * 5}
        )
        world.run()
        asked = world.asked("commit")
        assert (asked.count("files"), asked.count("table"), asked.count("lake")) == (3, 1, 6)
        assert world.slept == list(COMMIT_BACK_OFF_S[:5])

    def test_an_error_without_a_truth_of_its_own_is_a_failure_too(self, decider: str | None) -> None:
        """B5: never skipped."""
        world = world_of(decider, script={("table", "commit"): [Empty()]})
        world.run()
        assert world.asked("commit").count("table") == 2

    def test_one_that_never_can_is_named_with_epoch_and_input_after_the_others_are_committed(
        self, decider: str | None
    ) -> None:
        """B5: stops, and says what is where."""
        lost = Hopeless("what was staged is gone\nwith a trace")
        world = world_of(decider, script={("files", "commit"): [lost]})
        with pytest.raises(CommitUnfinished) as stopped:
            world.run()
        for named in ("epoch 7", "'files'", "in-0 up to 10, in-1 up to 20", "Hopeless: what was staged is gone"):
            assert named in str(stopped.value)
        for named in ("Nothing is lost", "next start", "onceward resolve"):
            assert named in str(stopped.value)
        assert "trace" not in str(stopped.value)
        assert stopped.value.__cause__ is lost
        assert world.asked("commit")[:3] == ["files", "table", "lake"]
        assert world.asked("abort") == world.asked("keep_on") == []
        assert world.slept == []

    def test_one_that_never_can_is_named_rather_than_one_that_is_away(self, decider: str | None) -> None:
        away = itertools.repeat(Lost("away"))
        world = world_of(decider, script={("files", "commit"): away, ("lake", "commit"): [Hopeless("gone")]})
        with pytest.raises(CommitUnfinished, match="sink 'lake' has not made it visible: Hopeless"):
            world.run()

    def test_one_that_learns_after_a_while_that_it_never_can_is_named_then(self, decider: str | None) -> None:
        world = world_of(decider, script={("table", "commit"): [Lost("away"), Lost("away"), Hopeless("gone")]})
        with pytest.raises(CommitUnfinished, match=r"'table'.*gone"):
            world.run()
        assert world.slept == list(COMMIT_BACK_OFF_S[:2])

    def test_a_stop_between_two_tries_names_the_sink_that_is_away(self, decider: str | None) -> None:
        """B5: asked to stop, the pipeline says what is unfinished rather than nothing."""
        stop = Lost("asked to stop")
        away = [SinkUnreachable("away")] * 9
        world = world_of(decider, script={("lake", "commit"): away, (JOURNAL, "keep_on"): [None, None, stop]})
        with pytest.raises(CommitUnfinished, match=r"epoch 7 is decided, and sink 'lake'.*Unreachable: away") as told:
            world.run()
        assert told.value.__cause__ is stop
        assert world.asked("commit").count("lake") == 3
        assert world.asked("abort") == []

    def test_a_driver_that_was_replaced_stops_committing_and_says_so(self, decider: str | None) -> None:
        """C6: its successor goes on with the same commit."""
        world = world_of(
            decider,
            script={
                ("lake", "commit"): itertools.repeat(Lost("away")),
                (JOURNAL, "keep_on"): [None, PipelineFenced("taken over")],
            },
        )
        with pytest.raises(PipelineFenced, match="taken over"):
            world.run()
        assert world.asked("commit").count("lake") == 2
        assert world.asked("abort") == []

    def test_nobody_is_asked_whether_to_go_on_when_all_is_well(self, decider: str | None) -> None:
        world = world_of(decider)
        world.run()
        assert world.asked("keep_on") == []

    def test_an_interrupt_takes_nothing_back(self, decider: str | None) -> None:
        world = world_of(decider)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        world.sinks["table"].commit = interrupt  # type: ignore[assignment, method-assign]
        with pytest.raises(KeyboardInterrupt):
            world.run()
        assert world.asked("abort") == []


class TestTheNextStart:
    """B10: another process has only what the ledger kept: the votes."""

    def votes(self, *names: str) -> dict[str, Voted]:
        return {name: Voted(Outcome(), {"version": 1, "sink": name, "attempt": CONTEXT.attempt}) for name in names}

    def test_it_commits_what_was_voted_for_and_asks_nothing_else(self) -> None:
        world = world_of("kafka", script={("table", "commit"): [Lost("away")]})
        world.coordinator.commit(CONTEXT, self.votes("files", "table", "lake"), world.keep_on)
        assert world.lines() == ["files.commit", "table.commit!", "lake.commit", "journal.keep_on", "table.commit"]

    def test_sinks_that_took_no_part_are_not_asked(self) -> None:
        """One that was added since."""
        world = world_of(None)
        world.coordinator.commit(CONTEXT, self.votes("table"), world.keep_on)
        assert world.lines() == ["table.commit"]

    def test_lost_staging_is_named_with_the_epoch_even_without_kafka_positions(self) -> None:
        world = world_of(None)
        world.coordinator._is_final = lambda error: isinstance(error, StagingLost)
        without = type(CONTEXT)(epoch=7)

        def gone(*_: object) -> None:
            raise StagingLost("no such table")

        world.sinks["files"].commit = gone  # type: ignore[assignment, method-assign]
        with pytest.raises(CommitUnfinished, match=r"epoch 7 .*'files'.*StagingLost.*Its input: see the ledger"):
            world.coordinator.commit(without, self.votes("files"), world.keep_on)

    def test_it_aborts_the_epoch_after_it_in_every_sink_the_decider_first(self) -> None:
        world = world_of("kafka", script={("table", "abort"): [Lost("away")]})
        world.coordinator.abort(CONTEXT)
        assert world.lines() == ["kafka.abort", "lake.abort", "table.abort!", "files.abort"]
        world.run()
        assert world.lines()[4:7] == ["files.begin", "table.abort", "table.begin"]

    def test_nothing_is_asked_where_nobody_else_took_part(self) -> None:
        world = World("kafka", decider="kafka")
        world.coordinator.commit(CONTEXT, {}, world.keep_on)
        assert world.events == []
