"""Every checker passes a history in which all is well, and names what is wrong in one that is spoilt (G3)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from onceward.epoch.contract import Guarantee
from onceward.proof.checkers import CHECKERS, judge
from onceward.proof.history import Began, Damaged, Ended, History, LedgerLine, LogBatch, Part
from proof.histories import FIRST, IN, OUT, SECOND, STORE, good, row, with_event, with_log, with_look, with_sink

Spoil = Callable[[History], History]
PART = Part(0, 1, 1, 1)


def test_a_good_history_passes_every_checker() -> None:
    assert judge(good()) == {}


SPOILT: list[tuple[str, str, Spoil]] = [
    ("no-loss", "a row is missing", lambda h: with_sink(h, "s", STORE, *FIRST, SECOND[0])),
    ("no-loss", "a partition is empty", lambda h: with_sink(h, "kafka", OUT[0])),
    ("no-duplicate", "a row twice", lambda h: with_sink(h, "s", STORE, *FIRST, *FIRST, *SECOND)),
    ("no-duplicate", "a row that nobody fed", lambda h: with_sink(h, "s", STORE, *FIRST, *SECOND, row(99))),
    (
        "no-uncommitted-read",
        "a reader saw a try that is not there at the end",
        lambda h: with_look(h, visible={"kafka": {OUT[0]: (PART._replace(attempt=2),)}}),
    ),
    (
        "atomic-visibility",
        "one of two partitions",
        lambda h: with_look(h, visible={"kafka": {OUT[0]: (PART,), OUT[1]: ()}}),
    ),
    ("atomic-visibility", "half a store's epoch", lambda h: with_look(h, visible={"s": {STORE: (PART,)}})),
    ("decided-before-visible", "shown before its decision", lambda h: with_look(h, decided=frozenset())),
    ("one-decision", "decided twice", lambda h: replace(h, decisions=((0, 1), (1, 2), (1, 3)))),
    ("one-decision", "another one's rows are out", lambda h: replace(h, decisions=((0, 1), (1, 3)))),
    ("order", "a key's rows swapped", lambda h: with_sink(h, "kafka", OUT[0], SECOND[0], FIRST[0])),
    ("state", "the state lacks a row", lambda h: replace(h, state={0: 2, 1: 1})),
    ("state", "a row made from another state", lambda h: with_sink(h, "s", STORE, *FIRST, SECOND[0], row(4, 1, key=1))),
    (
        "one-attempt",
        "two tries of one epoch",
        lambda h: with_sink(h, "s", STORE, FIRST[0], FIRST[1]._replace(attempt=2), *SECOND),
    ),
    ("sinks-agree", "the store has less than Kafka", lambda h: with_sink(h, "s", STORE, *FIRST)),
    ("nothing-left-behind", "staged rows", lambda h: replace(h, left_behind=("s still has something staged",))),
    ("progress", "input that no epoch reads", lambda h: replace(h, planned={0: {IN: 2}})),
    ("progress", "nothing planned at all", lambda h: replace(h, planned={})),
    ("no-false-alarm", "an error without a cause", lambda h: with_event(h, Ended(3, "LedgerCorrupt", "damaged"))),
    ("fenced-adds-nothing", "out under a fenced term", lambda h: with_event(h, Began(3, 3, 0))),
    ("group-offsets", "the group is behind at the end", lambda h: replace(h, group={IN: 2})),
    ("group-offsets", "the group was ahead of its marker", lambda h: with_look(h, group={IN: 4})),
    (
        "raw-log",
        "a sequence is missing",
        lambda h: with_log(h, LogBatch("data", 7, 0, 1, 1, 0), LogBatch("commit", 7, 1)),
    ),
    ("raw-log", "no end marker", lambda h: with_log(h, LogBatch("data", 7, 0, 0, 1, 0))),
    (
        "raw-log",
        "two end markers that disagree",
        lambda h: with_log(h, LogBatch("data", 7, 0, 0, 1, 0), LogBatch("commit", 7, 1), LogBatch("abort", 7, 1)),
    ),
    (
        "raw-log",
        "an end marker again, that ends the next transaction",
        lambda h: with_log(
            h,
            LogBatch("data", 7, 0, 0, 1, 0),
            LogBatch("commit", 7, 1),
            LogBatch("data", 7, 1, 0, 1, 1),
            LogBatch("commit", 7, 1),
        ),
    ),
    (
        "raw-log",
        "two epochs in one transaction",
        lambda h: with_log(
            h, LogBatch("data", 7, 0, 0, 1, 0), LogBatch("data", 7, 0, 1, 1, 1), LogBatch("commit", 7, 1)
        ),
    ),
    (
        "raw-log",
        "a late write after the end",
        lambda h: with_log(
            h,
            LogBatch("data", 7, 0, 0, 1, 0),
            LogBatch("commit", 7, 1),
            LogBatch("data", 7, 0, 1, 1, 0),
            LogBatch("abort", 7, 2),
        ),
    ),
    (
        "raw-log",
        "a late write into the next transaction",
        lambda h: with_log(
            h,
            LogBatch("data", 7, 1, 0, 1, 0),
            LogBatch("data", 7, 0, 0, 1, 0),
            LogBatch("commit", 7, 2),
        ),
    ),
    (
        "one-transaction",
        "an epoch committed by two transactions",
        lambda h: with_log(
            h,
            LogBatch("data", 7, 0, 0, 1, 0),
            LogBatch("commit", 7, 1),
            LogBatch("data", 7, 1, 0, 1, 0),
            LogBatch("commit", 7, 2),
        ),
    ),
    (
        "boundaries",
        "an epoch's own records are behind its boundary",
        lambda h: replace(h, ledger=(h.ledger[0], h.ledger[1]._replace(boundaries={OUT[0]: (2,)}))),
    ),
    (
        "boundaries",
        "a later epoch's records are before it",
        lambda h: replace(h, ledger=(h.ledger[0]._replace(boundaries={OUT[1]: (2, 3)}), h.ledger[1])),
    ),
    ("ledger-counts", "an epoch without an entry", lambda h: replace(h, ledger=h.ledger[:1])),
    (
        "ledger-counts",
        "other counts than the sinks'",
        lambda h: replace(h, ledger=(h.ledger[0], LedgerLine(1, 2, "done", {"kafka": 3, "s": 2}))),
    ),
    ("savepoints", "one whose state is not that of its epoch", lambda h: replace(h, savepoints=("it holds {}",))),
]


@pytest.mark.parametrize(("checker", "what", "spoil"), SPOILT, ids=[f"{name}: {what}" for name, what, _ in SPOILT])
def test_a_checker_names_what_is_wrong(checker: str, what: str, spoil: Spoil) -> None:
    """G3: a checker that cannot fail proves nothing."""
    assert CHECKERS[checker](spoil(good())), what


def test_every_checker_has_a_history_that_it_refuses() -> None:
    assert {name for name, _, _ in SPOILT} == set(CHECKERS)


def test_a_look_while_end_markers_are_written_may_find_half_an_epoch() -> None:
    """Kafka writes them partition by partition; what counts is how it settles."""
    half = with_look(good(), settled=False, visible={"kafka": {OUT[0]: (PART,), OUT[1]: ()}})
    assert judge(half) == {}


def test_a_coordinator_that_was_killed_may_write_its_end_markers_again() -> None:
    """As a real one does, found by a run of a hundred kills: the same marker twice, and nothing in between."""
    batches = (
        LogBatch("data", 7, 0, 0, 1, 0),
        LogBatch("commit", 7, 1),
        LogBatch("commit", 7, 1),
        LogBatch("data", 7, 1, 0, 1, 1),
        LogBatch("commit", 7, 2),
    )
    assert CHECKERS["raw-log"](with_log(good(), *batches)) == []


def test_errors_that_faults_explain_are_no_false_alarm() -> None:
    assert judge(with_event(good(), Ended(3, "PipelineFenced", "taken over"))) == {}


def test_an_end_marker_may_carry_the_next_transactions_epoch() -> None:
    """As transaction.version 2 writes them: the marker of epoch 0 says 1, and records of 1 follow."""
    log = (
        LogBatch("data", 7, 0, 0, 1, 0, 0),
        LogBatch("commit", 7, 1),
        LogBatch("data", 7, 1, 0, 1, 1, 2),
        LogBatch("commit", 7, 2),
    )
    assert judge(replace(good(), log={OUT[0]: log})) == {}


def test_a_sink_that_was_out_of_the_pipeline_is_owed_nothing() -> None:
    """Of whoever drove it then; and what it is owed, it must have."""
    out = with_sink(good(), "s", STORE, *FIRST)
    without = with_event(out, Began(2, 2, 0, frozenset({"kafka"})))
    without = replace(without, ledger=(without.ledger[0], without.ledger[1]._replace(rows={"kafka": len(SECOND)})))
    assert judge(without) == {}
    assert {"no-loss", "sinks-agree"} <= judge(with_event(out, Began(2, 2, 0, frozenset({"kafka", "s"})))).keys()


def test_who_promises_less_is_held_to_that() -> None:
    """A5: at-least-once loses nothing, at-most-once doubles nothing."""
    doubled = with_sink(good(), "s", STORE, *FIRST, *FIRST, *SECOND)
    lost = with_sink(good(), "s", STORE, *FIRST)
    at_least, at_most = Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE
    assert judge(replace(doubled, guarantee=at_least)) == judge(replace(lost, guarantee=at_most)) == {}
    assert judge(replace(doubled, guarantee=at_most)).keys() == {"no-duplicate"}
    assert judge(replace(lost, guarantee=at_least)).keys() == {"no-loss"}


def test_a_record_that_a_person_has_skipped_is_not_lost_and_may_not_be_there() -> None:
    """I5: as the ledger says, with its epoch."""
    history = good()
    place, offset = IN, 0
    skipped = replace(
        history,
        ledger=(history.ledger[0]._replace(skipped=frozenset({(place, offset)})), *history.ledger[1:]),
    )
    assert any("which no epoch contains" in line for line in CHECKERS["no-duplicate"](skipped))


def test_what_a_store_forgot_by_itself_was_no_uncommitted_read() -> None:
    """J6: it was set back; that its rows come again is another checker's business."""
    seen = with_look(good(), visible={"s": {STORE: (PART._replace(attempt=2),)}})
    assert CHECKERS["no-uncommitted-read"](seen)
    assert CHECKERS["no-uncommitted-read"](with_event(seen, Damaged("forget", ("s", 0)))) == []
