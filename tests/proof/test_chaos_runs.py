"""`onceward prove` as a user runs it: real Kafka, PostgreSQL and Spark, real kills, and a verdict that can fail."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]


def example(file: Path, *, drop: str = "") -> Path:
    """The job in the documents, with a part of it left out."""
    text = (ROOT / "docs" / "proof" / "your-own-job.md").read_text("utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    assert drop in code
    file.write_text(code.replace(drop, "") if drop else code)
    return file


def prove(*arguments: str, code: int) -> dict[str, Any]:
    told = subprocess.run(
        [sys.executable, "-m", "onceward", "prove", *arguments, "--json"], capture_output=True, check=False, text=True
    )
    if kept := re.search(r"are kept in (\S+)", told.stderr):
        shutil.rmtree(kept[1])
    assert told.returncode == code, f"exit {told.returncode}\n{told.stderr[-4000:]}\n{told.stdout[-3000:]}"
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found


def test_a_job_with_every_sink_is_exact_after_kills_of_every_kind(tmp_path: Path) -> None:
    """G1, A1: drivers, workers, brokers and databases die; nothing is lost, doubled or left behind."""
    found = prove("--kills", "5", "--seed", "4", "--report", str(tmp_path), code=0)
    assert found["exact"]
    assert found["kills"] >= 5
    assert set(found["records_out"].values()) == {found["records_in"]}
    assert found["watched"]["committed"] == found["records_in"]
    assert found["broken"] == {}
    assert len(found["checked"]) >= 18
    assert "EXACT" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "result.json").read_text())["seed"] == 4


def test_three_brokers_that_lose_nodes_do_not_disturb_it() -> None:
    """G1, C8: any of three replicas may go, also the one that coordinates."""
    found = prove("--kills", "6", "--seed", "1859", "--brokers", "3", "--sinks", "kafka,files", code=0)
    assert found["exact"]
    assert any(name.startswith("broker") for name in found["faults"])


@pytest.mark.parametrize(
    ("guarantee", "broken"), [("at-least-once", "no-duplicate"), ("at-most-once", "no-loss"), ("spark", "no-duplicate")]
)
def test_what_promises_less_is_caught_by_the_same_runner(guarantee: str, broken: str) -> None:
    """A2, A5, G1: the runner can fail, and the modes mean what they say."""
    # Spark's own sink has no named points: a kill doubles something if it falls between a write and Spark's log.
    kills = "12" if guarantee == "spark" else "5"
    asked = ("--kills", kills, "--seed", "7", "--sinks", "kafka", "--guarantee", guarantee, "--rate", "1500")
    found = prove(*asked, code=3)
    assert not found["exact"]
    assert broken in found["broken"]
    if guarantee == "at-most-once":
        assert "no-duplicate" not in found["broken"]
    else:
        assert "no-loss" not in found["broken"]


def test_the_documents_job_of_ones_own_is_proven(tmp_path: Path) -> None:
    """G1: the example is run as it stands."""
    found = prove(str(example(tmp_path / "orders.py")), "--kills", "5", "--seed", "3", "--sinks", "postgres", code=0)
    assert found["exact"]
    assert found["records_out"]["topic"] == found["records_out"]["table"] > 0


def test_a_job_of_ones_own_that_doubles_is_caught(tmp_path: Path) -> None:
    """G1: a truth that the job does not meet."""
    file = example(tmp_path / "orders.py", drop='.dropDuplicates(["id"])')
    found = prove(str(file), "--kills", "1", "--seed", "3", "--sinks", "postgres", code=3)
    assert set(found["broken"]) == {"no-duplicate"}


def test_a_job_that_does_not_run_is_said_to_be_so(tmp_path: Path) -> None:
    """G1: nothing is said about a guarantee, and nobody waits for kills that cannot be."""
    file = example(tmp_path / "orders.py", drop='cast(key as string) id", "')
    told = subprocess.run(
        [sys.executable, "-m", "onceward", "prove", str(file), "--kills", "3"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert told.returncode == 1
    assert "the job does not run" in told.stderr
    assert "UNRESOLVED_COLUMN" in told.stderr
