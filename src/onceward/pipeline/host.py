"""Runs the pipelines of a user's file in this process until they end or are asked to stop."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, Unpack

from py4j.protocol import Py4JError

from onceward.epoch.recovery import InDoubt
from onceward.epoch.runner import Stopping
from onceward.errors import ConfigurationError, HomeInUse, SavepointUnusable
from onceward.pipeline.pipeline import Pipeline
from onceward.pipeline.query import Query
from onceward.pipeline.restores import place_of
from onceward.pipeline.stop_signals import stop_signals
from onceward.pipeline.user_file import load, load_module, require_pipelines
from onceward.pipeline.warming import warm_up
from onceward.savepoint.manifest import load as load_savepoint
from onceward.watching.sight import Sight

__all__ = ["Ended", "Restores", "Starting", "load", "load_module", "require_pipelines", "restoring", "run"]

POLL_S: Final = 0.1


class Starting(TypedDict, total=False):
    """What a person says knowingly when they start pipelines."""

    take_over: bool
    confirm: Callable[[list[str]], None]
    in_doubt: InDoubt | None
    replan: bool
    accept_lost_input: bool
    openlineage: str | Path | None


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
    look: Callable[[list[Sight]], None] = lambda _: None,
    restores: Mapping[str, Restores] | None = None,
    standby: bool = False,
    trust_ledger: Sequence[str] = (),
    **starting: Unpack[Starting],
) -> Ended:
    """Start all, wait, stop all cleanly at a signal or when one fails; a failure is raised.

    One whose home is in use is left to its driver: the others run, and at the end that is raised.
    `look` is called every now and then with what is to be seen of them. standby: start each when nobody else drives it
    any more. trust_ledger: sinks of any of them, by their names. `starting`: what `Pipeline.start` takes as well.
    """
    queries: list[Query] = []
    in_use: list[BaseException] = []
    with stop_signals(report, lambda: "; ".join(f"{it.name}: {it.waited_for}" for it in queries)) as asked:
        try:
            stop = asked.event.is_set
            pipelines = list(pipelines)
            require_sinks(pipelines, trust_ledger)
            if standby:
                warm_up(pipelines[0].source.sparkSession)
            for pipeline in pipelines:
                report(f"{pipeline.name}: {'standing by' if standby else 'starting'} ({pipeline.guarantee})")
                restore = (restores or {}).get(pipeline.name, Restores())

                def start(pipeline: Pipeline = pipeline, restore: Restores = restore) -> Query:
                    mine = [name for name in trust_ledger if name in pipeline.sinks]
                    return pipeline.start(
                        trigger=trigger, report=report, asked_to_stop=stop, trust_ledger=mine, **starting, **restore
                    )

                try:
                    queries.append(_in_turn(pipeline, start, report, stop) if standby else start())
                except HomeInUse as error:
                    report(f"{pipeline.name}: not started; {error}")
                    in_use.append(error)
            if queries:
                _watch(queries, asked.event, look)
        except Stopping:
            pass  # while a start waited for something
        finally:
            failures = _stop(queries)
            with suppress(Py4JError, ConnectionError):  # without Spark there is nothing to be seen
                look([query.sight() for query in queries])
    if failures or in_use:
        raise [*failures, *in_use][0]
    return Ended(asked.name or "finished", queries)


def require_sinks(pipelines: Iterable[Pipeline], names: Iterable[str]) -> None:
    """Each is a sink of one of them."""
    known = {name for pipeline in pipelines for name in pipeline.sinks}
    if unknown := sorted(set(names) - known):
        raise ConfigurationError(
            f"--trust-ledger names {', '.join(map(repr, unknown))}, which is no sink of these pipelines: they have "
            f"{', '.join(map(repr, sorted(known)))}"
        )


def _in_turn(
    pipeline: Pipeline, start: Callable[[], Query], report: Callable[[str], None], asked_to_stop: Callable[[], bool]
) -> Query:
    """Start it when its home is free; if another standby was quicker, stand by for that one."""
    while True:
        pipeline.stand_by(report=report, asked_to_stop=asked_to_stop)
        try:
            return start()
        except HomeInUse as in_use:
            report(str(in_use))


def _watch(queries: list[Query], asked: threading.Event, look: Callable[[list[Sight]], None]) -> None:
    while not asked.wait(POLL_S):
        look([query.sight() for query in queries])
        active = [query for query in queries if query.is_active]
        if not active or (len(active) < len(queries) and any(query.exception() for query in queries)):
            return


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
