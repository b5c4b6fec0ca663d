"""What carries the stories: the list, the index page, the pictures, the command."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.textbook import library, page
from onceward.textbook.pictures.conversation import Conversation, Happened, Said
from onceward.textbook.pictures.grid import WIDTH, Grid, Tone
from textbook.told import ROOT


def test_every_story_is_listed_with_its_question() -> None:
    shown = CliRunner().invoke(app, ["textbook"])
    assert shown.exit_code == 0
    for story in library.stories():
        assert f"{story.name} {story.question}" in " ".join(shown.output.split())
        assert story.question.endswith("?")
    assert max(map(len, shown.output.splitlines())) <= 80


def test_the_index_page_is_current() -> None:
    expected = page.index(library.stories())
    assert (ROOT / "docs" / "textbook" / page.INDEX).read_text("utf-8") == expected


def test_every_page_belongs_to_a_story() -> None:
    names = {path.stem for path in (ROOT / "docs" / "textbook").glob("*.md")} - {"README"}
    assert names == set(library.NAMES)


def test_every_picture_of_a_page_is_well_formed_and_has_a_title() -> None:
    for file in (ROOT / "docs" / "textbook").glob("*.svg"):
        root = ET.fromstring(file.read_text("utf-8"))
        assert root.findtext("{http://www.w3.org/2000/svg}title"), file.name


def test_an_unknown_story_is_wrong_usage_and_names_those_that_there_are() -> None:
    shown = CliRunner().invoke(app, ["textbook", "no-such"])
    assert shown.exit_code == 2
    assert all(name in shown.output for name in library.NAMES)


def test_the_command_tells_a_story_and_writes_its_picture(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["textbook", "chandy-lamport", "--svg", str(tmp_path / "run.svg")])
    assert shown.exit_code == 0
    assert "What to take away" in shown.output
    kept = (ROOT / "docs" / "textbook" / "chandy-lamport.svg").read_text("utf-8")
    assert (tmp_path / "run.svg").read_text("utf-8") == kept


def test_a_conversation_is_drawn_from_lane_to_lane() -> None:
    talk = Conversation(
        title="a talk",
        lanes=("driver", "broker"),
        moments=(
            Said("driver", "broker", "produce"),
            Said("broker", "driver", "ok", Tone.BAD, lost=True),
            Happened("driver", "killed", Tone.BAD),
        ),
    )
    lines = str(talk.grid()).splitlines()
    assert lines[0].split() == ["driver", "broker"]
    assert "produce" in lines[1]
    assert re.fullmatch(r" +│─+▶│", lines[2])
    assert re.fullmatch(r" +│ +✗─+│", lines[4])
    assert lines[5].split()[:2] == ["●", "killed"]
    assert max(map(len, lines)) <= WIDTH


def test_words_that_do_not_fit_are_an_error_and_not_cut_off() -> None:
    with pytest.raises(ValueError, match="room"):
        Conversation(title="", lanes=("a", "b", "c"), moments=(Said("a", "b", "x" * 60),)).grid()
    with pytest.raises(ValueError, match="fit"):
        Grid().put(0, 70, "x" * 20)
