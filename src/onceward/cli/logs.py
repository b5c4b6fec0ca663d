"""Onceward's own log, for people at a terminal, for programs and for a file."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from onceward.cli.failing import exit_code
from onceward.cli.output import progress
from onceward.errors import OncewardError
from onceward.telemetry.logs import EPOCHS, JsonFormatter, TextFormatter
from onceward.telemetry.outward import error_outward

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
RUN: Final = "onceward.run"
# PySpark's loggers of what is raised anyway.
ECHOES: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

LogLevel = Annotated[
    str, typer.Option("--log-level", metavar="|".join(LEVELS), help="What of Onceward's own log is shown.")
]
LogFormat = Annotated[
    str,
    typer.Option(
        "--log-format", metavar="|".join(FORMATS), help="Of the log; json: a line for each epoch and report too."
    ),
]
LogFile = Annotated[
    Path | None, typer.Option("--log-file", help="Write the log there, with times, besides.", show_default=False)
]


class _Lines(logging.Handler):
    """To standard error, as every other line for people: also above a live view."""

    def emit(self, record: logging.LogRecord) -> None:
        progress(self.format(record))


def set_up(level: str, file: Path | None, *, quiet: bool = False, log_format: str = "text") -> None:
    """Once for each process. With `quiet` only errors are shown; a file gets everything of the level.

    As text, a line for each epoch is what the view shows anyway; as JSON the log has them, and there is no other view.
    """
    if level.lower() not in LEVELS:
        raise typer.BadParameter(f"--log-level is one of {', '.join(LEVELS)}")
    if log_format not in FORMATS:
        raise typer.BadParameter(f"--log-format is one of {', '.join(FORMATS)}")
    as_json = log_format == "json"
    for name in (EPOCHS, RUN):
        logging.getLogger(name).setLevel(logging.INFO if as_json else logging.NOTSET)
    log = logging.getLogger("onceward")
    log.setLevel(level.upper())
    log.propagate = False
    lines = _Lines(logging.ERROR if quiet else logging.NOTSET)
    lines.setFormatter(JsonFormatter() if as_json else TextFormatter("onceward: %(message)s"))
    if not as_json:
        lines.addFilter(lambda record: record.name != EPOCHS)
    handlers: list[logging.Handler] = [lines]
    if file is not None:
        try:
            written = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"--log-file {file}: {error.strerror}") from error
        written.setFormatter(
            JsonFormatter() if as_json else TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        )
        handlers.append(written)
    log.handlers[:] = handlers


def reporting(level: str, log_format: str) -> Callable[[str], None]:
    """How a process that runs no pipeline itself tells people, or programs."""
    set_up(level, None, log_format=log_format)
    return report if log_format == "json" else progress


def report(text: str) -> None:
    """A line for people, in a log for programs."""
    logging.getLogger(RUN).info("%s", text, extra={"event": "report"})


@contextmanager
def failure_logged(log_format: str) -> Iterator[None]:
    """As JSON, an error is a line of the log too, and not told again; one that is none of ours with where it arose."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise  # what typer itself ends a command with
    except Exception as error:
        if log_format != "json":
            raise
        kind, ours = type(error).__name__, isinstance(error, OncewardError)
        facts = {"event": "run_failed", "error": kind}
        told = error_outward(error).removeprefix(f"{kind}: ")
        logging.getLogger(RUN).error("%s", told, extra=facts, exc_info=None if ours else error)
        raise typer.Exit(exit_code(error, ["run"])) from error


def no_echoes() -> None:
    """An error is told once, by us; what py4j and PySpark write about it goes into the log's file, if there is one."""
    from pyspark.logger import PySparkLogger  # heavy, and its loggers must be of its own class

    files: list[logging.Handler] = [
        it for it in logging.getLogger("onceward").handlers if isinstance(it, logging.FileHandler)
    ]
    # Of a JVM that is gone py4j tells the root logger, where a user's own log may go too: only its lines are left out.
    logging.getLogger().addFilter(lambda record: "/py4j/" not in record.pathname)
    for echo in (logging.getLogger("py4j"), *map(PySparkLogger.getLogger, ECHOES)):
        echo.propagate = False
        echo.handlers[:] = files or [logging.NullHandler()]
