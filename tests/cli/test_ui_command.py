"""`onceward ui` as a person uses it: what it prints, what it refuses, and how it ends."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboard.homes import MadeHome
from onceward.cli.main import app
from onceward.dashboard import serving
from onceward.errors import ConfigurationError, DependencyMissing


def run(*arguments: str) -> object:
    found = CliRunner().invoke(app, ["ui", *arguments], catch_exceptions=True)
    return found.exception if not isinstance(found.exception, SystemExit | type(None)) else found


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    home = MadeHome(tmp_path / "orders")
    home.driven()
    home.epochs(3)
    return home


def test_the_overview_is_printed_once_for_programs(made: MadeHome) -> None:
    """I2."""
    found = CliRunner().invoke(app, ["ui", str(made.path), "--json"])
    overview = json.loads(found.stdout)
    assert [(it["name"], it["state"], it["epoch"]) for it in overview["pipelines"]] == [("orders", "running", 2)]
    assert overview["kafka"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the homes to be shown, or --demo"),
        (("--demo", "HOME"), "--demo brings its own homes"),
        (("HOME", "--setting", "security.protocol=SSL"), "--setting goes with --kafka"),
        (("HOME", "--port", "70000"), "65535"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], said: str) -> None:
    found = CliRunner().invoke(app, ["ui", *arguments], env={"COLUMNS": "200"})
    assert found.exit_code == 2
    assert said in found.output


def test_a_home_that_cannot_be_shown_is_told_with_what_can_be_done(tmp_path: Path) -> None:
    gone = run(str(tmp_path / "nowhere"))
    assert isinstance(gone, ConfigurationError)
    assert "there is no directory" in str(gone)
    far = run("hdfs://host/home")
    assert isinstance(far, ConfigurationError)
    assert "local or mounted paths only" in str(far)


def test_a_missing_extra_is_named(made: MadeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3."""
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name == "starlette" else object())
    found = run(str(made.path))
    assert isinstance(found, DependencyMissing)
    assert str(found) == "the page needs starlette: pip install 'onceward[ui]'"


def test_a_port_that_is_taken_is_told(made: MadeHome) -> None:
    with serving.bound(0) as other:
        other.listen()
        found = run(str(made.path), "--port", str(other.getsockname()[1]))
    assert isinstance(found, ConfigurationError)
    assert "--port 0 for any that is free" in str(found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_the_page_is_and_ends_quietly(made: MadeHome, number: signal.Signals) -> None:
    """I2: also while somebody has the page open."""
    process = subprocess.Popen(
        [sys.executable, "-m", "onceward", "ui", str(made.path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        line = process.stderr.readline()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)\?token=([\w-]{43}) shows it live; Ctrl-C ends it\n", line)
        assert found is not None, line
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{found[1]}api/stream", timeout=20)
        with urllib.request.urlopen(f"{found[1]}api/stream?token={found[2]}", timeout=20) as stream:
            assert stream.readline() == b"event: overview\n"
            process.send_signal(number)
            assert process.wait(20) == 0
        rest = process.stderr.read()
        assert "Traceback" not in rest
        assert found[2] not in rest  # no log of requests has it
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
