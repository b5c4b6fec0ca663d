"""`onceward kafka` as a person or a script uses it; and what holds for every command."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.servers.broker.layout import FREE_PORTS, taken
from onceward.servers.broker.process import start_time

ONCEWARD = Path(sys.executable).with_name("onceward")


def onceward(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ONCEWARD, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


def answer(*words: str) -> dict[str, Any]:
    done = onceward(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    folder = str(tmp_path / "kafka")
    yield folder
    onceward("kafka", "stop", "--dir", folder)


def test_a_broker_lives_from_start_to_stop(folder: str) -> None:
    port = str(next(port for port in reversed(FREE_PORTS) if not taken(port)))
    started = answer("kafka", "start", "--dir", folder, "--port", port)
    pid = started["brokers"][0]["pid"]
    assert started["started"] is True
    assert started["bootstrap"] == f"127.0.0.1:{port}"
    assert started["brokers"] == [{"node": 1, "port": int(port), "pid": pid, "state": "ready"}]

    again = onceward("kafka", "start", "--dir", folder)
    assert again.returncode == 0
    assert "already runs" in again.stdout

    other = onceward("kafka", "start", "--dir", folder, "--port", "19999")
    assert other.returncode == 1
    assert f"already runs on port {port}" in other.stderr
    assert other.stdout == ""

    more = onceward("kafka", "start", "--dir", folder, "--brokers", "3")
    assert more.returncode == 1
    assert "made with 1 broker" in more.stderr

    os.kill(pid, signal.SIGKILL)
    revived = answer("kafka", "start", "--dir", folder)
    assert revived["started"] is True
    assert revived["bootstrap"] == started["bootstrap"]
    assert revived["brokers"][0]["pid"] != pid

    assert answer("kafka", "status", "--dir", folder)["running"] is True
    assert answer("kafka", "stop", "--dir", folder)["stopped"] is True
    assert start_time(revived["brokers"][0]["pid"]) is None
    stopped = answer("kafka", "status", "--dir", folder)
    assert stopped["running"] is False
    assert stopped["brokers"] == [{"node": 1, "port": int(port), "pid": None, "state": "stopped"}]
    assert answer("kafka", "stop", "--dir", folder)["stopped"] is False


def test_the_status_of_nothing_is_no_error(folder: str) -> None:
    assert answer("kafka", "status", "--dir", folder)["running"] is False
    assert not Path(folder).exists()


def test_a_taken_port_is_one_paragraph_on_standard_error(folder: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = onceward("kafka", "start", "--dir", folder, "--port", port)
    assert done.returncode == 1
    assert done.stderr.startswith(f"onceward: Port {port} is taken")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("kafka", "start", "--brokers", "2"),
        ("kafka", "start", "--port", "70000"),
        ("kafka", "begin"),
        ("--no",),
    ],
)
def test_wrong_usage_exits_with_2(words: tuple[str, ...]) -> None:
    assert onceward(*words).returncode == 2


def test_a_missing_java_exits_with_1_and_the_fix(folder: str, tmp_path: Path) -> None:
    done = onceward("kafka", "start", "--dir", folder, "--port", "0", JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "JAVA_HOME" in done.stderr
    assert "Install Java 17" in done.stderr


def test_the_default_folder_is_the_users_data_folder(tmp_path: Path) -> None:
    done = onceward("kafka", "status", "--json", XDG_DATA_HOME=str(tmp_path))
    assert json.loads(done.stdout)["dir"] == str(tmp_path / "onceward" / "kafka")


def test_help_does_not_load_what_is_heavy() -> None:
    heavy = "{'pyspark', 'pyarrow', 'numpy', 'kafka'}"
    code = f"import sys, onceward.cli.main; found = {heavy} & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_jars_verify_and_path_answer_in_json() -> None:
    assert answer("jars", "fetch")["jars"] == 48
    assert answer("jars", "verify") == {"ok": True, "wrong": {}}
    assert set(answer("jars", "path")) == {"connector", "broker"}


def test_an_altered_cache_fails_verify(tmp_path: Path) -> None:
    done = onceward("jars", "verify", "--json", ONCEWARD_CACHE=str(tmp_path))
    assert done.returncode == 1
    assert json.loads(done.stdout)["ok"] is False


def test_two_starts_at_once_give_one_cluster(folder: str) -> None:
    command: list[str] = [str(ONCEWARD), "kafka", "start", "--dir", folder, "--port", "0", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    said = [json.loads(process.communicate(timeout=120)[0].splitlines()[-1]) for process in both]
    assert sorted(it["started"] for it in said) == [False, True]
    assert said[0]["brokers"] == said[1]["brokers"]
