"""A database of the test's own, and sinks in it that are closed afterwards."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.servers.postgres import PostgresServer
from onceward.sinks.postgres import PostgresSink
from support.postgres import Database

Opens = Callable[..., PostgresSink]


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    made = Database.new(postgres)
    yield made
    made.drop()


@pytest.fixture
def opened(database: Database) -> Iterator[Opens]:
    """Opens sinks on that database: `opened(term=2, table="t", ...)`."""
    sinks: list[PostgresSink] = []

    def open_(
        *,
        term: int = 1,
        lineage: str = "lineage-1",
        pipeline: str = "orders",
        guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
        **options: Any,
    ) -> PostgresSink:
        sinks.append(PostgresSink(options.pop("dsn", database.dsn()), **options))
        sinks[-1].open(Owner(pipeline=pipeline, lineage=lineage, term=term, guarantee=guarantee, sink="sink"))
        return sinks[-1]

    yield open_
    for sink in sinks:
        sink.close()


@pytest.fixture
def prepare() -> Callable[..., tuple[EpochContext, Any]]:
    """Begin, write, pre-commit: the context and the committable."""

    def run(
        sink: PostgresSink, rows: Any, epoch: int = 0, *, attempt: int = 1, long: bool = False
    ) -> tuple[EpochContext, Any]:
        context = EpochContext(epoch=epoch, attempt=attempt, input_rows=None if long else 1)
        sink.begin(context)
        return context, sink.pre_commit(context, sink.write(context, rows))

    return run


@pytest.fixture
def put(prepare: Callable[..., tuple[EpochContext, Any]]) -> Callable[..., Any]:
    """A whole epoch; the committable."""

    def run(sink: PostgresSink, rows: Any, epoch: int = 0, **how: Any) -> Any:
        context, committable = prepare(sink, rows, epoch, **how)
        sink.commit(context, committable)
        return committable

    return run
