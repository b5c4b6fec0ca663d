"""`onceward run --restart`: what is started again, how often, and what ends it. With small processes, not Spark."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from onceward.cli import restart
from onceward.cli.restart import Supervisor
from support.waiting import eventually

LIFE = """
import os, signal, sys, time
from pathlib import Path
from onceward.cli.restart import supervised
from onceward.watching.sight import Sight

lives = Path(sys.argv[1])
with lives.open("a") as file:
    file.write(f"{{os.getpid()}}\\n")
number = len(lives.read_text().split())
with supervised() as tell:
{body}
"""


def child(tmp_path: Path, body: str) -> tuple[list[str], Path]:
    file, lives = tmp_path / "child.py", tmp_path / "lives"
    file.write_text(LIFE.format(body=textwrap.indent(textwrap.dedent(body), "    ")))
    return [sys.executable, str(file), str(lives)], lives


def count(lives: Path) -> int:
    return len(lives.read_text().split()) if lives.exists() else 0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "FIRST_PAUSE_S", 0.01)


@pytest.mark.parametrize(("code", "why"), [(0, "finished"), (2, "wrong usage"), (4, "needs a person")])
def test_what_a_restart_cannot_cure_is_not_started_again(tmp_path: Path, code: int, why: str) -> None:
    """I5."""
    command, lives = child(tmp_path, f"sys.exit({code})")
    assert Supervisor(command, 10).run() == code, why
    assert count(lives) == 1


def test_a_driver_that_fails_or_is_killed_is_started_again_until_it_works(tmp_path: Path) -> None:
    """I5: a new process each time."""
    told: list[str] = []
    command, lives = child(
        tmp_path,
        """
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(1 if number == 2 else 0)
        """,
    )
    assert Supervisor(command, 10, told.append).run() == 0
    assert len(set(lives.read_text().split())) == 3
    assert "killed by SIGKILL" in told[0]
    assert "exit code 1" in told[1]


def test_so_many_restarts_without_a_committed_epoch_end_it(tmp_path: Path) -> None:
    told: list[str] = []
    command, lives = child(tmp_path, "sys.exit(1)")
    assert Supervisor(command, 3, told.append).run() == 1
    assert count(lives) == 4
    assert "3 restarts in a row without a committed epoch: given up" in told[-1]


def test_a_committed_epoch_makes_it_count_anew(tmp_path: Path) -> None:
    command, lives = child(
        tmp_path,
        """
        if number == 3:
            tell([Sight(pipeline="p", guarantee="g", at=0, epochs_committed=1)])
        sys.exit(1)
        """,
    )
    assert Supervisor(command, 3, lambda _: None).run() == 1
    assert count(lives) == 3 + 3


WAITS = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
(lives.parent / "ready").touch()
while True:
    time.sleep(0.05)
"""

SUPERVISOR = "import sys; from onceward.cli.restart import supervise; sys.exit(supervise(sys.argv[1:], 10))"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_supervisor_ends_the_child_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """I5."""
    command, lives = child(tmp_path, WAITS)
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, *command])
    eventually((tmp_path / "ready").exists, "the child runs", 30)
    process.send_signal(number)
    assert process.wait(30) == 0
    assert count(lives) == 1


def test_a_child_whose_supervisor_is_killed_stops_by_itself(tmp_path: Path) -> None:
    command, lives = child(tmp_path, WAITS)
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, *command])
    eventually((tmp_path / "ready").exists, "the child runs", 30)
    process.kill()
    process.wait()
    (pid,) = map(int, lives.read_text().split())
    eventually(lambda: not alive(pid), "the child is gone", 30)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path(f"/proc/{pid}").exists() else True
