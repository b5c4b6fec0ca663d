"""`onceward demo`: kill a job at random, then count what was lost or doubled."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from onceward.cli.interrupts import interrupted_once
from onceward.cli.output import EXIT_VIOLATION, AsJson, progress, result
from onceward.errors import ConfigurationError, OncewardError

NEEDED: Final = {"confluent_kafka": "confluent-kafka", "pandas": "pandas"}


def demo(
    *,
    events: Annotated[int, typer.Option(min=100, help="How many payments are fed.")] = 40_000,
    kills: Annotated[int, typer.Option(min=0, max=100, help="How often the job is killed (SIGKILL).")] = 4,
    seed: Annotated[
        int | None, typer.Option(help="Decides payments and kills. Default: another one each time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Kill a stateful job at random moments, on Onceward and on Spark's own Kafka sink; count what readers see.

    Exits with 0 only if Onceward lost nothing, doubled nothing and got nothing wrong; with 3 if it did.
    """
    _require_libraries()
    from rich.console import Console

    from onceward.demo import report, trial
    from onceward.demo.display import Display

    chosen = random.SystemRandom().randrange(10_000) if seed is None else seed
    plan = trial.Plan(events=events, kills=kills, seed=chosen)
    with interrupted_once("the job, the broker and their folder are gone"), _folder() as folder:
        with Display(Console(stderr=True), events=events, kills=kills) as display:
            display.introduce(report.introduction(plan))
            found = trial.run(plan, folder, display)
        result(report.facts(found), report.text(found), as_json=as_json)
        if not found.exact:
            raise typer.Exit(EXIT_VIOLATION)


def _require_libraries() -> None:
    missing = [name for module, name in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"the demo needs {' and '.join(missing)}: its job runs on pandas, and another Kafka client than ours is "
            "the judge. Install them: pip install 'onceward[demo]'"
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
            progress(f"the broker's data, the checkpoints and the job's log are kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
