# ruff: noqa: ARG002 - a sink's methods take what the contract says
"""One epoch from begin to commit: in which order a sink is asked, and what becomes of failures."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from onceward.epoch.contract import EpochContext, LastCommit, Owner, TwoPhaseCommitSink, Verdict
from onceward.epoch.coordinator import ATTEMPTS, BACK_OFF_S, Attempted, run_epoch
from onceward.epoch.outcome import Outcome
from onceward.errors import EpochFailed, PipelineFenced

CONTEXT = EpochContext(epoch=7)
OUTCOME = Outcome(rows=3, digest=9)
ONE_TRY = ["begin", "write", "pre_commit", "require_current", "commit"]
ONE_ABORT = ["begin", "write", "abort"]


class Worker(Exception):
    """What a lost task looks like."""


class Recorded(TwoPhaseCommitSink):
    """Writes down what it is asked; `answers` says what each step does the first, second, ... time."""

    def __init__(self, **answers: list[Any]) -> None:
        self.calls: list[str] = []
        self.attempts: list[int] = []
        self.answers = answers

    def step(self, name: str, normally: Any = None) -> Any:
        self.calls.append(name)
        queue = self.answers.get(name) or [normally]
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(answer, BaseException):
            raise answer
        return normally if answer is None else answer

    def open(self, owner: Owner) -> None:
        raise AssertionError("not the coordinator's business")

    def last_commit(self) -> LastCommit | None:
        raise AssertionError("not the coordinator's business")

    def begin(self, context: EpochContext) -> None:
        assert context is CONTEXT
        self.step("begin")

    def write(self, context: EpochContext, rows: Any, *, attempt: int) -> Outcome:
        assert rows == "rows"
        self.attempts.append(attempt)
        found: Outcome = self.step("write", OUTCOME)
        return found

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        assert outcome is OUTCOME
        vote: Mapping[str, Any] = self.step("pre_commit", {"vote": 1})
        return vote

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        assert committable == {"vote": 1}
        verdict: Verdict = self.step("commit", Verdict.COMMITTED)
        return verdict

    def abort(self, context: EpochContext) -> None:
        self.step("abort")

    def digest(self, context: EpochContext, rows: Any) -> Outcome:
        raise AssertionError("not the coordinator's business")


class Run:
    def __init__(self, sink: Recorded, is_final: Callable[[Exception], bool] = lambda _: False) -> None:
        self.sink, self.is_final = sink, is_final
        self.slept: list[float] = []
        self.now = 0.0

    def clock(self) -> float:
        self.now += 0.010
        return self.now

    def __call__(self) -> Attempted:
        return run_epoch(
            self.sink,
            CONTEXT,
            "rows",
            require_current=lambda: self.sink.step("require_current"),
            is_final=self.is_final,
            clock=self.clock,
            sleep=self.slept.append,
        )


def test_an_epoch_is_begun_written_voted_checked_and_committed_in_this_order() -> None:
    """B2, B3."""
    run = Run(Recorded())
    done = run()
    assert run.sink.calls == ONE_TRY
    assert (done.outcome, done.attempts) == (OUTCOME, 1)
    assert done.milliseconds == {"write": 10.0, "commit": 10.0}
    assert run.slept == []


@pytest.mark.parametrize("step", ["write", "pre_commit", "require_current"])
def test_a_failure_before_the_commit_aborts_and_the_epoch_is_redone(step: str) -> None:
    """B4: nothing of a failed try is ever visible."""
    run = Run(Recorded(**{step: [Worker("lost"), None]}))
    done = run()
    failed = ONE_TRY[: ONE_TRY.index(step) + 1]
    assert run.sink.calls == [*failed, "abort", *ONE_TRY]
    assert done.attempts == 2
    assert run.sink.attempts == [1, 2]
    assert run.slept == [0.0]


def test_back_off_grows_and_no_try_follows_the_last() -> None:
    run = Run(Recorded(write=[Worker("lost")]))
    with pytest.raises(EpochFailed):
        run()
    assert run.slept == list(BACK_OFF_S)
    assert run.sink.attempts == list(range(1, ATTEMPTS + 1))
    assert run.sink.calls == ONE_ABORT * ATTEMPTS


def test_an_epoch_that_was_aborted_as_often_as_allowed_names_every_cause() -> None:
    run = Run(Recorded(write=[*(Worker(f"cause {n}\nand a long trace") for n in range(1, ATTEMPTS + 1))]))
    with pytest.raises(EpochFailed) as failed:
        run()
    assert f"epoch 7 was aborted {ATTEMPTS} times, nothing of it is visible and nothing is lost" in str(failed.value)
    for number in range(1, ATTEMPTS + 1):
        assert f"try {number}: Worker: cause {number}" in str(failed.value)
    assert "long trace" not in str(failed.value)
    assert isinstance(failed.value.__cause__, Worker)


def test_a_final_error_is_aborted_once_and_not_retried() -> None:
    refused = Worker("no such column")
    run = Run(Recorded(write=[refused]), is_final=lambda error: error is refused)
    with pytest.raises(Worker, match="no such column"):
        run()
    assert run.sink.calls == ONE_ABORT


def test_a_fence_found_before_the_commit_stops_the_epoch() -> None:
    """C6: a zombie that wakes with everything written must not commit."""
    run = Run(Recorded(require_current=[PipelineFenced("taken over")]), lambda error: isinstance(error, PipelineFenced))
    with pytest.raises(PipelineFenced):
        run()
    assert run.sink.calls == ["begin", "write", "pre_commit", "require_current", "abort"]


def test_a_fence_found_while_aborting_is_what_the_caller_hears() -> None:
    run = Run(Recorded(write=[Worker("refused")], abort=[PipelineFenced("taken over")]))
    with pytest.raises(PipelineFenced) as fenced:
        run()
    assert isinstance(fenced.value.__context__, Worker)
    assert run.sink.calls == ONE_ABORT


def test_a_commit_that_is_proven_not_to_have_happened_redoes_the_epoch() -> None:
    """C9: timed out by the broker, noticed, redone."""
    run = Run(Recorded(commit=[Verdict.ABORTED, Verdict.COMMITTED]))
    assert run().attempts == 2
    assert run.sink.calls == [*ONE_TRY, *ONE_TRY]


def test_commits_that_never_happen_end_in_a_failure_that_says_so() -> None:
    run = Run(Recorded(commit=[Verdict.ABORTED]))
    with pytest.raises(EpochFailed, match=rf"aborted {ATTEMPTS} times.*try {ATTEMPTS}: .*transaction that timed out"):
        run()
    assert "abort" not in run.sink.calls


@pytest.mark.parametrize("error", [Worker("answer lost"), PipelineFenced("taken over"), OSError("disk")])
def test_whatever_the_commit_raises_no_abort_follows_and_no_second_try(error: Exception) -> None:
    """B5; planted bug: abort after an unknown commit."""
    run = Run(Recorded(commit=[error]))
    with pytest.raises(type(error)):
        run()
    assert run.sink.calls == ONE_TRY


def test_a_begin_that_fails_is_not_hidden() -> None:
    run = Run(Recorded(begin=[Worker("no producer id")]))
    with pytest.raises(Worker):
        run()
    assert run.sink.calls == ["begin"]


def test_an_interrupt_is_not_swallowed_by_a_retry() -> None:
    run = Run(Recorded(write=[KeyboardInterrupt()]))
    with pytest.raises(KeyboardInterrupt):
        run()
    assert "commit" not in run.sink.calls
