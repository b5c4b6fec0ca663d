"""The demo beside the page is a process of its own, of which nothing is left at the end."""

import signal
import sys
from pathlib import Path

import pytest

from onceward import processes
from onceward.cli import ui_demo
from onceward.errors import ConfigurationError

CHILD = """
import json, os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--folder") + 1])
(folder / "homes").mkdir()
(folder / "pid").write_text(str(os.getpid()))
print(json.dumps({"bootstrap": "127.0.0.1:9"}), flush=True)
signal.pause()
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "child.py"
    file.write_text(CHILD)
    monkeypatch.setattr(ui_demo, "COMMAND", (sys.executable, str(file)))
    return file


@pytest.mark.usefixtures("child")
def test_its_homes_and_its_kafka_are_shown_and_nothing_of_it_is_left() -> None:
    """I2."""
    handler = signal.getsignal(signal.SIGINT)
    with ui_demo.demo_beside() as demo:
        assert (demo.homes.is_dir(), demo.bootstrap) == (True, "127.0.0.1:9")
        folder = demo.homes.parent
        pid = int((folder / "pid").read_text())
        assert processes.started(pid)
    assert not processes.started(pid)
    assert not folder.exists()
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_demo_that_does_not_start_is_told(child: Path) -> None:
    child.write_text("print('sorry')")
    with pytest.raises(ConfigurationError, match="the demo did not start"), ui_demo.demo_beside():
        pass
