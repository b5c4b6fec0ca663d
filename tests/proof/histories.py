"""A small history in which all is well; each test spoils one thing in it."""

from dataclasses import replace
from typing import Any

from onceward.proof.history import Began, Damaged, Ended, History, LedgerLine, LogBatch, Observed, Part, Place, Row

IN: Place = ("in", 0)
OUT = [("out", 0), ("out", 1)]
STORE: Place = ("s", 0)


def row(identifier: int, count: int = 1, *, epoch: int = 0, term: int = 1, attempt: int = 1, key: int = 0) -> Row:
    return Row(identifier, key, count, epoch, term, attempt)


FIRST = [row(1, 1), row(2, 1, key=1)]
SECOND = [row(3, 2, epoch=1, term=2), row(4, 2, key=1, epoch=1, term=2)]


def good() -> History:
    """Two epochs over Kafka with two partitions and a store; the first driver dies in between."""
    seen = {"kafka": {OUT[0]: (Part(0, 1, 1, 1),), OUT[1]: (Part(0, 1, 1, 1),)}, "s": {STORE: (Part(0, 1, 1, 2),)}}
    return History(
        events=(
            Began(1, 1, -1),
            Observed(10, True, frozenset({0}), seen, {IN: 2}, 0),
            Ended(1, "killed"),
            Began(2, 2, 0),
            Ended(2, "finished"),
        ),
        input={IN: ((1, 0), (2, 1), (3, 0), (4, 1))},
        planned={0: {IN: 2}, 1: {IN: 4}},
        sinks={
            "kafka": {OUT[0]: (FIRST[0], SECOND[0]), OUT[1]: (FIRST[1], SECOND[1])},
            "s": {STORE: (*FIRST, *SECOND)},
        },
        log={
            place: (
                LogBatch("data", 7, 0, 0, 1, 0, 0),
                LogBatch("commit", 7, 1),
                LogBatch("data", 7, 2, 0, 1, 1, 2),
                LogBatch("commit", 7, 3),
            )
            for place in OUT
        },
        group={IN: 4},
        ledger=(
            LedgerLine(0, 1, "done", {"kafka": 2, "s": 2}, {OUT[0]: (2,), OUT[1]: (1, 2)}),
            LedgerLine(1, 2, "done", {"kafka": 2, "s": 2}, {OUT[0]: (4,), OUT[1]: (4,)}),
        ),
        decisions=((0, 1), (1, 2)),
        state={0: 2, 1: 2},
    )


def with_sink(history: History, sink: str, place: Place, *rows: Row) -> History:
    places = {**history.sinks[sink], place: rows}
    return replace(history, sinks={**history.sinks, sink: places})


def with_log(history: History, *batches: LogBatch) -> History:
    return replace(history, log={**history.log, OUT[0]: batches})


def with_look(history: History, **changed: Any) -> History:
    events = tuple(replace(event, **changed) if isinstance(event, Observed) else event for event in history.events)
    return replace(history, events=events)


def with_event(history: History, event: Began | Damaged | Ended | Observed) -> History:
    return replace(history, events=(*history.events, event))
