"""`make mutants` runs now and then; that its mutants are still about our code is looked at with every change."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def mutants() -> Any:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "bench" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["mutants"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_mutant_changes_one_place_of_the_source_and_somebody_has_to_notice(mutants: Any) -> None:
    for mutant in mutants.MUTANTS:
        text = (ROOT / "src" / "onceward" / mutant.file).read_text("utf-8")
        assert text.count(mutant.old) == 1, mutant.name
        assert mutant.tests or mutant.schedules, mutant.name
        files = [word.partition("::")[0] for test in mutant.tests for word in test.split() if word.startswith("tests/")]
        assert all((ROOT / file).exists() for file in files), mutant.name
