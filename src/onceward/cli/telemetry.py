"""What `onceward run` tells other systems: metrics for Prometheus, events for OpenLineage."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

Metrics = Annotated[
    str | None,
    typer.Option("--metrics", metavar="[HOST:]PORT", help="Serve Prometheus' metrics there; 0: on any free port."),
]
OpenLineage = Annotated[
    Path | None,
    typer.Option("--openlineage", metavar="FILE", help="Append OpenLineage's events to this file.", show_default=False),
]


@contextmanager
def served(where: str | None, report: Callable[[str], None]) -> Iterator[None]:
    """Metrics, until the run is over. The port is taken before Spark starts: who cannot have it is told at once."""
    if where is None:
        yield
        return
    from onceward.telemetry import metrics

    metrics.require_installed()
    with ExitStack() as stack:
        try:
            url = stack.enter_context(metrics.endpoint(*metrics.address(where)))
        except (ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise typer.BadParameter(f"--metrics {where}: {reason}. Name another port, or 0 for a free one.") from error
        report(f"metrics: {url}")
        yield


def require_usable(file: Path | None) -> None:
    """The file for OpenLineage's events can be written."""
    if file is None:
        return
    from onceward.telemetry import lineage

    lineage.require_installed()
    there = file if file.exists() else file.absolute().parent
    if file.is_dir() or not os.access(there, os.W_OK):
        raise typer.BadParameter(f"--openlineage {file} cannot be written")
