"""Rounds: interleaved; a wrong output has no figure; a disturbed round is taken again, and says so if it stays so."""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle

from bench.cpu import Process, Snapshot
from bench.report import Report
from bench.rounds import Failed, Outcome, Rounds, Subject
from support.clocks import MONOTONIC


def looks(others: Iterable[float]) -> Callable[[], Snapshot]:
    """Two looks for each sample, ten seconds apart; others take such a share of the two cores in between."""
    shares, now, busy = iter(others), MONOTONIC, 100.0

    def states() -> Iterator[Snapshot]:
        nonlocal now, busy
        mine = {os.getpid(): Process(1, "python", 0.0)}
        while True:
            yield Snapshot(now, busy, 2, mine)
            now, busy = now + 10.0, busy + 20.0 * next(shares)
            yield Snapshot(now, busy, 2, mine)

    made = states()
    return lambda: next(made)


def subject(
    name: str, rates: Iterable[float], wrong: Iterable[list[str]] = cycle([[]]), told: list[str] | None = None
) -> Subject:
    values, problems = iter(rates), iter(wrong)

    def run() -> Outcome:
        if told is not None:
            told.append(name)
        found = next(problems)
        return Outcome({"records/s": next(values)}, check=lambda: found)

    return Subject(name, run)


def measured(subjects: list[Subject], rounds: int, others: Iterable[float] = cycle([0.0]), repeats: int = 2) -> Report:
    made = Rounds(lambda _: None, repeats=repeats, look=looks(others))
    made.interleave("a case", subjects, rounds)
    return Report("P", "a title", base="spark", samples=made.samples)


def test_systems_take_turns() -> None:
    told: list[str] = []
    measured([subject("a", cycle([1.0]), told=told), subject("b", cycle([1.0]), told=told)], rounds=3)
    assert told == ["a", "b"] * 3


def test_a_wrong_output_voids_the_systems_figure() -> None:
    wrong = subject("onceward", cycle([9.0]), [[], ["1 of 10 records are missing"], []])
    report = measured([subject("spark", cycle([5.0])), wrong], rounds=3)
    assert report.figures("a case", "onceward") == {}
    assert report.against_base("a case", "onceward") is None
    assert report.void == ["a case: onceward: round 2: 1 of 10 records are missing"]
    assert "| onceward | no result | no result |" in report.markdown()
    assert "1 of 10 records are missing" in report.markdown()
    assert report.figures("a case", "spark")["records/s"].median == 5.0


def test_a_system_that_fails_has_no_figure_and_others_go_on() -> None:
    def dies() -> Outcome:
        raise Failed("it has ended")

    report = measured([Subject("onceward", dies), subject("spark", cycle([5.0]))], rounds=2)
    assert report.void[0] == "a case: onceward: round 1: failed: it has ended"
    assert report.figures("a case", "spark")["records/s"].rounds == 2


def test_a_disturbed_round_is_taken_again() -> None:
    report = measured([subject("spark", [1.0, 2.0])], rounds=1, others=[0.4, 0.01])
    (sample,) = report.samples
    assert (sample.metrics["records/s"], sample.attempts, sample.busy) == (2.0, 2, False)
    assert report.disturbed == 0


def test_a_machine_that_stays_busy_is_marked() -> None:
    """The least disturbed of a bounded number of tries counts, with a mark in the table."""
    report = measured([subject("spark", [1.0, 2.0, 3.0, 4.0])], rounds=1, others=[0.4, 0.2, 0.3, 0.0])
    (sample,) = report.samples
    assert (sample.metrics["records/s"], sample.busy) == (2.0, True)
    assert round(sample.others, 3) == 0.2
    assert report.disturbed == 1
    assert "| spark * |" in report.markdown()
    assert "Disturbed: during 1 of 1 samples" in report.markdown()


def test_a_report_is_the_same_after_it_was_written() -> None:
    report = measured([subject("spark", [1.0, 2.0]), subject("onceward", [3.0, 5.0])], rounds=2)
    again = Report.read(report.facts())
    assert again.markdown() == report.markdown()
    assert again.facts() == report.facts()
    assert "2.75 (2.50 to 3.00)" in report.markdown()
