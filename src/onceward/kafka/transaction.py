"""The Kafka transaction that carries one epoch: which step follows which.

Pure: no socket, no clock. The caller sends the request of the current state and feeds what came back to
`after`. There is no PREPARED state: records and marker share one transaction, so EndTxn is the vote,
the decision and the publication at once (docs/decisions/0002).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Self


class State(Enum):
    """Where an epoch's transaction stands."""

    WRITING = auto()  # tasks produce with our identity
    MARKING = auto()  # the marker enters the transaction, after the last record
    COMMITTING = auto()  # decided: the only way on is forward
    ABORTING = auto()
    RECLAIMING = auto()  # the transaction is no longer open under our identity: ask for a new one, as its owner
    READING = auto()  # we own the pipeline still: the marker tells how the transaction ended
    COMMITTED = auto()
    ABORTED = auto()
    FENCED = auto()  # a newer driver owns the pipeline; its marker tells how this epoch ended


class Event(Enum):
    """What can happen to a transaction."""

    WRITTEN = auto()  # every record is acknowledged
    WRITE_FAILED = auto()  # or repeated: the transaction is poisoned (docs/decisions/0003)
    ACCEPTED = auto()
    REFUSED = auto()
    ANSWER_LOST = auto()  # unknown: neither success nor failure
    IDENTITY_LOST = auto()  # timed out by the broker, or fenced: the answer does not say which
    SUCCESSOR_FOUND = auto()  # fenced it is: another driver has asked for an identity since
    MARKER_FOUND = auto()
    MARKER_ABSENT = auto()


REQUESTS: Final = frozenset({State.MARKING, State.COMMITTING, State.ABORTING, State.RECLAIMING, State.READING})
FINAL: Final = frozenset({State.COMMITTED, State.ABORTED, State.FENCED})

TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.WRITING, Event.WRITTEN): State.MARKING,
    (State.WRITING, Event.WRITE_FAILED): State.ABORTING,
    (State.MARKING, Event.ACCEPTED): State.COMMITTING,
    (State.MARKING, Event.REFUSED): State.ABORTING,
    (State.COMMITTING, Event.ACCEPTED): State.COMMITTED,
    (State.ABORTING, Event.ACCEPTED): State.ABORTED,
    (State.RECLAIMING, Event.ACCEPTED): State.READING,
    (State.RECLAIMING, Event.SUCCESSOR_FOUND): State.FENCED,
    (State.READING, Event.MARKER_FOUND): State.COMMITTED,
    (State.READING, Event.MARKER_ABSENT): State.ABORTED,
    # Every request is idempotent: after a lost answer, stay and ask again.
    **{(state, Event.ANSWER_LOST): state for state in REQUESTS},
    # Ownership is asked for once, under the old identity (KIP-360); then the marker is read.
    **{
        (state, Event.IDENTITY_LOST): State.RECLAIMING
        for state in (State.WRITING, State.MARKING, State.COMMITTING, State.ABORTING)
    },
}


class IllegalTransition(AssertionError):
    """A bug of ours: this cannot happen in this state."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A producer id and epoch: always taken from a broker's answer, never computed (trap of the 16-bit epoch)."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTransaction:
    """One try at one epoch."""

    epoch: int
    identity: Identity
    state: State = State.WRITING

    def after(self, event: Event) -> Self:
        """The transaction after `event`, or `IllegalTransition`."""
        if (self.state, event) not in TRANSITIONS:
            raise IllegalTransition(f"epoch {self.epoch}: {event.name} in {self.state.name}")
        return replace(self, state=TRANSITIONS[self.state, event])

    @property
    def over(self) -> bool:
        """No request is left to send."""
        return self.state in FINAL


def reachable(start: State) -> set[State]:
    """Every state that can follow `start`, however long it takes."""
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for (state, _), then in TRANSITIONS.items():
            if state is here and then not in seen:
                seen.add(then)
                todo.append(then)
    return seen


def diagram() -> str:
    """The table as a Mermaid picture; ARCHITECTURE.md shows it, and a test compares the two."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.WRITING.name}"]
    lines += [
        f"    {state.name} --> {then.name}: {event.name}"
        for (state, event), then in TRANSITIONS.items()
        if event is not Event.ANSWER_LOST  # everywhere the same: stay and ask again
    ]
    return "\n".join([*lines, *(f"    {state.name} --> [*]" for state in State if state in FINAL)])
