"""Onceward's own log, for people at a terminal and for a file."""

import logging
from pathlib import Path
from typing import Annotated, Final

import typer

from onceward.cli.output import progress

LEVELS: Final = ("debug", "info", "warning", "error")
# PySpark's loggers of what is raised anyway.
ECHOES: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

LogLevel = Annotated[
    str, typer.Option("--log-level", metavar="|".join(LEVELS), help="What of Onceward's own log is shown.")
]
LogFile = Annotated[
    Path | None, typer.Option("--log-file", help="Write the log there, with times, besides.", show_default=False)
]


class _Lines(logging.Handler):
    """To standard error, as every other line for people: also above a live view."""

    def emit(self, record: logging.LogRecord) -> None:
        progress(self.format(record))


def set_up(level: str, file: Path | None, *, quiet: bool = False) -> None:
    """Once for each process. With `quiet` only errors are shown; a file gets everything of the level."""
    if level.lower() not in LEVELS:
        raise typer.BadParameter(f"--log-level is one of {', '.join(LEVELS)}")
    log = logging.getLogger("onceward")
    log.setLevel(level.upper())
    log.propagate = False
    lines = _Lines(logging.ERROR if quiet else logging.NOTSET)
    lines.setFormatter(logging.Formatter("onceward: %(message)s"))
    handlers: list[logging.Handler] = [lines]
    if file is not None:
        try:
            written = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"--log-file {file}: {error.strerror}") from error
        written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(written)
    log.handlers[:] = handlers


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
