"""`onceward simulate` from the outside: what it prints, and how it exits."""

import json

from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.cli.output import EXIT_USAGE, EXIT_VIOLATION

runner = CliRunner()


def test_schedules_without_a_violation_exit_with_0() -> None:
    found = runner.invoke(app, ["simulate", "--schedules", "50", "--json"])
    assert found.exit_code == 0
    facts = json.loads(found.stdout.splitlines()[-1])
    assert (facts["schedules"], facts["violation"]) == (50, None)
    assert (facts["reading"]["schedules"], facts["reading"]["violation"]) == (50, None)
    words = runner.invoke(app, ["simulate", "--schedules", "50"]).stdout
    assert "50 schedules, " in words
    assert "50 schedules of reading, " in words


def test_reading_alone_is_run_and_told_too() -> None:
    """G2, G3."""
    found = runner.invoke(app, ["simulate", "--reading", "--schedules", "50", "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout.splitlines()[-1])["schedules"] == 50
    found = runner.invoke(app, ["simulate", "--plant", "silence-is-the-end", "--json"])
    assert found.exit_code == EXIT_VIOLATION
    violation = json.loads(found.stdout.splitlines()[-1])["violation"]
    assert "no-loss" in violation["broken"]
    told = runner.invoke(app, ["simulate", "--plant", "silence-is-the-end"])
    assert f"VIOLATION with seed {violation['seed']} of {violation['who']}: no-loss" in told.stdout
    again = ["simulate", "--reading", "--seed", str(violation["seed"]), "--story"]
    assert runner.invoke(app, again).stdout.splitlines()[-1].startswith("No violation")
    told = runner.invoke(app, [*again, "--plant", "silence-is-the-end"])
    assert told.exit_code == EXIT_VIOLATION
    assert "no-loss: " in told.stdout


def test_a_planted_bug_exits_with_3_and_tells_the_shortest_story() -> None:
    """G3."""
    found = runner.invoke(app, ["simulate", "--plant", "decided-forgotten", "--json"])
    assert found.exit_code == EXIT_VIOLATION
    violation = json.loads(found.stdout.splitlines()[-1])["violation"]
    assert "ledger-counts" in violation["broken"]
    assert len(violation["shortest"]["faults"]) >= 1
    assert violation["story"]
    words = runner.invoke(app, ["simulate", "--plant", "decided-forgotten"])
    assert f"VIOLATION with seed {violation['seed']}" in words.stdout
    assert "!!" in words.stdout


def test_a_seed_tells_its_story_and_tells_it_again() -> None:
    first, second = (runner.invoke(app, ["simulate", "--seed", "7", "--story"]) for _ in range(2))
    assert first.exit_code == 0
    assert first.stdout == second.stdout
    assert "driver 1 starts" in first.stdout


def test_an_unknown_bug_is_wrong_usage_and_the_known_ones_are_named() -> None:
    found = runner.invoke(app, ["simulate", "--plant", "nonsense"])
    assert found.exit_code == EXIT_USAGE
    assert "marker-before-fencing" in found.output
