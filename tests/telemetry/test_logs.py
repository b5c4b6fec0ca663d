"""The log as programs read it: events that stay, fields, lines of JSON."""

import ast
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from onceward import events
from onceward.cli import logs
from onceward.cli.main import app
from onceward.cli.watch import LogLines, view
from onceward.epoch.observing import Course
from onceward.errors import ConfigurationError, HomeInUse
from onceward.telemetry.logs import EPOCHS, JsonFormatter, Logged
from support.clocks import MONOTONIC
from watching.test_showing import entry

ROOT = Path(__file__).parents[2]
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def logged() -> dict[str, tuple[str, set[str]]]:
    """Every event of the code: its level and its fields."""
    found: dict[str, tuple[str, set[str]]] = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if (
                not isinstance(call, ast.Call)
                or not isinstance(call.func, ast.Attribute)
                or call.func.attr not in LEVELS
            ):
                continue
            whose = ast.unparse(call.func.value)
            if whose not in {"log", "epochs_log"} and "getLogger" not in whose:
                continue
            facts = next((_facts(it.value, file) for it in call.keywords if it.arg == "extra"), None)
            assert facts is not None, f"{file.name}:{call.lineno} logs without an event"
            name = facts.pop("event")
            level, fields = found.setdefault(name, (call.func.attr, set(facts) - {"pipeline"}))
            assert (level, fields) == (call.func.attr, set(facts) - {"pipeline"}), f"{name} is logged in two ways"
    return found


def _facts(value: ast.expr, file: Path) -> dict[str, Any]:
    """Of a dictionary; or of a name that one was given to, in the same file."""
    if isinstance(value, ast.Name):
        made = [
            it.value for it in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == value.id
        ]  # fmt: skip
        value = made[0]
    assert isinstance(value, ast.Dict)
    pairs = zip(value.keys, value.values, strict=True)
    return {ast.literal_eval(key): getattr(it, "value", None) for key, it in pairs if key is not None}


def documented() -> dict[str, tuple[str, set[str]]]:
    text = (ROOT / "docs" / "operations" / "logs.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*)\|", text, re.MULTILINE)
    return {event: (level, set(re.findall(r"`(\w+)`", fields))) for event, level, fields in rows}


def test_every_line_of_the_log_is_an_event_of_the_table_with_its_fields() -> None:
    """I2, I7."""
    assert logged() == documented()


def record(message: str = "it %s", *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("onceward.epoch", logging.WARNING, __file__, 1, message, args, None)
    vars(made).update(extra)
    return made


def test_a_line_of_json_has_the_event_and_its_fields() -> None:
    line = JsonFormatter().format(record("epoch %d", 3, event="try_aborted", epoch=3, rows={"a": 1}, path=Path("/x")))
    facts = json.loads(line)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+\+00:00", facts.pop("time"))
    assert facts == {
        "level": "warning", "logger": "onceward.epoch", "message": "epoch 3", "event": "try_aborted", "epoch": 3,
        "rows": {"a": 1}, "path": "/x",
    }  # fmt: skip


def test_text_from_outside_stays_in_its_line_and_a_traceback_is_a_field() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        made = record("hostile \x1b[2J\n")
        made.exc_info = (type(error), error, error.__traceback__)
    line = JsonFormatter().format(made)
    assert "\n" not in line
    assert "\x1b" not in line
    assert json.loads(line)["traceback"].endswith('raise ValueError("a\\nb")\nValueError')


def test_a_line_names_the_pipeline_that_the_thread_works_for(caplog: pytest.LogCaptureFixture) -> None:
    log = events.logger("onceward.test")
    with events.of_pipeline("orders"):
        log.warning("one", extra={"event": "x"})
        log.warning("two", extra={"event": "x", "pipeline": "other"})
    log.warning("three", extra={"event": "x"})
    assert [getattr(it, "pipeline", None) for it in caplog.records] == ["orders", "other", None]


def test_starts_epochs_and_ends_are_events(caplog: pytest.LogCaptureFixture) -> None:
    telling = Logged("clicks")
    with caplog.at_level(logging.INFO, "onceward"):
        telling.started()
        telling.committed(entry(3), Course(3, MONOTONIC))
        telling.ended(None)
        telling.ended(HomeInUse("taken"))
    found = [(it.event, it.pipeline) for it in caplog.records]  # type: ignore[attr-defined]
    logging.getLogger(EPOCHS).setLevel(logging.WARNING)
    telling.committed(entry(4), Course(4, MONOTONIC))
    logging.getLogger(EPOCHS).setLevel(logging.NOTSET)
    names = ["pipeline_started", "epoch_committed", "pipeline_ended", "pipeline_failed"]
    assert found == [(name, "clicks") for name in names]
    assert caplog.records[1].rows_out == {"kafka": 10, "postgres": 10}  # type: ignore[attr-defined]
    assert caplog.records[3].getMessage() == "pipeline 'clicks' has failed: HomeInUse: taken"


@pytest.fixture
def log() -> Any:
    """The log as it was, afterwards."""
    ours = logging.getLogger("onceward")
    before = (ours.level, ours.propagate, list(ours.handlers))
    yield ours
    for handler in ours.handlers:
        handler.close()
    ours.setLevel(before[0])
    ours.propagate, ours.handlers[:] = before[1], before[2]
    for name in (EPOCHS, logs.RUN):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_with_json_standard_error_has_lines_of_json_only(
    log: logging.Logger, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """I2: epochs and reports among them, whatever the level."""
    logs.set_up("warning", tmp_path / "log", log_format="json")
    with view(log_format="json") as shown:
        assert isinstance(shown, LogLines)
        shown.report("clicks: starting")
        Logged("clicks").committed(entry(3), Course(3, MONOTONIC))
        Logged("clicks").started()  # info: below the level
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [it["event"] for it in lines] == ["report", "epoch_committed"]
    assert [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()] == [
        "report",
        "epoch_committed",
    ]


def test_as_text_an_epoch_is_the_views_to_show_and_the_files_to_have(
    log: logging.Logger, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    logs.set_up("info", tmp_path / "log")
    Logged("clicks").committed(entry(3), Course(3, MONOTONIC))
    assert capsys.readouterr().err == ""
    assert "epoch 3 committed" in (tmp_path / "log").read_text()


def test_an_error_that_ends_a_run_is_a_line_of_json_too(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up("warning", None, log_format="json")
    with pytest.raises(typer.Exit) as ended, logs.failure_logged("json"):
        raise ConfigurationError("no such thing")
    assert ended.value.exit_code == 4
    facts = json.loads(capsys.readouterr().err)
    assert (facts["event"], facts["error"], facts["message"]) == ("run_failed", "ConfigurationError", "no such thing")
    with pytest.raises(ConfigurationError), logs.failure_logged("text"):
        raise ConfigurationError("told by the command")


def test_a_supervisor_speaks_as_its_child_does(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.reporting("warning", "json")("starting it again")
    assert json.loads(capsys.readouterr().err)["message"] == "starting it again"
    logs.reporting("warning", "text")("starting it again")
    assert capsys.readouterr().err == "starting it again\n"


def test_another_format_is_refused_with_the_names_of_both(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.touch()
    ended = CliRunner().invoke(app, ["run", str(file), "--log-format", "xml"])
    assert ended.exit_code == 2
    assert "--log-format is one of text, json" in " ".join(ended.output.replace("│", " ").split())


def test_a_file_for_lineage_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.touch()
    ended = CliRunner().invoke(app, ["run", str(file), "--openlineage", str(tmp_path)])
    assert ended.exit_code == 2
    assert "cannot be written" in " ".join(ended.output.replace("│", " ").split())
