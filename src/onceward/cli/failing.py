"""How a command says that it failed: a line or two, and an exit code that tells whether a restart can help."""

import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from onceward.cli.output import EXIT_FAILED, EXIT_NEEDS_PERSON, progress
from onceward.errors import NEEDS_PERSON
from onceward.secret import without_secrets

ShowTraceback = Annotated[bool, typer.Option("--traceback", help="Show all of an error, Spark's part too.")]


def print_traceback(error: BaseException) -> None:
    """While Spark still answers: its exceptions ask the JVM for their text."""
    progress(str(without_secrets("".join(traceback.format_exception(error)).rstrip())))


def exit_code(error: Exception, arguments: Sequence[str]) -> int:
    """Only `onceward run` is started again by supervisors."""
    of_run = list(arguments[:1]) == ["run"]
    return EXIT_NEEDS_PERSON if of_run and isinstance(error, NEEDS_PERSON) else EXIT_FAILED
