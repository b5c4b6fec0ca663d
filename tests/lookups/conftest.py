"""A database of the test's own."""

from collections.abc import Iterator

import pytest

from onceward.servers.postgres import PostgresServer
from support.postgres import Database


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    made = Database.new(postgres)
    yield made
    made.drop()
