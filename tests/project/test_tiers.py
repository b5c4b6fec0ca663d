"""Nothing is in no tier, and the page says what is in which (docs/testing.md)."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from support.tiers import COMBINATIONS, COVERING, NOT_QUICK, TIERS, _has_run, _Watch, tier_of, witness_of

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "testing.md"


def test_every_test_that_is_collected_now_is_in_one_tier(request: pytest.FixtureRequest) -> None:
    assert {tier_of(item) for item in request.session.items} <= set(TIERS)


def test_continuous_integration_runs_once_what_coverage_has_run() -> None:
    """Behind `make coverage` the quick tests of its rooms are left out, and no others."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"COVERING := {' '.join(folder.rstrip('/') for folder in COVERING)}\n" in makefile
    assert "--tier quick --cov=onceward.epoch" in makefile
    assert "--cov-fail-under=100 $(COVERING) $(ARGS)" in makefile
    assert (ROOT / ".ci" / "run").read_text("utf-8").endswith("make coverage\nmake test ARGS=--after-coverage\n")

    def item(nodeid: str, *fixtures: str) -> Any:
        return SimpleNamespace(nodeid=nodeid, fixturenames=fixtures, get_closest_marker=lambda _: None)

    quick, real, elsewhere = (
        item("tests/kafka/a.py::t"),
        item("tests/kafka/a.py::t", "broker"),
        item("tests/cli/a.py::t"),
    )
    assert [_has_run(it, COVERING) for it in (quick, real, elsewhere)] == [True, False, False]
    assert not _has_run(quick, ())


def test_what_is_listed_is_in_a_file_that_is_there() -> None:
    """That each pattern matches a test is looked at whenever all are collected."""
    for file in (*COMBINATIONS, *NOT_QUICK):
        assert (ROOT / file).is_file(), file


def test_what_only_runs_with_all_has_a_witness_and_stands_in_the_page() -> None:
    page = PAGE.read_text("utf-8")
    for file, patterns in COMBINATIONS.items():
        assert f"`{file}`" in page
        for pattern, witness in patterns.items():
            assert f"| `{pattern.replace('[[]', '[')}` | {witness} |" in page


def test_a_combination_is_told_from_its_witness() -> None:
    kills = "tests/pipeline/test_many_kills.py::test_a_driver_killed_at_every_step_leaves_every_sink_exact"
    assert witness_of(f"{kills}[kafka-delta]") is not None
    assert witness_of(f"{kills}[all]") is None
    assert witness_of(f"{kills}[ledger-decides]") is None


def test_a_test_of_the_quick_tier_that_starts_a_server_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Watch, "pure", "tests/test_it.py::test_it")
    with pytest.raises(AssertionError, match=r"tests/test_it\.py::test_it is in the quick tier and starts .*java"):
        subprocess.run(["java", "-version"], check=False)
    assert subprocess.run(["true"], check=False).returncode == 0
