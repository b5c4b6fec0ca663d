"""What `onceward run` shows while it runs, in a terminal, in a log, to a program."""

import io
import json
import logging
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from rich.console import Console
from rich.live import Live

from onceward.cli import logs
from onceward.cli.tables import printed
from onceward.cli.watch import JsonLines, LiveView, PlainLines, drawn, view
from onceward.pipeline.stop_signals import stop_signals
from onceward.watching.showing import Shown, Watch
from onceward.watching.sight import Sight
from watching.test_showing import PROGRESS, entry, sight


def busy(**facts: Any) -> Sight:
    return sight(
        1.0, epochs=(entry(3),), epochs_committed=4, rows_read=40,
        rows_written={"kafka": 40, "postgres": 40}, progress=PROGRESS, **facts,
    )  # fmt: skip


def as_drawn(shown: Shown, width: int = 80) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(drawn(shown))
    return text.getvalue()


def test_the_live_view_fits_80_columns_and_says_what_is_asked_most() -> None:
    """I3."""
    watch = Watch()
    watch.shown(sight(0))
    text = as_drawn(watch.shown(busy(running=4, doing="committing in 'kafka'")))
    assert max(map(len, text.splitlines())) <= 80
    for wanted in (
        "clicks  running  (exactly-once)",
        "4 (4 committed)",
        "40/s (40)",
        "kafka 40/s (40), postgres 40/s (40)",
        "clicks 7",
        "84 ms: reading 8, computing 40, writing 24, committing 12",
        "epoch 4: committing in 'kafka'",
    ):
        assert wanted in text


def test_what_is_waited_for_folds_into_80_columns() -> None:
    reason = "PostgreSQL at 10.1.2.3:5432, database shop cannot be reached: connection refused " * 2
    text = as_drawn(Watch().shown(busy(waiting=f"waiting for sink 'pg': {reason}(12 s)")))
    assert "waiting" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_hostile_name_is_no_markup_and_no_escape() -> None:
    text = as_drawn(Watch().shown(busy(waiting="waiting for [/red]\x1b[2J\n: x (1 s)")))
    assert "[/red]\\x1b[2J\\n" in text
    assert "\x1b" not in text


def test_without_a_terminal_each_epoch_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """I3."""
    with view(quiet=False, json_lines=False) as lines:
        assert isinstance(lines, PlainLines)
        lines.look([busy()])
        lines.look([busy()])
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("clicks: epoch 3 committed: 10 rows in, 10 to kafka, 10 to postgres") == 1


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with view(quiet=True, json_lines=False) as silent:
        silent.report("starting")
        silent.look([busy()])
    assert capsys.readouterr() == ("", "")


def test_json_lines_tell_epochs_and_changes_of_state(capsys: pytest.CaptureFixture[str]) -> None:
    with view(quiet=False, json_lines=True) as lines:
        assert isinstance(lines, JsonLines)
        lines.look([busy()])
        lines.look([busy()])
        lines.look([busy(waiting="waiting for sink 'pg': refused (1 s)")])
        lines.look([busy(active=False, failure="no more")])
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(it["event"], it.get("state")) for it in facts] == [
        ("epoch", None), ("state", "running"), ("state", "waiting"), ("state", "failed"),
    ]  # fmt: skip
    assert facts[0]["rows_in"] == 10
    assert facts[0]["rows_out"] == {"kafka": 10, "postgres": 10}
    assert facts[0]["milliseconds"]["committing"] == 12
    assert facts[2]["waits_for"] == "sink 'pg': refused (1 s)"
    assert facts[3]["error"] == "no more"


def test_json_lines_tell_what_is_waited_for_without_what_others_say_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """J4: a database quotes rows, here as in an error that ends a run."""
    said = "PostgreSQL cannot be reached: FATAL: no room for Ann Smith"
    with view(json_lines=True) as lines:
        lines.look([busy(waiting=f"waiting for sink 'pg': {said} (1 s)")])
        lines.look([busy(active=False, failure=f"OutageTooLong: sink 'pg' was waited for 9 s: {said}")])
    waiting, failed = (json.loads(line) for line in capsys.readouterr().out.splitlines()[1:])
    assert waiting["waits_for"] == "sink 'pg': PostgreSQL cannot be reached"
    assert (failed["waits_for"], failed["error"]) == ("", "OutageTooLong: sink 'pg' was waited for 9 s")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_says_what_is_waited_for_and_a_third_ends_at_once(number: signal.Signals, code: int) -> None:
    """I3."""
    told: list[str] = []
    ended: list[int] = []
    with stop_signals(told.append, lambda: "clicks: epoch 4: writing to 'pg'", ended.append) as asked:
        for _ in range(3):
            signal.raise_signal(number)
        assert asked.event.is_set()
    assert told[0] == f"{number.name}: finishing the running epoch"
    assert "waiting for clicks: epoch 4: writing to 'pg'. Once more ends it at once; nothing is lost" in told[1]
    assert "ended at once" in told[2]
    assert ended == [code]


def test_tables_fit_the_terminal_or_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, printed("word " * 100).splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "120")
    assert 100 < max(map(len, printed("word " * 100).splitlines())) <= 120


def test_in_a_terminal_it_is_drawn_from_the_first_look_on_with_lines_above_it() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=80, height=24)
    live = Live(console=console, auto_refresh=False, redirect_stdout=False)
    it = LiveView(live)
    assert text.getvalue() == ""
    it.look([busy(running=4)])
    live.stop()
    assert "clicks" in text.getvalue()
    assert "epoch 4: being planned" in text.getvalue()


def test_an_error_is_told_once_though_py4j_and_pyspark_log_it_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """I4: a user's own lines are not touched, and a log's file has all of it."""
    root = logging.getLogger()
    touched = [logging.getLogger("onceward"), logging.getLogger("py4j"), *map(PySparkLogger.getLogger, logs.ECHOES)]
    before = [(it, it.handlers[:], it.propagate, it.level) for it in touched]
    filters, kept = root.filters[:], tmp_path / "log"
    try:
        logs.set_up("warning", kept)
        logs.no_echoes()
        logging.getLogger("py4j.clientserver").error("an exception on the Python side")
        PySparkLogger.getLogger("DataFrameQueryContextLogger").exception("no column", file="f", line="1")
        lines = [logging.makeLogRecord({"pathname": f"/x/{it}/a.py"}) for it in ("py4j", "users")]
        assert [bool(root.filter(line)) for line in lines] == [False, True]
        logging.getLogger("onceward.epoch").warning("waiting")
    finally:
        for handler in touched[0].handlers:
            handler.close()
        root.filters[:] = filters
        for it, handlers, propagate, level in before:
            it.handlers[:], it.propagate = handlers, propagate
            it.setLevel(level)
    assert capsys.readouterr().err == "onceward: waiting\n"
    assert "an exception on the Python side" in kept.read_text()
