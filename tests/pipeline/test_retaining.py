"""Retained checkpoints: what is left of a pipeline that has ended, by policy."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import onceward as ow
from onceward.cli.main import app
from onceward.epoch import deeds
from onceward.epoch.home import Home
from onceward.epoch.sealed import seal
from onceward.errors import CheckpointDropped, CommitUnfinished, ConfigurationError, EpochFailed
from onceward.holding import this_process
from onceward.pipeline import pipeline as pipelines
from onceward.pipeline import query as queries
from onceward.savepoint.pins import Note
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import verify
from pipeline.queries import deduplicated, feed, stream
from support.home import checkpoint_of
from support.waiting import eventually


class Files(ow.FileSink):
    """A sink that can be told to fail."""

    def __init__(self, folder: Path, fails: str = "") -> None:
        super().__init__(folder, format="json")
        self.fails = fails
        self.hangs, self.go_on = threading.Event(), threading.Event()

    def write(self, context: ow.EpochContext, rows: DataFrame) -> ow.Outcome:
        if self.fails == "write":
            raise ConfigurationError("it was told to")
        if self.fails == "hang":
            self.hangs.set()
            assert self.go_on.wait(60)
        return super().write(context, rows)

    def commit(self, context: ow.EpochContext, committable: Any) -> None:
        if self.fails == "commit":
            raise ConfigurationError("it was told to")
        super().commit(context, committable)


@pytest.fixture
def start(spark: SparkSession, name: str, tmp_path: Path) -> Callable[..., ow.Query]:
    feed(tmp_path / "in", 0)

    def begin(
        fails: str = "",
        trigger: str | None = "once",
        sink: Files | None = None,
        report: Callable[[str], None] = lambda _: None,
        **options: Any,
    ) -> ow.Query:
        source = deduplicated(stream(spark, tmp_path / "in"))
        pipeline = ow.Pipeline(name, home=tmp_path / "home", source=source, **options)
        return pipeline.to(sink or Files(tmp_path / "out", fails), name="files").start(trigger=trigger, report=report)

    return begin


def test_by_default_the_checkpoint_stays(start: Callable[..., ow.Query], tmp_path: Path) -> None:
    """E5: an ended pipeline can be started again."""
    start().wait(120)
    assert (checkpoint_of(tmp_path / "home") / "offsets" / "0").exists()
    assert deeds.ended(Home.at(tmp_path / "home").storage) is None


@pytest.mark.parametrize("retain", ["never", "on-failure"])
def test_after_a_clean_end_it_is_dropped_and_the_next_start_is_told(
    start: Callable[..., ow.Query], tmp_path: Path, retain: str
) -> None:
    """E5: the ledger stays, and says what was committed."""
    query = start(retain=retain)
    query.wait(120)
    last = query.epochs[-1].epoch
    home = Home.at(tmp_path / "home")
    assert list((tmp_path / "home" / "checkpoints").rglob("*")) == []
    ended = deeds.ended(home.storage)
    assert ended is not None
    assert (ended.epoch, ended.reason, ended.retain) == (last, "finished", retain)
    assert list((tmp_path / "home" / "ledger").iterdir())
    terms = sorted((tmp_path / "home" / "terms").iterdir())
    with pytest.raises(
        CheckpointDropped, match=rf"after epoch {last},.*finished.*--from SAVEPOINT.*onceward reset HOME"
    ):
        start()
    assert sorted((tmp_path / "home" / "terms").iterdir()) == terms, "a start that is refused touches nothing"


def test_a_stop_is_a_clean_end(start: Callable[..., ow.Query], tmp_path: Path) -> None:
    """E5: with epochs still to come."""
    query = start(trigger="100ms", retain="on-failure")
    eventually(lambda: query.epochs_committed == 2, "both epochs, of which one only moves time on")
    query.stop()
    ended = deeds.ended(Home.at(tmp_path / "home").storage)
    assert ended is not None
    assert (ended.epoch, ended.reason) == (1, "stopped")


def test_after_a_failure_it_is_kept_on_failure_and_dropped_never(
    start: Callable[..., ow.Query], tmp_path: Path
) -> None:
    """E5: nothing of the failed epoch is visible, so nothing is in doubt."""
    with pytest.raises((ConfigurationError, EpochFailed)):
        start("write", retain="on-failure").wait(120)
    assert (checkpoint_of(tmp_path / "home") / "offsets" / "0").exists()
    start(retain="always").wait(120)
    feed(tmp_path / "in", 1)
    with pytest.raises((ConfigurationError, EpochFailed)):
        start("write", retain="never").wait(120)
    ended = deeds.ended(Home.at(tmp_path / "home").storage)
    assert ended is not None
    assert ended.reason.startswith("failed: ")
    with pytest.raises(CheckpointDropped, match=f"ended after epoch {ended.epoch}"):
        start()


def test_before_the_first_epoch_there_is_nothing_to_drop(start: Callable[..., ow.Query], tmp_path: Path) -> None:
    """E5: the next start goes on with what was planned."""
    with pytest.raises((ConfigurationError, EpochFailed)):
        start("write", retain="never").wait(120)
    assert deeds.ended(Home.at(tmp_path / "home").storage) is None
    start(retain="never").wait(120)
    assert deeds.ended(Home.at(tmp_path / "home").storage) is not None


def test_an_epoch_in_doubt_is_never_thrown_away(
    start: Callable[..., ow.Query], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """E5: whatever the policy says; the next start finishes the epoch, and then it is dropped."""
    with caplog.at_level(logging.WARNING, "onceward.pipeline"), pytest.raises(CommitUnfinished):
        start("commit", retain="never").wait(120)
    assert "is kept, against retain='never'" in caplog.text
    assert (checkpoint_of(tmp_path / "home") / "offsets" / "0").exists()
    start(retain="never").wait(120)
    assert deeds.ended(Home.at(tmp_path / "home").storage) is not None
    assert [file for file in (tmp_path / "out").rglob("*.json") if not any(p.startswith(".") for p in file.parts)]


def test_an_epoch_that_has_not_ended_keeps_its_checkpoint(
    start: Callable[..., ow.Query], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E5: Spark's stop does not end an epoch that hangs in a sink; its checkpoint is not deleted under it."""
    monkeypatch.setattr(queries, "EPOCH_END_S", 0.2)
    sink = Files(tmp_path / "out", "hang")
    query = start(sink=sink, retain="never")
    assert sink.hangs.wait(60)
    try:
        with caplog.at_level(logging.WARNING, "onceward.pipeline"):
            query._close()  # as when Spark has ended the query
        assert "its epoch 0 has not within 0 s" in caplog.text
        assert "is kept, against retain='never': epoch 0 has not ended yet" in caplog.text
        assert (checkpoint_of(tmp_path / "home") / "offsets" / "0").exists()
        assert deeds.ended(Home.at(tmp_path / "home").storage) is None
    finally:
        sink.go_on.set()
    with suppress(StreamingQueryException):  # the epoch finds its pipeline closed
        query.spark_query.awaitTermination(60)
    start(retain="always").wait(120)
    rows = [line for file in (tmp_path / "out").rglob("*.json") if not any(p.startswith(".") for p in file.parts)
            for line in file.read_text().splitlines()]  # fmt: skip
    assert len(rows) == len(set(rows)) > 0


def test_a_drop_that_was_interrupted_is_known_by_its_slot(
    start: Callable[..., ow.Query], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E5: killed before anything was deleted: the pipeline has ended all the same."""
    monkeypatch.setattr(pipelines, "delete", lambda *_: None)
    start(retain="never").wait(120)
    assert (checkpoint_of(tmp_path / "home") / "offsets" / "0").exists()
    with pytest.raises(CheckpointDropped, match=r"after epoch \d+.*its checkpoint is gone"):
        start()


@pytest.mark.parametrize("retain", ["never", "on-failure"])
def test_what_is_asked_to_be_saved_is_never_dropped(
    start: Callable[..., ow.Query], tmp_path: Path, retain: str
) -> None:
    """E5, E6: by the query itself, and by a command in another process."""
    query = start(trigger="100ms", retain=retain)
    eventually(lambda: query.epochs_committed == 2, "both epochs")
    saved = query.savepoint(name="mine", stop=True)
    assert verify(Place.at(saved)).epoch == query.epochs[-1].epoch
    assert deeds.ended(Home.at(tmp_path / "home").storage) is None
    query = start(trigger="100ms", retain=retain)
    done = CliRunner().invoke(app, ["savepoint", "create", str(tmp_path / "home"), "--name", "theirs", "--stop"])
    assert done.exit_code == 0, done.output
    query.wait(60)
    assert verify(Place.at(tmp_path / "home" / "savepoints" / "theirs")).epoch == 1
    start(retain=retain).wait(120)
    assert deeds.ended(Home.at(tmp_path / "home").storage) is not None, "by itself it ends as the policy says"


def test_a_savepoint_that_is_being_made_keeps_the_checkpoint(
    start: Callable[..., ow.Query], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """E5, E6: by whomever, as long as he is not provably gone."""
    note = Note(id="ab" * 16, holder=msgspec.structs.replace(this_process("p", 0), machine="another"))
    Home.at(tmp_path / "home").storage.replace(f"pins/{note.id}.json", seal(note))
    with caplog.at_level(logging.WARNING, "onceward.pipeline"):
        start(retain="never").wait(120)
    assert "is kept, against retain='never': a savepoint of it is being made" in caplog.text
    assert deeds.ended(Home.at(tmp_path / "home").storage) is None


def test_a_start_that_waits_while_the_pipeline_ends_for_good_is_refused(
    start: Callable[..., ow.Query], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E5: what was judged before the lease was waited for is judged again, whatever the guarantee: else it would begin
    with an empty state."""
    query = start(trigger="100ms", retain="never", guarantee="at-least-once")
    eventually(lambda: query.epochs_committed == 2, "both epochs")
    waiting = threading.Event()

    def report(text: str) -> None:
        if "waiting for its lease" in text:
            waiting.set()

    found: list[BaseException] = []

    def second() -> None:
        try:
            start(retain="never", guarantee="at-least-once", report=report).stop()
        except BaseException as error:  # noqa: BLE001 - looked at below
            found.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    assert waiting.wait(30)
    query.stop()
    thread.join(60)
    assert [type(it) for it in found] == [CheckpointDropped]


def test_a_policy_that_there_is_not(start: Callable[..., ow.Query]) -> None:
    with pytest.raises(ConfigurationError, match="'always', 'on-failure' or 'never'"):
        start(retain="sometimes")
