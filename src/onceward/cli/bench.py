"""`onceward bench`: the figures of this machine. The benchmarks are in the repository, not in the package."""

import importlib
import sys
from pathlib import Path
from typing import Final

import typer

import onceward
from onceward.cli.output import EXIT_FAILED, progress

ROOT: Final = Path(onceward.__file__).parents[2]


def bench(context: typer.Context) -> None:
    """Measure Onceward beside Spark's own sink, PyFlink and Kafka's own tools (from a checkout; --help says more)."""
    if not (ROOT / "bench" / "__main__.py").is_file():
        progress(
            "onceward: the benchmarks are not in the package: run `onceward bench` from a checkout of the repository"
        )
        raise typer.Exit(EXIT_FAILED)
    sys.path.insert(0, str(ROOT))
    raise typer.Exit(importlib.import_module("bench.__main__").main(context.args))
