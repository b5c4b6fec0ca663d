"""The page on savepoints as a reader follows it: its files, its commands, and what they say when they refuse."""

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.errors import OncewardError
from onceward.kafka.wire import Cluster, Wire
from onceward.pipeline import session
from onceward.servers.broker import DevBroker
from support.judge import Kafka

PAGE: Final = Path(__file__).parents[2] / "docs" / "savepoints.md"
# What each section commits, when ann has bought for 7.00 and bob for 4.00 before it.
TOTALS: Final = {
    "The job": [("ann", 700), ("bob", 400)],
    "Upgrade a job": [("ann", 1400)],  # from 10.00 on
    "Fork a staging copy": [],  # the copy's are elsewhere
    "Rescale": [("ann", 2800), ("bob", 1600)],
    "Change the state backend": [("ann", 3500), ("bob", 2000)],
    "Go back in time after a bad release": [("ann", 73500), ("bob", 42000), ("ann", 4200), ("bob", 2400)],
    "The query does not fit": [],
}


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """On a broker of its own: the page's topics have names that others could use too."""
    with (
        DevBroker(tmp_path_factory.mktemp("own"), port=0) as broker,
        closing(Wire(Cluster(broker.bootstrap))) as wire,
        closing(Kafka(broker.bootstrap, wire)) as kafka,
    ):
        wire.create_topics(["orders", "totals", "totals-staging"], 1)
        yield kafka


class Reader:
    """Who follows the page: makes its files, and gives its commands, all in this process and on one Spark."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch, self._folder = monkeypatch, folder
        self._text = PAGE.read_text("utf-8").partition("\n## Restore\n")[2]
        self._said = ""
        for block in re.findall(r"^```python\n(.*?)^```", self._text, re.DOTALL | re.MULTILINE):
            (folder / block.split()[1]).write_text(block)

    @property
    def headings(self) -> list[str]:
        """Of the sections with commands."""
        return [it.partition("\n")[0] for it in self._text.split("\n### ")[1:] if "```sh" in it]

    def follow(self, heading: str) -> None:
        """Every command of a section; a block without a language is what the command before it says."""
        section = re.split(r"^##+ ", self._text.partition(f"\n### {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
            if language == "sh":
                for line in block.splitlines():
                    self._give(line)
            elif not language:
                assert _plain(block) == _plain(self._said.replace(str(self._folder), "/data"))

    def _give(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        with self._monkeypatch.context() as environment:
            while "=" in words[0]:
                environment.setenv(*words.pop(0).split("=", 1))
            assert words.pop(0) == "onceward"
            environment.delitem(sys.modules, "orders", raising=False)  # it reads the environment
            once = ["--once"] if words[0] == "run" else []  # it ends with what there is, instead of by Ctrl-C
            ended = CliRunner().invoke(app, [*words, *once])
        if line.endswith("# refused"):
            assert isinstance(ended.exception, OncewardError), f"{line}\n{ended.output}"
            self._said = str(ended.exception)
        else:
            assert ended.exit_code == 0, f"{line}\n{ended.output}\n{ended.exception!r}"
            self._said = ended.stdout


def _plain(text: str) -> list[str]:
    """Without line breaks, and without what each run names anew."""
    return re.sub(r"lineage [0-9a-f]{8}", "lineage", text).split()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_who_follows_the_page_on_savepoints_finds_what_it_says(
    kafka: Kafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E6, E7, E8, E2, E10: an upgrade, a copy, another width, another backend, back in time; and what is refused.

    In one process: each command as `onceward` runs it, but for the Spark that all of them share.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA", kafka.bootstrap)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(session, "session", lambda *_, **__: spark)
    monkeypatch.setattr(session, "end", lambda _: None)
    reader, seen = Reader(monkeypatch, tmp_path), 0
    assert reader.headings == list(TOTALS)
    for heading, totals in TOTALS.items():
        kafka.feed("orders", [("ann", "700"), ("bob", "400")])
        reader.follow(heading)
        records = [(message.key().decode(), int(message.value())) for message in kafka.read("totals")]
        assert sorted(records[seen:]) == sorted(totals), heading  # of several partitions
        seen = len(records)
    copied = [(message.key().decode(), int(message.value())) for message in kafka.read("totals-staging")]
    assert sorted(copied) == [("ann", 2100), ("bob", 1200)]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # what was rescaled is a query's own
