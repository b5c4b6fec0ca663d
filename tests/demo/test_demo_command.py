"""`onceward demo` as a person or a script runs it, on real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ONCEWARD = Path(sys.executable).with_name("onceward")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def _start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ONCEWARD, "demo", *words],
        env={**os.environ, "TMPDIR": str(folder)},  # everything the demo makes is below it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _processes_below(folder: Path) -> list[str]:
    """Whose command line or environment names the folder: the broker, the job, its JVM, its Python workers."""
    listed = subprocess.run(["ps", "axeww", "-o", "args="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


def _await_job(demo: subprocess.Popen[str], folder: Path) -> int:
    """The job's pid, once it runs."""
    deadline = time.monotonic() + 120
    while True:
        listed = subprocess.run(["ps", "ax", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            if "-m onceward.demo.job" in line and str(folder) in line:
                return int(line.split()[0])
        assert demo.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_killed_once_every_event_still_has_its_effect_once(tmp_path: Path) -> None:
    """A1: once in the state, once in the output, whatever crashes. A2: beside Spark's own sink, same kill."""
    demo = _start(tmp_path, "--events", "3000", "--kills", "1", "--seed", "11", "--json")
    out, err = demo.communicate(timeout=380)
    assert demo.returncode == 0, err
    found = json.loads(out.splitlines()[-1])
    assert found["verdict"] == "exact"
    assert [found[name] for name in ("lost", "duplicated", "wrong", "payments_off_cents")] == [0, 0, 0, 0]
    assert (found["events"], found["visible"], found["kills"], found["seed"]) == (3000, 3000, 1, 11)
    # Whether Spark's own sink repeats something depends on the moment; that it loses nothing does not.
    assert found["contrast"]["lost"] == 0
    assert found["contrast"]["visible"] >= 3000
    assert "kill 1 of 1" in err
    assert _processes_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_clears_everything_away(tmp_path: Path) -> None:
    demo = _start(tmp_path, "--events", "3000", "--kills", "1")
    _await_job(demo, tmp_path)
    demo.send_signal(signal.SIGINT)
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert "interrupted" in err
    assert "Traceback" not in err
    assert out == ""
    assert _processes_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_killed_takes_job_and_broker_with_it(tmp_path: Path) -> None:
    demo = _start(tmp_path, "--events", "3000", "--kills", "1")
    _await_job(demo, tmp_path)
    demo.kill()
    demo.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while _processes_below(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_job_that_dies_by_itself_is_a_failure_and_its_log_is_kept(tmp_path: Path) -> None:
    demo = _start(tmp_path, "--events", "3000", "--kills", "1", "--json")
    os.kill(_await_job(demo, tmp_path), signal.SIGKILL)
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert "the job ended by itself (exit code -9)" in err
    assert "Traceback" not in err
    assert out == ""
    assert _processes_below(tmp_path) == []
    assert len(list(tmp_path.glob("onceward-demo-*/job.log"))) == 1


def test_a_missing_library_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "there = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'confluent_kafka' else there(name, *more)\n"
    )
    done = subprocess.run(
        [ONCEWARD, "demo"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "the demo needs confluent-kafka" in done.stderr
    assert "pip install 'onceward[demo]'" in done.stderr
