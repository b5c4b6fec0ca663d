"""`make test-all` runs the quick tests on other Pythons too, each in an environment of its own."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
MAKE: Final = shutil.which("make")
OTHERS: Final = ("3.12", "3.13")

pytestmark = pytest.mark.skipif(MAKE is None, reason="there is no make on PATH")
Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """With nothing on PATH but these Pythons: they say yes to everything, or no."""

    def run(*arguments: str, pythons: tuple[str, ...] = (), works: bool = True) -> str:
        for version in pythons:
            stub = tmp_path / f"python{version}"
            stub.write_text(f"#!/bin/sh\nexit {0 if works else 127}\n")
            stub.chmod(0o755)
        inherited = {name: it for name, it in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))}
        assert MAKE is not None
        made = subprocess.run(
            [MAKE, "--no-print-directory", *arguments], cwd=ROOT, env={**inherited, "PATH": str(tmp_path)},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return made.stdout

    return run


def test_all_tests_are_followed_by_the_quick_ones_on_each_other_python(make: Make, tmp_path: Path) -> None:
    commands = make("-nB", "test-all", pythons=OTHERS)  # B: as on a new machine
    assert "--tier all" in commands.partition(".venv-")[0]
    for version in OTHERS:
        environment = f".venv-{version}"
        assert f'"{tmp_path}/python{version}" -m venv {environment}' in commands
        assert f"{environment}/bin/python -m pip install" in commands
        assert f"{environment}/bin/python -m pytest -n 3 --dist loadscope --times --tier quick" in commands


@pytest.mark.parametrize("version", OTHERS)
def test_one_that_is_not_there_or_does_not_run_is_said_and_no_failure(make: Make, version: str) -> None:
    said = f"there is no python{version} on PATH: the quick tests were not run on it\n"
    assert make(f"quick-{version}") == said
    assert make(f"quick-{version}", pythons=(version,), works=False) == said
