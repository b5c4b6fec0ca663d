"""What a pipeline's state is called: from the lease, the process and what the driver says, never from one alone."""

import pytest

from onceward.dashboard.life import ALIVE, ENDED, HALTED, UNKNOWN, Sign, how_ended, state_of
from onceward.epoch.term import Holder
from onceward.telemetry.activity import Activity

HOLDER = Holder(term=3, pipeline="p", host="h", machine="m", pid=7, process_start="1", since="2026-01-01T00:00:00Z")
FRESH = {"holder": HOLDER, "beat_age_s": 0.5, "process": ALIVE, "began": True}


def said(state: str, **facts: object) -> Activity:
    return Activity(pipeline="p", term=3, pid=7, host="h", started_at="", state=state, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "word", "reason"),
    [
        ({"holder": None}, "stopped", "never been started"),
        (FRESH, "running", ""),
        ({**FRESH, "began": False}, "recovering", "finds out what is committed"),
        ({**FRESH, "said": said("starting")}, "recovering", "Spark is starting"),
        ({**FRESH, "said": said("replaying", epoch=4)}, "recovering", "epoch 4 is replayed"),
        ({**FRESH, "said": said("running")}, "running", ""),
        ({**FRESH, "said": said("stopping")}, "running", "asked to stop"),
        ({**FRESH, "said": said("waiting", waits_for="PostgreSQL: refused")}, "waiting", "waiting for PostgreSQL"),
        ({**FRESH, "process": ENDED, "said": said("running")}, "killed", "process 7 on h"),
        ({**FRESH, "process": HALTED, "said": said("running")}, "paused", "SIGSTOP"),
        ({**FRESH, "beat_age_s": 60.0, "said": said("running")}, "paused", "has not moved for 60 s"),
        ({**FRESH, "beat_age_s": 60.0, "process": UNKNOWN}, "stopped", "no sign of life"),
        ({**FRESH, "released": True}, "stopped", "it was stopped"),
        ({**FRESH, "released": True, "began": False}, "stopped", "before it could go on"),
        ({**FRESH, "said": said("stopped")}, "stopped", "it was stopped"),
        ({**FRESH, "said": said("failed", last_error="disk full")}, "failed", "disk full"),
        ({**FRESH, "said": said("fenced", last_error="taken over")}, "fenced", "taken over"),
    ],
)
def test_a_state_is_what_is_seen_and_not_what_is_claimed(facts: dict[str, object], word: str, reason: str) -> None:
    """I2: a driver that says "running" and is dead is stopped; one that is halted is paused."""
    found = state_of(Sign(**facts), in_doubt=None)  # type: ignore[arg-type]
    assert found.word == word
    assert reason in found.reason


@pytest.mark.parametrize("over", [{"released": True}, {"process": ENDED}, {"said": said("failed", last_error="x")}])
def test_a_pipeline_that_nobody_drives_with_an_epoch_in_doubt_is_in_doubt(over: dict[str, object]) -> None:
    """B10: however it ended."""
    found = state_of(Sign(**{**FRESH, **over}), in_doubt=9)  # type: ignore[arg-type]
    assert found.word == "in doubt"
    assert "epoch 9" in found.reason


def test_a_driver_that_is_just_committing_is_not_in_doubt() -> None:
    assert state_of(Sign(**FRESH), in_doubt=9).word == "running"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sign", "how"),
    [
        (Sign(HOLDER, said=said("fenced")), "fenced"),
        (Sign(HOLDER, said=said("failed")), "failed"),
        (Sign(HOLDER, released=True, said=said("running")), "stopped"),
        (Sign(HOLDER, said=said("running")), "killed"),
        (Sign(HOLDER), "killed"),
    ],
)
def test_how_a_term_ended_is_what_its_driver_said_or_else_what_it_left(sign: Sign, how: str) -> None:
    assert how_ended(sign) == how
