"""`onceward prove --sequences N`: what people do to pipelines, one thing after the other, killed and compared."""

import random
import shutil
import tempfile
from pathlib import Path

import typer

from onceward.cli.interrupts import interrupted_once
from onceward.cli.output import EXIT_VIOLATION, progress, result


def prove_sequences(sequences: int, seed: int | None, minutes: float | None, *, as_json: bool) -> None:
    """Each sequence has a seed of its own: that of the first, the next number, and so on."""
    from onceward.proof.sequences import report
    from onceward.proof.sequences.campaign import Plan, prove

    first = random.SystemRandom().randrange(100_000) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="onceward-prove-"))
    keep = True
    try:
        with interrupted_once("the drivers, the broker and PostgreSQL are gone"):
            progress(f"seed {first}; {sequences} sequence(s) of savepoints, restores, resets, forks and kills")
            found = prove(Plan(first, sequences, minutes), folder, progress)
        keep = not found.exact
    finally:
        if keep:
            progress(f"logs, homes and outputs of what broke are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    result(report.facts(found) if as_json else {}, report.text(found), as_json=as_json)
    if not found.exact:
        raise typer.Exit(EXIT_VIOLATION)
