"""The command `onceward`. Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 a violation was found, 4 (of `run`) failed in
a way that a restart does not cure, 128 + N ended by signal N.

Sub-commands import what is heavy (pyspark, pyarrow) inside their functions: help must be quick.
"""

import sys
from typing import Annotated, NoReturn

import typer

import onceward
from onceward.cli import jars, kafka, savepoint, snapshot
from onceward.cli.bench import bench
from onceward.cli.demo import demo
from onceward.cli.doctor import doctor
from onceward.cli.epochs import epochs
from onceward.cli.failing import exit_code
from onceward.cli.in_doubt import in_doubt
from onceward.cli.new import new
from onceward.cli.output import progress, result
from onceward.cli.prove import prove
from onceward.cli.reset import reset
from onceward.cli.resolve import resolve
from onceward.cli.run import run
from onceward.cli.simulate import simulate
from onceward.cli.skip import skip
from onceward.cli.textbook import textbook
from onceward.cli.ui import ui
from onceward.epoch.home_unusable import home_unusable, is_about
from onceward.errors import OncewardError
from onceward.secret import without_secrets

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
app.command()(new)
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
app.command()(ui)
# Its options are told in the repository, where the benchmarks are.
app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)


def _version(asked: bool) -> None:
    if asked:
        result({"version": onceward.__version__}, f"onceward {onceward.__version__}", as_json=False)
        raise typer.Exit


@app.callback()
def before_every_command(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Exactly-once, end to end, for PySpark Structured Streaming."""


def main() -> None:
    try:
        app()
    except OncewardError as error:
        _fail(error)
    except OSError as error:
        named = next((it for it in sys.argv[1:] if not it.startswith("-") and is_about(error, it)), None)
        ours = home_unusable(error, named) if named is not None else None
        if ours is None:
            raise
        _fail(ours)


def _fail(error: OncewardError) -> NoReturn:
    progress(f"onceward: {without_secrets(str(error))}")
    sys.exit(exit_code(error, sys.argv[1:]))
