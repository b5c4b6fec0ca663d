"""One life of a pipeline: it reads what there is, or dies on the way."""

import pytest

import onceward as ow

DEADLINE_S = 120.0


def run(pipeline: ow.Pipeline, **options: object) -> ow.Query:
    """All that there is to read, then the end."""
    query = pipeline.start(trigger="once", **options)  # type: ignore[arg-type]
    query.wait(DEADLINE_S)
    return query


def crash(pipeline: ow.Pipeline, **options: object) -> None:
    """It dies where `crash_at` says."""
    query = pipeline.start(trigger="once", **options)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="Crash"):
        query.wait(DEADLINE_S)
