"""`onceward savepoint`, as people and programs see it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from onceward.cli.main import app
from onceward.epoch.sealed import seal
from onceward.errors import OncewardError, SavepointDamaged
from onceward.savepoint.manifest import load
from onceward.savepoint.place import Place
from savepoint.homes import saved_home

PAGE = Path(__file__).parents[2] / "docs" / "savepoints.md"


def run(*arguments: str, **options: Any) -> Result:
    ended = CliRunner().invoke(app, ["savepoint", *arguments], **options)
    if isinstance(ended.exception, OncewardError):
        raise ended.exception
    return ended


def told(*arguments: str) -> dict[str, Any]:
    ended = run(*arguments, "--json")
    assert ended.exit_code == 0, ended.output
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E6: in the page's order. What comes after it, restoring, is in tests/docs/test_savepoint_page.py."""
    saved_home(tmp_path / "orders")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8").partition("\n## Restore\n")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert [it[2] for it in commands] == ["create", "create", "list", "inspect", "verify", "delete", "create"]
    for command in commands:
        assert command[:2] == ["onceward", "savepoint"]
        ended = run(*command[2:])
        assert ended.exit_code == 0, ended.output
    assert sorted(it.name for it in (tmp_path / "orders/savepoints").iterdir()) == [
        "before-the-upgrade",
        "the-last-of-version-1",
    ]
    assert list((tmp_path / "backups").iterdir()) == []


def test_what_is_created_is_told_listed_inspected_and_verified(tmp_path: Path) -> None:
    """E6."""
    home = str(saved_home(tmp_path / "home").path)
    made = told("create", home, "--name", "one")
    assert (made["epoch"], made["pipeline"], made["place"]) == (9, "p", f"{home}/savepoints/one")
    (listed,) = told("list", home)["savepoints"]
    assert {**listed, "seconds": made["seconds"]} == made
    inspected = told("inspect", made["place"])
    assert inspected["entry"]["positions"] == ['{"events":{"0":100}}']
    assert [it["name"] for it in inspected["operators"]] == ["dedupe", "symmetricHashJoin"]
    assert told("verify", made["place"]) == listed
    text = run("inspect", made["place"]).stdout
    assert all(it in text for it in ("after epoch 9", "not counted", "28", "left-keyToNumValues", "dedupe by value"))


def test_a_deletion_is_asked_about(tmp_path: Path) -> None:
    """E6."""
    place = saved_home(tmp_path / "home").save(name="one").location
    assert run("delete", place, input="n\n").exit_code == 1
    assert load(Place.at(place)).epoch == 9
    assert run("delete", place, input="y\n").exit_code == 0
    assert told("list", str(tmp_path / "home")) == {"savepoints": []}
    assert "has no savepoints" in run("list", str(tmp_path / "home")).stdout


def test_damage_is_named_and_fails(tmp_path: Path) -> None:
    """E9."""
    place = saved_home(tmp_path / "home").save(name="one")
    (Path(place.location) / "checkpoint/offsets/9").write_text("altered")
    with pytest.raises(SavepointDamaged, match="offsets/9"):
        run("verify", place.location)
    (Path(place.location) / "savepoint.json").unlink()
    assert "is missing" in told("list", str(tmp_path / "home"))["savepoints"][0]["problem"]


def test_names_from_elsewhere_are_shown_and_not_acted_on(tmp_path: Path) -> None:
    """J5: a savepoint may come from anywhere."""
    place = saved_home(tmp_path / "home").save(name="one")
    found = load(place)
    hostile = "\x1b[31m[/red]\nforged"
    operators = [msgspec.structs.replace(found.operators[0], name=hostile)]
    entry = msgspec.structs.replace(found.entry, positions=[hostile], sinks={hostile: found.entry.sinks["out"]})
    forged = msgspec.structs.replace(found, pipeline=hostile, operators=operators, entry=entry, guarantee=hostile)
    (Path(place.location) / "savepoint.json").write_bytes(seal(forged))
    for command in (("inspect", place.location), ("list", str(tmp_path / "home"))):
        text = run(*command).stdout
        assert "\x1b" not in text
        assert "\\x1b[31m[/red]" in text.replace("\n", "")
