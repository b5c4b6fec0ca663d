"""Runs the pipelines of a user's file in this process until they end or are asked to stop."""

import importlib.util
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final, TypedDict, Unpack

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from onceward.epoch.recovery import InDoubt
from onceward.errors import PipelineFileError, SavepointUnusable
from onceward.pipeline.pipeline import Pipeline
from onceward.pipeline.query import Query
from onceward.pipeline.restores import place_of
from onceward.savepoint.manifest import load as load_savepoint

POLL_S: Final = 0.1
REPORT_EVERY_S: Final = 2.0


class Starting(TypedDict, total=False):
    """What a person says knowingly when they start pipelines."""

    take_over: bool
    trust_ledger: bool
    in_doubt: InDoubt | None
    replan: bool
    accept_lost_input: bool


class Restores(TypedDict, total=False):
    """With which savepoint a pipeline begins, and how."""

    from_savepoint: str | None
    partitions: int | None
    new_lineage: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    by: str  # "finished" or a signal's name
    queries: list[Query]


def load(path: Path) -> Callable[[SparkSession], list[Pipeline]]:
    """The file's build(spark), which gives one pipeline or several."""
    module = load_module(path)
    return lambda spark: _built(path, module, spark)


def load_module(path: Path) -> ModuleType:
    """A user's file, whose functions may travel to Spark's workers."""
    if not path.is_file():
        raise PipelineFileError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location("onceward_pipeline_file", path)
    if spec is None or spec.loader is None:
        raise PipelineFileError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    # Workers have no such module: its functions travel by value.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _built(path: Path, module: ModuleType, spark: SparkSession) -> list[Pipeline]:
    build = getattr(module, "build", None)
    if not callable(build):
        raise PipelineFileError(f"{path} has no function build(spark); it returns one ow.Pipeline or several")
    return require_pipelines(build(spark), f"build(spark) in {path}", path)


def require_pipelines(made: object, by: str, path: Path | None) -> list[Pipeline]:
    """One pipeline or several, each with a name of its own."""
    pipelines = [made] if isinstance(made, Pipeline) else list(made) if isinstance(made, Iterable) else []
    if not pipelines or not all(isinstance(pipeline, Pipeline) for pipeline in pipelines):
        raise PipelineFileError(f"{by} returned {made!r}; it must return ow.Pipeline objects")
    names = [pipeline.name for pipeline in pipelines]
    if len(set(names)) < len(names):
        raise PipelineFileError(f"{path} gives two pipelines the same name: {', '.join(sorted(names))}")
    return pipelines


def restoring(
    pipelines: list[Pipeline], place: str, *, new_name: str | None, partitions: int | None, new_lineage: bool
) -> tuple[list[Pipeline], dict[str, Restores]]:
    """Which of a file's pipelines begins with a savepoint, and which run: of a copy's file it alone does."""
    saved = load_savepoint(place_of(place, pipelines[0].source.sparkSession))
    found = [pipeline for pipeline in pipelines if pipeline.name == saved.pipeline]
    if not found:
        names = ", ".join(repr(pipeline.name) for pipeline in pipelines)
        raise SavepointUnusable(
            f"{place} was taken of pipeline {saved.pipeline!r}; the file has {names}. To restore it under another "
            "name, keep the name in the file and give the new one with --as NAME."
        )
    if new_name is not None:
        found[0].rename(new_name)
        pipelines = found
    return pipelines, {found[0].name: Restores(from_savepoint=place, partitions=partitions, new_lineage=new_lineage)}


def run(
    pipelines: Iterable[Pipeline],
    *,
    trigger: str | None,
    report: Callable[[str], None],
    restores: Mapping[str, Restores] | None = None,
    **starting: Unpack[Starting],
) -> Ended:
    """Start all, wait, stop all cleanly at a signal or when one fails; a failure is raised.

    `starting`: what `Pipeline.start` takes besides.
    """
    queries: list[Query] = []
    with _signals() as asked:
        try:
            for pipeline in pipelines:
                report(f"{pipeline.name}: starting ({pipeline.guarantee})")
                restore = (restores or {}).get(pipeline.name, Restores())
                queries.append(pipeline.start(trigger=trigger, report=report, **starting, **restore))
            _watch(queries, asked, report)
        finally:
            failures = _stop(queries)
    if failures:
        raise failures[0]
    return Ended(asked.name or "finished", queries)


def _watch(queries: list[Query], asked: "_Asked", report: Callable[[str], None]) -> None:
    told: dict[str, int] = {}
    quiet = 0.0
    while not asked.event.wait(POLL_S):
        quiet += POLL_S
        if quiet >= REPORT_EVERY_S:
            quiet = 0.0
            for query in queries:
                done = query.epochs
                if done and told.get(query.name) != done[-1].epoch:
                    last = done[-1]
                    told[query.name] = last.epoch
                    spent = ", ".join(f"{name} {value:.0f} ms" for name, value in last.milliseconds.items())
                    report(f"{query.name}: epoch {last.epoch}, {last.rows} rows ({spent})")
        active = [query for query in queries if query.is_active]
        if not active or (len(active) < len(queries) and any(query.exception() for query in queries)):
            return
    report(f"{asked.name}: finishing the running epoch")


def _stop(queries: list[Query]) -> list[BaseException]:
    failures: list[BaseException] = []
    for query in queries:
        try:
            query.stop()
            failure = query.exception()
        except Exception as error:  # noqa: BLE001 - every query is stopped before the first failure is raised
            failure = error
        if failure is not None:
            failures.append(failure)
    return failures


@dataclass(slots=True)
class _Asked:
    event: threading.Event
    name: str | None = None


@contextmanager
def _signals() -> Iterator[_Asked]:
    """SIGTERM and Ctrl-C ask for a clean stop; a second one is not needed, the running epoch is short."""
    asked = _Asked(threading.Event())

    def note(number: int, _frame: FrameType | None) -> None:
        asked.name = signal.Signals(number).name
        asked.event.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
