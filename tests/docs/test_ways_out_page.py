"""The page on ways out as a reader follows it: its files, its commands, and what is committed afterwards."""

import re
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.errors import OncewardError
from onceward.pipeline import session
from support.judge import Kafka

PAGE: Final = Path(__file__).parents[2] / "docs" / "ways-out.md"
# What arrives before each section, and what it adds to the output.
SECTIONS: Final = {
    "The first start named the wrong topic": (["1", "2"], ["100", "2", "4"]),
    "Begin anew": ([], ["4"]),
    "Leave out a poison record": (["3", "poison", "5"], ["6", "10"]),
}


@pytest.mark.slow
def test_who_follows_the_page_on_ways_out_gets_there(
    kafka: Kafka, spark: SparkSession, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3, I4: a wrong topic, a reset from offsets, a poison record; with the commands of the page."""
    topics = {it: kafka.topic(1) for it in ("clikcs", "clicks", "doubles", "dead")}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(session, "session", lambda *_, **__: spark)
    monkeypatch.setattr(session, "end", lambda _: None)
    text = (
        PAGE.read_text("utf-8").replace("localhost:9092", kafka.bootstrap).replace("/data/clicks", f"{tmp_path}/home")
    )
    text = text.replace('Pipeline("doubles"', f'Pipeline("{name}"')
    for told, topic in topics.items():
        text = re.sub(rf'(?<=["= ,]){told}(?=["/\n])', topic, text)
    kafka.feed(topics["clikcs"], [(None, "50")])
    said, seen = "", 0
    for section in text.split("\n## "):
        arrives, wanted = SECTIONS.get(section.partition("\n")[0], ([], []))
        kafka.feed(topics["clicks"], [(None, value) for value in arrives])
        for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
            if language == "python":
                (tmp_path / block.split()[1]).write_text(block)
            for line in block.splitlines() if language == "sh" else ():
                said = give(line)
        values = kafka.values(topics["doubles"])
        assert values[seen:] == wanted, section
        seen = len(values)
    assert kafka.values(topics["dead"]) == ["poison"]
    assert f"{topics['clicks']}/0/3: 6 bytes 'poison', no number (skipped" in said


def give(line: str) -> str:
    """A command of the page; what it says."""
    words = shlex.split(line, comments=True)
    assert words.pop(0) == "onceward"
    ended = CliRunner().invoke(app, [*words, *(["--once"] if words[0] == "run" else [])])
    if line.endswith("# refused"):
        assert isinstance(ended.exception, OncewardError), f"{line}\n{ended.output}\n{ended.exception!r}"
        return str(ended.exception)
    assert ended.exit_code == 0, f"{line}\n{ended.output}\n{ended.exception!r}"
    return ended.stdout
