"""The page on the simulation names every fault, checker and planted bug that there is, and none that is not."""

import re
from pathlib import Path
from typing import Final

import pytest

from onceward.proof.checkers import CHECKERS, OF_WEAKER
from onceward.proof.planted import PLANTS
from onceward.proof.simulation.reading.schedule import FETCHING, SENDING
from onceward.proof.simulation.schedule import FAULTS

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = (DOCS / "proof" / "simulation.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def named(text: str) -> list[str]:
    """What stands first in the rows of its tables."""
    first = [row for row in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if not row.startswith("-")]
    return [name.strip("`") for row in first for name in row.split(", ")]


@pytest.mark.parametrize(
    ("title", "head", "known"),
    [
        ("What goes wrong", "fault", set(FAULTS)),
        ("What is checked", "checker", set(CHECKERS)),
        ("Planted bugs", "planted bug", set(PLANTS)),
    ],
)
def test_a_table_names_what_there_is_once(title: str, head: str, known: set[str]) -> None:
    found = [name for name in named(section(title)) if name != head]
    assert sorted(found) == sorted(known)


def test_every_trouble_of_a_reader_is_told() -> None:
    text = section("Reading and copying").partition("| trouble |")[2].partition("\n\n")[0]
    assert set(named(text)) == {*FETCHING, *SENDING}


def test_what_a_planted_bug_does_wrong_is_said_as_the_command_says_it() -> None:
    told = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", section("Planted bugs"), re.MULTILINE))
    assert {name: told[name] for name, plant in PLANTS.items() if not plant.of_reading} == {
        name: plant.says for name, plant in PLANTS.items() if not plant.of_reading
    }


def test_the_number_of_planted_bugs_is_that_of_the_code() -> None:
    assert re.findall(r"(\d+) bugs ", section("Planted bugs")) == [str(len(PLANTS))]
    assert re.findall(r"(\d+) planted bugs", (DOCS / "proof.md").read_text("utf-8")) == [str(len(PLANTS))]
    eleven = sum(plant.of_reading for plant in PLANTS.values())
    assert ("Eleven are about reading" in PAGE) == (eleven == 11)


def test_what_those_who_promise_less_are_judged_by_is_said() -> None:
    """In one sentence, which names the checkers of both."""
    (sentence,) = re.findall(r"^Under at-least-once .*$", section("What is checked"), re.MULTILINE)
    names = {name for name in CHECKERS if re.search(rf"\b{name}\b", sentence)}
    assert names == set().union(*OF_WEAKER.values())
