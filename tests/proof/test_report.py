"""The report of a chaos run in the terminal (G1): the verdict first, then what it rests on."""

import re
from dataclasses import replace
from html import unescape

import pytest

from onceward.crashpoints import POINTS
from onceward.proof.chaos import page, report, report_words
from onceward.proof.chaos.record import Result
from onceward.proof.checkers import CHECKERS
from proof.chaos_runs import large_run, small_run


@pytest.fixture(scope="module")
def small() -> Result:
    return small_run()


@pytest.fixture(scope="module")
def large() -> Result:
    return large_run()


def broken(result: Result, **found: list[str]) -> Result:
    return replace(result, broken={name.replace("_", "-"): lines for name, lines in found.items()})


def row(text: str, name: str) -> str:
    """What stands behind a name, over all its lines."""
    found = re.search(rf"^{name}  +(.*(?:\n .*)*)", text, re.MULTILINE)
    assert found, name
    return " ".join(found[1].split())


def test_an_exact_run_says_so_first_and_then_what_it_stood(large: Result) -> None:
    """G1: a verdict, a seed, and how to do it again."""
    text = report.text(large)
    assert text.startswith(f"EXACT. All {len(CHECKERS)} checkers passed, over {large.kills:,} kills and 10,820,000 rec")
    assert row(text, "kills").startswith(f"{large.kills:,}: driver {large.faults['driver killed']:,}, worker ")
    assert f"driver paused {large.faults['driver paused']}" in row(text, "other faults")
    assert row(text, "points") == "13 of 14 reached, missed: replaying"
    assert row(text, "records out") == "kafka 10,820,000, postgres 10,820,000, files 10,820,000"
    assert row(text, "epochs") == "20,000"
    p50, p95 = large.recovery_s(50), large.recovery_s(95)
    assert row(text, "recovery").startswith(f"p50 {p50:.1f} s, p95 {p95:.1f} s, max {max(large.recoveries_s):.1f} s")
    assert row(text, "in doubt") == f"{large.resolved} epochs, resolved at the next start, without an operator"
    aborted = f"{large.watched['aborted']:,} records of aborted epochs seen by the read_uncommitted control"
    assert aborted in row(text, "watched")
    assert row(text, "seed") == "11"
    assert row(text, "again") == large.command
    assert len(text.splitlines()) <= 30


def test_a_broken_run_names_the_checkers_and_what_they_found(small: Result) -> None:
    lost = [f"kafka lacks row {number}" for number in range(12)]
    text = report.text(broken(small, no_loss=lost, order=["partition 0: 4 after 5"]))
    assert text.startswith(f"VIOLATION. 2 of {len(CHECKERS)} checkers found a broken promise: no-loss, order.")
    assert "Under exactly-once this must not happen" in text
    assert row(text, "no-loss") == ", ".join(lost[:5]).replace(",", "") + " … and 7 more"
    assert row(text, "order") == "partition 0: 4 after 5"
    assert len(text.splitlines()) <= 30


def test_even_if_every_checker_complains_each_one_is_heard(small: Result) -> None:
    everything = {name: [f"{name} finding {number}" for number in range(9)] for name in CHECKERS}
    text = report.text(replace(small, broken=everything))
    assert all(f"{name} finding 0 … and 8 more" in text for name in CHECKERS)


@pytest.mark.parametrize(
    ("guarantee", "checker", "sentence"),
    [
        ("at-least-once", "no-duplicate", "Duplicates are what at-least-once means"),
        ("spark", "no-duplicate", "Duplicates are what Spark's own sink means by at-least-once"),
        ("at-most-once", "no-loss", "Loss is what at-most-once means"),
    ],
)
def test_a_weaker_guarantee_explains_its_violation(small: Result, guarantee: str, checker: str, sentence: str) -> None:
    result = replace(small, guarantee=guarantee, broken={checker: ["row 4"]})
    assert report.text(result).startswith("VIOLATION")
    for text in (report.text(result), unescape(page.html(result))):
        assert sentence in text
        assert "please report it" not in text


@pytest.mark.parametrize(
    ("guarantee", "checker"),
    [
        ("at-least-once", "no-loss"),
        ("at-most-once", "no-duplicate"),
        ("at-least-once", "a-checker-of-tomorrow"),
    ],
)
def test_a_weaker_guarantee_excuses_only_what_it_means(small: Result, guarantee: str, checker: str) -> None:
    result = replace(small, guarantee=guarantee, broken={"atomic-visibility": ["epoch 3"], checker: ["row 4"]})
    assert f"does not excuse {checker}: please report it" in " ".join(report.text(result).split())


def test_what_a_guarantee_excuses_are_checkers_that_exist() -> None:
    assert set().union(*report_words.EXCUSED.values()) <= set(CHECKERS)


def test_a_run_that_nobody_judged_is_not_called_exact(small: Result) -> None:
    result = replace(small, checked=())
    assert report.text(result).startswith("NOT JUDGED")
    assert "EXACT" not in page.html(result)


def test_faults_that_hurt_nothing_are_called_so(small: Result) -> None:
    result = replace(small, watched={"committed": 10, "uncommitted": 10, "aborted": 0})
    assert "no fault hit an epoch that had written" in row(report.text(result), "watched")


def test_what_a_finding_says_is_not_obeyed_by_the_terminal(small: Result) -> None:
    hostile = "\x1b]0;owned\x07 row\r\n\x9b2J 4"
    text = report.text(broken(replace(small, subject=hostile, machine=hostile, command=hostile), order=[hostile]))
    assert all(line.isprintable() for line in text.splitlines())


def test_every_named_point_is_explained() -> None:
    assert tuple(report_words.POINTS) == tuple(POINTS)


def test_a_run_in_which_nothing_happened_can_be_reported(small: Result) -> None:
    result = replace(
        small, seconds=0.0, kills=0, faults={}, points={}, recoveries_s=(), resolved=0, watched={}, happenings=()
    )
    text = report.text(result)
    assert row(text, "kills") == "0"
    assert row(text, "other faults") == "none"
    assert row(text, "recovery") == "no driver had to come back"
    assert row(text, "watched") == "nobody watched"


def test_what_spark_loses_is_not_excused_and_not_ours(small: Result) -> None:
    text = report.text(replace(small, guarantee="spark", broken={"no-loss": ["row 4"]}))
    assert "does not excuse no-loss." in text
    assert "please report it" not in text


@pytest.mark.parametrize(
    ("value", "said"), [(0.4, "0 s"), (59.6, "1 min"), (200, "3 min 20 s"), (3_600, "1 h"), (3_900, "1 h 5 min")]
)
def test_durations_are_said_as_people_say_them(value: float, said: str) -> None:
    assert report_words.duration(value) == said
