"""The README's quickstart, pasted into a shell: every command as it stands there, in order."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from onceward import processes
from onceward.servers.broker import DevBroker
from onceward.servers.broker.layout import Layout
from support.short_lived import as_shipped
from support.waiting import eventually

README: Final = Path(__file__).parents[2] / "README.md"
DEADLINE_S: Final = 400  # half a minute on a quiet machine
SETUP_S: Final = 600  # everything is fetched
END: Final = "=== the block has ended ==="
INSTALLS: Final = "make setup\n. .venv/bin/activate\n"  # what the tests run in; `make setup` made it


def blocks() -> Iterator[tuple[str, list[str]]]:
    """The commands of each block, and what the text says that they print."""
    section = README.read_text("utf-8").partition("\n## Quickstart\n")[2].partition("\n## ")[0]
    found = re.findall(r"^```(\w*)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    for number, (language, text) in enumerate(found):
        if language == "sh":
            following = found[number + 1 :][:1]
            yield text, following[0][1].splitlines() if following and not following[0][0] else []


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a newcomer, but for the broker's folder, and its port, which others may have."""
    folder = tmp_path / "onceward" / "kafka"
    folder.mkdir(parents=True)
    layout = Layout.new(brokers=1, port=0)
    layout.write(folder)
    (litter := tmp_path / "litter").mkdir()
    tools = Path(sys.executable).parent
    yield {
        **as_shipped(),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "XDG_DATA_HOME": str(tmp_path),
        "TMPDIR": str(litter),
        "SPARK_LOCAL_DIRS": str(litter),
        "BOOTSTRAP": layout.bootstrap,
    }
    DevBroker(folder).stop()


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_S + 60)
def test_who_pastes_the_quickstart_sees_what_it_says(machine: dict[str, str], tmp_path: Path) -> None:
    """I1, A1: a broker, a pipeline, its answer, a kill with -9, another driver, its answer; and a clean stop."""
    (work := tmp_path / "work").mkdir()
    paste(machine, work, tmp_path, DEADLINE_S)


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_S + SETUP_S + 60)
def test_who_pastes_all_of_it_on_empty_caches_sees_what_it_says(machine: dict[str, str], tmp_path: Path) -> None:
    """I1: in a new clone, with `make setup`, where nothing was fetched before."""
    (home := tmp_path / "home").mkdir()
    subprocess.run(["git", "clone", "-q", str(README.parent), str(work := tmp_path / "work")], check=True)
    machine = {
        **machine,
        "PATH": os.environ["PATH"],
        "XDG_CACHE_HOME": str(home / ".cache"),
        "PIP_CACHE_DIR": str(home / "pip"),
        "PYTHON": os.path.realpath(sys.executable),
    }
    paste(machine, work, tmp_path, DEADLINE_S + SETUP_S, installs=True)


def paste(machine: dict[str, str], work: Path, tmp_path: Path, deadline_s: float, *, installs: bool = False) -> None:
    """All blocks into one shell; and what they print is what the page says."""
    (setup, _), *steps = blocks()
    assert setup == INSTALLS
    script = "".join(f"{text}echo '{END}'\n" for text, _ in steps).replace("localhost:9092", machine["BOOTSTRAP"])
    script = f"({setup.splitlines()[0]}) >&2 < /dev/null\n{setup.splitlines()[1]}\n{script}" if installs else script
    with (
        (tmp_path / "said").open("w+") as said,
        subprocess.Popen(
            ["bash", "-e"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=work,
            env=machine,
            start_new_session=True,
        ) as shell,
    ):
        ending = threading.Timer(deadline_s, lambda: processes.send(processes.session(shell.pid), signal.SIGKILL))
        ending.start()
        try:
            printed, _ = shell.communicate(script)
            said.seek(0)
            told = "\n".join([said.read(), printed, *(log.read_text() for log in work.glob("*.log"))])
            assert shell.returncode == 0, told
            eventually(lambda: not processes.session(shell.pid), "nothing is left behind", 30)
        finally:
            ending.cancel()
            processes.send(processes.session(shell.pid), signal.SIGKILL)
    outputs = [block.splitlines() for block in printed.split(f"{END}\n")]
    for (text, expected), lines in zip(steps, outputs, strict=False):
        if expected:  # rows of one epoch are in no order
            assert sorted(lines[-len(expected) :]) == sorted(expected), f"{text}\n{told}"
    final = [line for line in outputs[len(steps) - 1] if re.fullmatch(r"\w+:\d+", line)]
    assert sorted(final) == sorted(steps[-2][1]), told  # all that is there: nothing twice
    assert "a pipeline, committed up to epoch" in printed


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    """I7."""
    text = README.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):  # those of other pages: the site's build
        assert (README.parent / link).exists(), link


def test_no_command_of_the_quickstart_has_a_comment_behind_it() -> None:
    """I1: zsh takes a pasted `#` for a word."""
    assert [line for text, _ in blocks() for line in text.splitlines() if "#" in line] == []


def test_each_driver_of_the_quickstart_is_ended() -> None:
    """I1: it runs in the background, and `$!` is the last one that was started so."""
    text = "".join(text for text, _ in blocks())
    assert re.findall(r"&$|\$!", text, re.MULTILINE) == ["&", "$!", "&", "$!"]
