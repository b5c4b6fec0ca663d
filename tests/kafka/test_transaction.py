"""The transaction's table, read as the guarantee it states."""

import itertools

import pytest

from onceward.kafka.transaction import (
    FINAL,
    REQUESTS,
    TRANSITIONS,
    EpochTransaction,
    Event,
    Identity,
    IllegalTransition,
    State,
    reachable,
)

# Asking who owns the pipeline, then reading the marker: the only place where an unknown outcome is decided.
ASKING = {State.RECLAIMING, State.READING}
BROKER_SAID_NO = {Event.REFUSED, Event.WRITE_FAILED}


def at(state: State) -> EpochTransaction:
    return EpochTransaction(epoch=7, identity=Identity(1, 2), state=state)


Path = tuple[tuple[State, Event, State], ...]


def paths(start: State, goal: State) -> list[Path]:
    """Every way from start to goal that visits no state twice."""
    found: list[Path] = []
    todo: list[tuple[Path, State]] = [((), start)]
    while todo:
        path, here = todo.pop()
        if here is goal:
            found.append(path)
            continue
        seen = {start, *(step[2] for step in path)}
        for (state, event), then in TRANSITIONS.items():
            if state is here and then not in seen:
                todo.append(((*path, (state, event, then)), then))
    return found


def test_a_decision_is_never_undone() -> None:
    """C6, design 3: once EndTxn(commit) may have been sent, ABORTED is only what an absent marker proves."""
    ways = paths(State.COMMITTING, State.ABORTED)
    assert ways
    for way in ways:
        assert [step[0] for step in way] == [State.COMMITTING, State.RECLAIMING, State.READING]
        assert [step[1] for step in way] == [Event.IDENTITY_LOST, Event.ACCEPTED, Event.MARKER_ABSENT]


def test_no_abort_is_ever_sent_after_the_commit() -> None:
    """Planted bug: abort after an unknown commit."""
    for state in (State.COMMITTING, *ASKING, *FINAL):
        assert State.ABORTING not in reachable(state)


def test_no_abort_turns_into_a_commit_but_by_the_marker() -> None:
    for way in paths(State.ABORTING, State.COMMITTED):
        assert way[-1] == (State.READING, Event.MARKER_FOUND, State.COMMITTED)
    assert State.COMMITTING not in reachable(State.ABORTING)


def test_an_unknown_answer_changes_nothing() -> None:
    """Unknown is neither success nor failure: the same request goes again."""
    for state in REQUESTS:
        assert at(state).after(Event.ANSWER_LOST) == at(state)
    assert {state for state, event in TRANSITIONS if event is Event.ANSWER_LOST} == REQUESTS


def test_every_state_is_final_or_writes_or_has_a_way_on_for_a_lost_answer() -> None:
    assert set(State) == FINAL | REQUESTS | {State.WRITING}
    assert not FINAL & REQUESTS


def test_final_states_have_no_way_out() -> None:
    for state in FINAL:
        assert reachable(state) == {state}
        assert at(state).over


def test_every_other_state_can_still_end() -> None:
    for state in set(State) - FINAL:
        assert reachable(state) & FINAL
        assert not at(state).over


def test_the_marker_is_accepted_before_the_commit_is_sent() -> None:
    """Planted bug: marker after EndTxn."""
    into = {pair for pair, then in TRANSITIONS.items() if then is State.COMMITTING and pair[0] is not then}
    assert into == {(State.MARKING, Event.ACCEPTED)}


def test_the_marker_follows_the_last_acknowledgement() -> None:
    """Planted bug: commit before all acknowledgements."""
    into = {pair for pair, then in TRANSITIONS.items() if then is State.MARKING and pair[0] is not then}
    assert into == {(State.WRITING, Event.WRITTEN)}


def test_a_failed_write_or_a_refused_marker_can_only_abort() -> None:
    for pair, then in TRANSITIONS.items():
        if pair[1] in BROKER_SAID_NO:
            assert then is State.ABORTING


def test_a_lost_identity_always_asks_for_ownership_first() -> None:
    """C9: a timeout and a fence give the same answer; only asking tells them apart."""
    for pair, then in TRANSITIONS.items():
        if pair[1] is Event.IDENTITY_LOST:
            assert then is State.RECLAIMING


def test_the_marker_is_read_only_by_the_proven_owner() -> None:
    """Planted bug: marker read before fencing."""
    into = {pair for pair, then in TRANSITIONS.items() if then is State.READING and pair[0] is not then}
    assert into == {(State.RECLAIMING, Event.ACCEPTED)}


def test_only_a_successor_fences() -> None:
    into = {pair for pair, then in TRANSITIONS.items() if then is State.FENCED}
    assert into == {(State.RECLAIMING, Event.SUCCESSOR_FOUND)}


def test_every_state_is_reached_from_writing() -> None:
    assert reachable(State.WRITING) == set(State)


@pytest.mark.parametrize(
    ("state", "event"),
    [pair for pair in itertools.product(State, Event) if pair not in TRANSITIONS],
    ids=lambda member: member.name,
)
def test_a_pair_that_is_not_in_the_table_raises(state: State, event: Event) -> None:
    with pytest.raises(IllegalTransition, match=f"epoch 7: {event.name} in {state.name}"):
        at(state).after(event)


def test_a_transition_keeps_epoch_and_identity() -> None:
    for state, event in TRANSITIONS:
        then = at(state).after(event)
        assert (then.epoch, then.identity) == (7, Identity(1, 2))
