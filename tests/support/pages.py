"""Who follows a page of the documentation: makes its files, and gives its commands, all in one process and Spark."""

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.errors import OncewardError
from onceward.kafka.wire import Cluster, Wire
from onceward.pipeline import session
from onceward.servers.broker import DevBroker
from support.judge import Kafka
from support.page_files import files_in


@contextmanager
def own_kafka(folder: Path) -> Iterator[Kafka]:
    """On a broker of its own, with the topics of the page on savepoints: others could use such names too."""
    with (
        DevBroker(folder, port=0) as broker,
        closing(Wire(Cluster(broker.bootstrap))) as wire,
        closing(Kafka(broker.bootstrap, wire)) as kafka,
    ):
        wire.create_topics(["orders", "totals", "totals-staging"], 1)
        yield kafka


class Block(NamedTuple):
    """`sh` is given as commands; without a language it is what the command before it says; others are shown only."""

    language: str
    text: str


def blocks(text: str) -> Iterator[Block]:
    """Also those inside of lists."""
    for found in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE):
        yield Block(found[2], textwrap.dedent(found[3]))


def write_files(text: str, folder: Path) -> None:
    """A block of Python that begins with its name is a file."""
    for name, block in files_in(text).items():
        (folder / name).write_text(block)


class Reader:
    """Each command as `onceward` runs it, but for the Spark that all of them share."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, folder: Path) -> None:
        self._monkeypatch, self._folder, self._said = monkeypatch, folder, ""
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(session, "session", lambda *_, **__: spark)
        monkeypatch.setattr(session, "end", lambda _: None)

    def follow(self, text: str) -> None:
        for language, block in blocks(text):
            if language == "sh":
                for line in block.splitlines():
                    self.give(line)
            elif not language:
                assert _plain(block) == _plain(self._said.replace(str(self._folder), "/data"))

    def give(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        if words[0] == "cd":
            self._monkeypatch.chdir(words[1])
        elif "onceward" not in words[:3]:
            subprocess.run(["/bin/sh", "-ec", line], check=True, timeout=60)
        else:
            self._onceward(line, words)

    def _onceward(self, line: str, words: list[str]) -> None:
        with self._monkeypatch.context() as environment:
            while "=" in words[0]:
                environment.setenv(*words.pop(0).split("=", 1))
            assert words.pop(0) == "onceward"
            environment.delitem(sys.modules, "orders", raising=False)  # it reads the environment
            # A run ends with what there is, instead of by Ctrl-C.
            once = ["--once"] if words[0] == "run" and "--once" not in words else []
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
