"""The PostgreSQL sink keeps the contract, on a real server."""

import pytest

from onceward.sinks.postgres import PostgresSink
from onceward.testing import SinkConformance, SinkUnderTest
from support.foreign import KnowsItsOwn
from support.postgres import Database


class TestPostgresSink(KnowsItsOwn, SinkConformance):
    """Appending."""

    @pytest.fixture
    def under_test(self, database: Database) -> SinkUnderTest:
        database.admin("CREATE TABLE target (id bigint NOT NULL, text text)")
        return SinkUnderTest(
            make=lambda: PostgresSink(database.dsn(), table="target"),
            visible=lambda: database.column("SELECT id FROM target"),
            leftovers=database.staged,
            backup=lambda: database.backup("target", "onceward.markers"),
        )


class TestPostgresSinkThatUpserts(KnowsItsOwn, SinkConformance):
    """Writing over rows with the same key, into a table that the sink makes itself."""

    @pytest.fixture
    def under_test(self, database: Database) -> SinkUnderTest:
        def visible() -> list[int]:
            there = database.column("SELECT to_regclass('public.made') IS NOT NULL")
            return database.column("SELECT id FROM public.made") if there == [True] else []

        return SinkUnderTest(
            make=lambda: PostgresSink(
                database.dsn(), table="public.made", mode="upsert", key=("id",), create=True, schema="our stages"
            ),
            visible=visible,
            leftovers=lambda: database.staged("our stages"),
            backup=lambda: database.backup("public.made", '"our stages".markers'),
        )
