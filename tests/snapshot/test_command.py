"""`onceward snapshot`, as people and programs see it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from onceward.cli.main import app
from onceward.epoch.sealed import seal
from onceward.errors import ConfigurationError, OncewardError, SnapshotDamaged, SnapshotUnusable
from onceward.snapshot.manifest import OnItsWay, load
from snapshot.homes import Joined, two

HOSTILE = "\x1b[31m\x1b]0;title\x07[/red][bold]x\nforged"


def run(*arguments: str, **options: Any) -> Result:
    ended = CliRunner().invoke(app, ["snapshot", *arguments], **options)
    if isinstance(ended.exception, OncewardError):
        raise ended.exception
    return ended


def told(*arguments: str) -> dict[str, Any]:
    ended = run(*arguments, "--json")
    assert ended.exit_code == 0, ended.output
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.fixture
def homes(tmp_path: Path) -> list[str]:
    return [str(it.path) for it in two(tmp_path / "homes")]


@pytest.fixture
def snapshot(tmp_path: Path, homes: list[str]) -> str:
    return str(told("create", *homes, "--to", str(tmp_path / "it"))["place"])


def test_what_is_created_is_told_shown_and_verified(tmp_path: Path, homes: list[str]) -> None:
    """D5: for programs."""
    made = told("create", *homes, "--to", str(tmp_path / "it"))
    assert made["place"] == str(tmp_path / "it")
    assert made["seconds"] >= 0
    assert [(it["pipeline"], it["epoch"]) for it in made["members"]] == [("first", 1), ("second", 1)]
    assert [it["ranges"] for it in made["channels"]] == [[[0, 5, 10], [1, 3, 3]]]
    del made["seconds"]
    assert told("show", made["place"]) == made
    verified = told("verify", made["place"])
    assert verified == {"place": made["place"], "id": made["id"], "bytes": verified["bytes"], "topics": False}
    assert verified["bytes"] > 0
    assert told("delete", made["place"], "--yes") == {"deleted": made["place"]}
    assert not (tmp_path / "it").exists()


def test_what_is_created_is_told_in_a_sentence(tmp_path: Path, homes: list[str]) -> None:
    """D5: for people."""
    text = run("create", *homes, "--to", str(tmp_path / "it")).stdout
    assert re.fullmatch(
        rf"{tmp_path}/it: first at epoch 1, second at epoch 1; 1 channel with 5 offsets on its way; in \d+\.\d\d s\n",
        text,
    ), text
    assert "whole, 2 savepoints" in run("verify", f"{tmp_path}/it").stdout
    assert "the topics were not looked at (--kafka)" in run("verify", f"{tmp_path}/it").stdout
    assert run("delete", f"{tmp_path}/it", "--yes").stdout == f"{tmp_path}/it: deleted\n"


def test_its_place_is_beside_the_first_home_unless_somebody_says_another(tmp_path: Path, homes: list[str]) -> None:
    """D5."""
    place = Path(told("create", *homes)["place"])
    assert place.parent == tmp_path / "homes"
    assert re.fullmatch(r"snapshot-\d{8}T\d{6}", place.name)
    with pytest.raises(ConfigurationError):
        run("create", "hdfs://here/home")


def test_what_is_shown_is_the_cut(snapshot: str) -> None:
    """D5: each pipeline's epoch, each partition's range, and a drawing of it."""
    text = run("show", snapshot).stdout
    lines = text.splitlines()
    assert lines[0].startswith(f"{snapshot}: snapshot ")
    rows = [re.split(r"[ │┃|]+", line.strip("│┃| ")) for line in lines]
    assert ["t", "0", "first", "second", "5", "10", "5"] in rows
    assert ["t", "1", "first", "second", "3", "3", "0"] in rows
    assert ["first", "1", "01234567", "t"] in rows
    assert any(re.search(r"first +-+ epoch 1 #", line) for line in lines)
    assert any("=>" in line and "t > second" in line for line in lines)
    assert lines[-1].startswith("# saved here")
    assert max(map(len, lines[1:])) <= 120


def test_pipelines_that_no_topic_joins_are_shown_without_a_drawing(tmp_path: Path) -> None:
    """D5."""
    home = Joined(tmp_path, "alone").epoch(0, writes={"t": {0: (0, 4)}})
    text = run("create", str(home.path), "--to", str(tmp_path / "it")).stdout
    assert "no topic joins them" in text
    assert "no topic joins them" in run("show", str(tmp_path / "it")).stdout


def test_names_from_elsewhere_are_shown_and_not_acted_on(snapshot: str) -> None:
    """J5: a snapshot may come from anywhere."""
    _, found = load(snapshot)
    first, second = found.members
    members = [
        msgspec.structs.replace(first, lineage=HOSTILE, home=HOSTILE, writes={HOSTILE: HOSTILE}),
        msgspec.structs.replace(second, lineage=HOSTILE),
    ]
    channel = OnItsWay(topic=HOSTILE, topic_id=HOSTILE, producer="first", consumer="second", ranges=[(0, 0, 5)])
    forged = msgspec.structs.replace(found, created_at=HOSTILE, id=HOSTILE, members=members, channels=[channel])
    (Path(snapshot) / "snapshot.json").write_bytes(seal(forged))
    text = run("show", snapshot).stdout
    assert all(it == "\n" or it.isprintable() for it in text)
    assert "[/red]" in text.replace("\n", "")
    assert not any(line.startswith("forged") for line in text.splitlines())
    assert told("show", snapshot)["created_at"] == HOSTILE


def test_a_deletion_is_asked_about(snapshot: str) -> None:
    """D5."""
    assert run("delete", snapshot, input="n\n").exit_code == 1
    assert Path(snapshot).exists()
    assert run("delete", snapshot, input="y\n").exit_code == 0
    assert not Path(snapshot).exists()


def test_a_setting_goes_with_the_brokers_it_is_for(snapshot: str) -> None:
    for options in (("--setting", "a=b"), ("--kafka", "localhost:1", "--setting", "nothing")):
        ended = run("verify", snapshot, *options)
        assert ended.exit_code == 2
    with pytest.raises(ConfigurationError, match="is not a list of host:port"):
        run("verify", snapshot, "--kafka", "nowhere")


def test_errors_end_the_command_with_one_and_a_sentence(tmp_path: Path, snapshot: str, homes: list[str]) -> None:
    """D5: exit codes that mean something."""
    with pytest.raises(SnapshotUnusable, match="is there already"):
        run("create", *homes, "--to", snapshot)
    with pytest.raises(SnapshotUnusable, match="within 0 s: pipeline 'new' has no epoch yet"):
        run("create", str(Joined(tmp_path, "new").path), "--patience", "0", "--to", str(tmp_path / "other"))
    (Path(snapshot) / "pipelines/first/checkpoint/metadata").write_text("altered")
    with pytest.raises(SnapshotDamaged, match="checkpoint/metadata"):
        run("verify", snapshot)
    ended = subprocess.run(
        [sys.executable, "-m", "onceward", "snapshot", "verify", snapshot], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "checkpoint/metadata" in ended.stderr


def test_without_arguments_it_says_what_there_is() -> None:
    text = run().output
    assert all(it in text for it in ("create", "show", "verify", "delete", "restore"))
