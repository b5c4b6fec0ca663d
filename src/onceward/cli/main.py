"""The command `onceward`. Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 a violation was found.

Sub-commands import what is heavy (pyspark, pyarrow) inside their functions: help must be quick.
"""

import sys

import typer

from onceward.cli import jars, kafka, savepoint, snapshot
from onceward.cli.demo import demo
from onceward.cli.doctor import doctor
from onceward.cli.epochs import epochs
from onceward.cli.in_doubt import in_doubt
from onceward.cli.output import EXIT_FAILED, progress
from onceward.cli.prove import prove
from onceward.cli.reset import reset
from onceward.cli.resolve import resolve
from onceward.cli.run import run
from onceward.cli.simulate import simulate
from onceward.cli.skip import skip
from onceward.cli.textbook import textbook
from onceward.errors import OncewardError

app = typer.Typer(
    name="onceward",
    help="Exactly-once, end to end, for PySpark Structured Streaming.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # what is not an OncewardError is a bug: show the plain traceback
)
app.add_typer(kafka.app, name="kafka")
app.add_typer(jars.app, name="jars")
app.add_typer(savepoint.app, name="savepoint")
app.add_typer(snapshot.app, name="snapshot")
app.command()(run)
app.command()(epochs)
app.command()(in_doubt)
app.command()(resolve)
app.command()(reset)
app.command()(skip)
app.command()(doctor)
app.command()(demo)
app.command()(simulate)
app.command()(prove)
app.command()(textbook)


def main() -> None:
    try:
        app()
    except OncewardError as error:
        progress(f"onceward: {error}")
        sys.exit(EXIT_FAILED)
