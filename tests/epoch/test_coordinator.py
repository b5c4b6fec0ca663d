"""One epoch up to its decision: in which order the sinks are asked, and what becomes of failures."""

import itertools
from collections.abc import Callable

import pytest

from epoch.scripted import JOURNAL, Hopeless, Lost, World
from onceward import crashpoints
from onceward.epoch.contract import Verdict
from onceward.epoch.outcome import Outcome
from onceward.epoch.tries import ATTEMPTS, BACK_OFF_S
from onceward.errors import CommitUnproven, EpochFailed, PipelineFenced

Make = Callable[..., World]


def alone(**script: object) -> World:
    """Kafka is the only sink."""
    return World("kafka", decider="kafka", **script)  # type: ignore[arg-type]


def with_decider(**script: object) -> World:
    """Kafka decides for two others; it was named first."""
    return World("kafka", "files", "table", decider="kafka", **script)  # type: ignore[arg-type]


def without_decider(**script: object) -> World:
    """The ledger decides for two sinks."""
    return World("files", "table", **script)  # type: ignore[arg-type]


SHAPES = [alone, with_decider, without_decider]
ONE_TRY = {
    alone: ["kafka.begin", "kafka.write", "kafka.pre_commit", "journal.ready", "kafka.decide", "kafka.commit"],
    with_decider: [
        "files.begin", "table.begin", "kafka.begin",
        "files.write", "table.write", "kafka.write",
        "files.pre_commit", "table.pre_commit", "kafka.pre_commit",
        "journal.ready", "journal.prepare", "kafka.decide",
        "files.commit", "table.commit", "kafka.commit",
    ],
    without_decider: [
        "files.begin", "table.begin", "files.write", "table.write", "files.pre_commit", "table.pre_commit",
        "journal.ready", "journal.decide", "files.commit", "table.commit",
    ],
}  # fmt: skip
ABORTS = {
    alone: ["kafka.abort"],
    with_decider: ["kafka.abort", "table.abort", "files.abort"],
    without_decider: ["table.abort", "files.abort"],
}
UNDECIDED = ("begin", "write", "pre_commit", "ready", "prepare")
# Every step before the decision, of every sink, in every shape.
STEPS = [
    pytest.param(shape, *line.split("."), id=f"{shape.__name__}-{line}")
    for shape in SHAPES
    for line in ONE_TRY[shape]
    if line.endswith(UNDECIDED)
]
DECISIONS = [(alone, "kafka"), (with_decider, "kafka"), (without_decider, JOURNAL)]


class TestOrder:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_all_begin_then_all_write_then_all_vote_then_one_decision_then_all_commit(self, shape: Make) -> None:
        """B2, B3, B9: whoever decides is last in everything, however the sinks were named."""
        world = shape()
        done = world.run()
        assert world.lines() == ONE_TRY[shape]
        assert done.attempts == 1
        assert world.slept == []

    def test_the_votes_are_noted_before_the_deciding_sink_is_asked(self) -> None:
        """B3: a crash after Kafka's commit finds what the other sinks need."""
        world = with_decider()
        world.run()
        assert world.prepared == [
            {name: {"version": 1, "sink": name, "attempt": 1} for name in ("files", "table", "kafka")}
        ]

    def test_a_lone_deciding_sink_needs_no_note(self) -> None:
        world = alone()
        world.run()
        assert world.prepared == []

    def test_what_each_sink_received_is_kept(self) -> None:
        world = with_decider()
        world.sinks["table"].outcome = Outcome(rows=4, digest=8)
        done = world.run()
        assert {name: voted.outcome.rows for name, voted in done.sinks.items()} == {"files": 3, "table": 4, "kafka": 3}
        assert world.counted == []

    def test_rows_that_a_sink_does_not_count_are_counted_for_it(self) -> None:
        world = without_decider()
        world.sinks["table"].outcome = None
        done = world.run()
        assert world.counted == ["rows of table"]
        assert done.sinks["table"].outcome == Outcome(rows=5, digest=55)

    def test_a_sink_that_knows_how_long_its_rows_took_to_compute_says_so(self) -> None:
        world = without_decider()
        world.sinks["table"].computed_s = 0.25
        done = world.run()
        assert done.sinks["table"].milliseconds["compute"] == 250.0
        assert "compute" not in done.sinks["files"].milliseconds

    def test_each_step_of_each_sink_is_timed(self) -> None:
        done = with_decider().run()
        assert {name: sorted(voted.milliseconds) for name, voted in done.sinks.items()} == {
            "files": ["begin", "commit", "pre_commit", "write"],
            "table": ["begin", "commit", "pre_commit", "write"],
            "kafka": ["begin", "decide", "pre_commit", "write"],
        }
        assert list(done.milliseconds) == ["vote", "decide", "commit"]
        assert all(took > 0 for took in done.milliseconds.values())

    @pytest.mark.parametrize(
        ("shape", "wanted"),
        [
            (alone, "begun written voted decided"),
            (with_decider, "begun written voted voted voted prepared decided committed committed"),
            (without_decider, "begun written voted voted decided committed committed"),
        ],
    )
    def test_between_any_two_steps_is_a_place_to_crash(
        self, shape: Make, wanted: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """G1: and each is one that can be named from outside."""
        reached: list[str] = []
        monkeypatch.setattr(crashpoints, "reach", lambda point, epoch: reached.append(f"{point}@{epoch}"))
        shape().run()
        assert reached == [f"{point}@7" for point in wanted.split()]
        assert set(wanted.split()) <= set(crashpoints.POINTS)

    @pytest.mark.parametrize(("shape", "who"), DECISIONS[:2])
    def test_a_commit_that_did_not_happen_is_no_place_after_the_decision(
        self, shape: Make, who: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reached: list[str] = []
        monkeypatch.setattr(crashpoints, "reach", lambda point, _: reached.append(point))
        shape(script={(who, "decide"): [Verdict.ABORTED]}).run()
        assert reached.count("decided") == 1


class TestFailuresBeforeTheDecision:
    @pytest.mark.parametrize(("shape", "who", "step"), STEPS)
    def test_every_sink_is_aborted_and_the_epoch_is_redone(self, shape: Make, who: str, step: str) -> None:
        """A7, B4: the decider first, and those that had not even begun too."""
        world = shape(script={(who, step): [Lost("away")]})
        done = world.run()
        whole = ONE_TRY[shape]
        failed = whole[: whole.index(f"{who}.{step}")]
        assert world.lines() == [*failed, f"{who}.{step}!", *ABORTS[shape], *whole]
        assert [event.attempt for event in world.events] == [1] * (len(failed) + 1 + len(ABORTS[shape])) + [2] * len(
            whole
        )
        assert done.attempts == 2
        assert world.slept == [0.0]

    @pytest.mark.parametrize(("shape", "who", "step"), STEPS)
    def test_an_error_that_stays_the_same_aborts_every_sink_once_and_is_not_retried(
        self, shape: Make, who: str, step: str
    ) -> None:
        world = shape(script={(who, step): [Hopeless("no such column")]})
        with pytest.raises(Hopeless, match="no such column"):
            world.run()
        assert world.lines()[-len(ABORTS[shape]) - 1 :] == [f"{who}.{step}!", *ABORTS[shape]]
        assert {event.attempt for event in world.events} == {1}

    @pytest.mark.parametrize("shape", SHAPES)
    def test_back_off_grows_and_no_try_follows_the_last(self, shape: Make) -> None:
        world = shape(script={(JOURNAL, "ready"): itertools.repeat(Lost("away"))})
        with pytest.raises(EpochFailed):
            world.run()
        assert world.slept == list(BACK_OFF_S)
        assert [event.attempt for event in world.events if event.step == "ready"] == list(range(1, ATTEMPTS + 1))
        assert len(world.asked("abort")) == ATTEMPTS * len(ABORTS[shape])
        assert world.asked("decide") == []

    def test_of_a_java_exception_the_last_cause_is_named(self) -> None:
        trace = "An error occurred while calling o7.x.\n: Spark: aborted\nCaused by: A\n\tat b\nCaused by: disk full"
        world = without_decider(script={("table", "write"): itertools.repeat(Lost(trace))})
        with pytest.raises(EpochFailed, match=r"tries 1 to 6: Lost: An error occurred .* Caused by: disk full$"):
            world.run()

    def test_an_epoch_that_was_aborted_as_often_as_allowed_names_every_cause(self) -> None:
        causes = [Lost(f"cause {number}\nand a long trace") for number in range(1, ATTEMPTS + 1)]
        world = without_decider(script={("table", "write"): causes})
        with pytest.raises(EpochFailed) as failed:
            world.run()
        text = str(failed.value)
        assert f"epoch 7 was aborted {ATTEMPTS} times, nothing of it is visible and nothing is lost" in text
        for number in range(1, ATTEMPTS + 1):
            assert f"try {number}: Lost: cause {number}" in text
        assert "long trace" not in text
        assert failed.value.__cause__ is causes[-1]

    def test_a_second_trys_votes_are_noted_in_place_of_the_firsts(self) -> None:
        """Kafka's marker names the term only: what is noted last must be what Kafka is asked to commit."""
        world = with_decider(script={("kafka", "decide"): [Verdict.ABORTED]})
        world.run()
        assert [noted["files"]["attempt"] for noted in world.prepared] == [1, 2]

    def test_an_interrupt_is_not_swallowed_by_a_retry(self) -> None:
        world = without_decider()

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        world.sinks["table"].write = interrupt  # type: ignore[assignment, method-assign]
        with pytest.raises(KeyboardInterrupt):
            world.run()
        assert world.asked("decide") == world.asked("commit") == []


class TestAbortsThatFail:
    @pytest.mark.parametrize("unwell", ["files", "table"])
    def test_one_that_cannot_clean_up_holds_up_no_other_and_is_asked_again_before_its_next_begin(
        self, unwell: str
    ) -> None:
        """B4."""
        world = with_decider(script={("kafka", "write"): [Lost("task")], (unwell, "abort"): [Lost("away")]})
        done = world.run()
        assert done.attempts == 2
        aborts = [f"{name}.abort{'!' if name == unwell else ''}" for name in ("kafka", "table", "files")]
        whole = list(ONE_TRY[with_decider])
        whole.insert(whole.index(f"{unwell}.begin"), f"{unwell}.abort")
        at = world.lines().index("kafka.write!")
        assert world.lines()[at + 1 :] == [*aborts, *whole]

    def test_one_that_still_cannot_clean_up_costs_another_try(self) -> None:
        world = without_decider(
            script={("table", "write"): [Lost("task")], ("files", "abort"): [Lost("away"), Lost("away"), None]}
        )
        assert world.run().attempts == 3
        second = [event for event in world.events if event.attempt == 2]
        assert [event[:2] for event in second] == [("files", "abort"), ("table", "abort"), ("files", "abort")]
        begun = [event for event in world.events if event[:2] == ("files", "begin")]
        assert [event.attempt for event in begun] == [1, 3]

    @pytest.mark.parametrize("verdict", [True, False], ids=["after-a-verdict", "after-an-error"])
    def test_a_decider_that_cannot_abort_stops_the_epoch_after_the_others_were_aborted(self, verdict: bool) -> None:
        """C6: fenced while aborting; the caller hears of the fence, and nothing is left staged."""
        first = {("kafka", "decide"): [Verdict.ABORTED]} if verdict else {("files", "write"): [Lost("task")]}
        world = with_decider(script={**first, ("kafka", "abort"): [PipelineFenced("taken over")]})
        with pytest.raises(PipelineFenced) as fenced:
            world.run()
        assert world.lines()[-3:] == ["kafka.abort!", "table.abort", "files.abort"]
        assert verdict or isinstance(fenced.value.__context__, Lost)

    def test_an_abort_that_can_never_succeed_stops_the_epoch_after_the_others_were_aborted(self) -> None:
        world = without_decider(
            script={("files", "write"): [Lost("task")], ("table", "abort"): [Hopeless("no rights")]}
        )
        with pytest.raises(Hopeless):
            world.run()
        assert world.lines()[-2:] == ["table.abort!", "files.abort"]

    def test_of_several_that_cannot_the_first_is_what_the_caller_hears(self) -> None:
        world = with_decider(
            script={
                ("files", "write"): [Lost("task")],
                ("kafka", "abort"): [PipelineFenced("taken over")],
                ("files", "abort"): [Hopeless("no rights")],
            }
        )
        with pytest.raises(PipelineFenced):
            world.run()
        assert world.lines()[-3:] == ["kafka.abort!", "table.abort", "files.abort!"]


class TestTheDecision:
    @pytest.mark.parametrize("error", [Lost("answer lost"), PipelineFenced("x"), CommitUnproven("x"), Hopeless("x")])
    @pytest.mark.parametrize(("shape", "who"), DECISIONS)
    def test_whatever_a_decision_raises_no_abort_follows_no_second_try_and_no_commit(
        self, shape: Make, who: str, error: Exception
    ) -> None:
        """B5: an unknown end is not a no."""
        world = shape(script={(who, "decide"): [error]})
        with pytest.raises(type(error)) as raised:
            world.run()
        assert raised.value is error
        assert world.lines()[-1] == f"{who}.decide!"
        assert world.asked("abort") == world.asked("commit") == []
        assert world.slept == []

    @pytest.mark.parametrize("shape", [alone, with_decider])
    def test_a_commit_that_is_proven_not_to_have_happened_aborts_all_and_redoes_the_epoch(self, shape: Make) -> None:
        """B4, C9: timed out by the broker, noticed, redone."""
        world = shape(script={("kafka", "decide"): [Verdict.ABORTED, Verdict.COMMITTED]})
        assert world.run().attempts == 2
        whole = ONE_TRY[shape]
        failed = whole[: whole.index("kafka.decide")]
        assert world.lines() == [*failed, "kafka.decide!", *ABORTS[shape], *whole]

    def test_commits_that_never_happen_end_in_a_failure_that_says_so(self) -> None:
        world = with_decider(script={("kafka", "decide"): itertools.repeat(Verdict.ABORTED)})
        with pytest.raises(
            EpochFailed, match=rf"aborted {ATTEMPTS} times.*tries 1 to {ATTEMPTS}: .*transaction that timed out"
        ):
            world.run()
        assert len(world.asked("decide")) == ATTEMPTS
        assert len(world.asked("abort")) == 3 * ATTEMPTS
        assert world.asked("commit") == []
