"""Whether a pipeline lives, and what its state is called. Pure: signs of life in, a word and its reason out."""

from typing import Final, NamedTuple

from onceward.epoch.term import LEASE_S, Holder
from onceward.telemetry import activity
from onceward.telemetry.activity import Activity

RUNNING: Final = "running"
RECOVERING: Final = "recovering"
WAITING: Final = "waiting"
PAUSED: Final = "paused"
IN_DOUBT: Final = "in doubt"
STOPPED: Final = "stopped"
KILLED: Final = "killed"
FENCED: Final = "fenced"
FAILED: Final = "failed"
DAMAGED: Final = "damaged"
GONE: Final = "gone"
LIVING: Final = frozenset({RUNNING, RECOVERING, WAITING, PAUSED})

# What is known of a driver's process: only on its own machine can it be asked for.
ALIVE: Final = "alive"
HALTED: Final = "halted"  # by a signal, or by a debugger
ENDED: Final = "ended"
UNKNOWN: Final = "unknown"


class Sign(NamedTuple):
    """Of life, of one term."""

    holder: Holder | None
    released: bool = False
    beat_age_s: float | None = None  # since its lease or its activity was last written
    process: str = UNKNOWN
    began: bool = False  # it has found out where to go on
    said: Activity | None = None


class State(NamedTuple):
    """In a word, and why."""

    word: str
    reason: str = ""


def state_of(sign: Sign, *, in_doubt: int | None) -> State:
    """Of the newest term. A pipeline that nobody drives, with an epoch in doubt, is in doubt, however it ended."""
    if sign.holder is None:
        return State(STOPPED, "it has never been started")
    state = _ended(sign, sign.holder) or _halted(sign, sign.holder)
    if state is None:
        return _living(sign)
    if state.word not in LIVING and in_doubt is not None:
        return State(IN_DOUBT, f"epoch {in_doubt} is between its votes and its completion; {state.reason}")
    return state


def how_ended(sign: Sign) -> str:
    """Of a term that is over: stopped, fenced, failed or killed."""
    if sign.said is not None and sign.said.state in activity.OVER:
        return sign.said.state
    return STOPPED if sign.released else KILLED


def _ended(sign: Sign, holder: Holder) -> State | None:
    said = sign.said
    if said is not None and said.state in activity.OVER:
        words = {activity.STOPPED: STOPPED, activity.FENCED: FENCED, activity.FAILED: FAILED}
        reason = said.last_error if said.state != activity.STOPPED else "it was stopped"
        return State(words[said.state], reason)
    if sign.released:
        return State(STOPPED, "it was stopped" if sign.began else "its last start ended before it could go on")
    if sign.process == ENDED:
        return State(KILLED, f"process {holder.pid} on {holder.host} has ended without saying so")
    return None


def _halted(sign: Sign, holder: Holder) -> State | None:
    process = f"process {holder.pid} on {holder.host}"
    if sign.process == HALTED:
        return State(PAUSED, f"{process} is halted (SIGSTOP)")
    if sign.beat_age_s is None or sign.beat_age_s <= LEASE_S:
        return None
    silent = f"{process} has not moved for {sign.beat_age_s:.0f} s"
    return State(PAUSED, silent) if sign.process == ALIVE else State(STOPPED, f"no sign of life: {silent}")


def _living(sign: Sign) -> State:
    said = sign.said
    if not sign.began:
        return State(RECOVERING, "a driver takes the home over and finds out what is committed")
    if said is None:
        return State(RUNNING, "")
    if said.state == activity.STARTING:
        return State(RECOVERING, "Spark is starting the query")
    if said.state == activity.REPLAYING:
        return State(RECOVERING, f"epoch {said.epoch} is replayed: it is committed, and the state is rebuilt")
    if said.state == activity.WAITING:
        return State(WAITING, f"waiting for {said.waits_for}")
    return State(RUNNING, "it was asked to stop, and finishes its epoch" if said.state == activity.STOPPING else "")
