"""What the application runs on: a Kafka, a PostgreSQL, its topics and its tables."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from onceward.apps.ads import words
from onceward.apps.ads.world.catalogue import Catalogue
from onceward.apps.ads.world.tables import make_catalogue, make_served
from onceward.kafka.wire import Cluster, Wire
from onceward.servers.broker import DevBroker
from onceward.servers.postgres import PostgresServer

PARTITIONS: Final = 2
# The events' own time is long past: records must not be thrown away for their age.
FOR_EVER: Final = {"retention.ms": "-1"}


class Servers:
    """Both servers end with this process, even if it is killed."""

    def __init__(
        self, folder: Path, catalogue: Catalogue, prefixes: Iterable[str], *, report: Callable[[str], None]
    ) -> None:
        self._folder, self._catalogue, self._prefixes, self._report = folder, catalogue, list(prefixes), report
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._report("starting PostgreSQL")
            self._postgres = opened.enter_context(PostgresServer())
            self._broker = opened.enter_context(DevBroker(self._folder / "kafka", port=0, report=self._report))
            self._make_topics()
            with psycopg.connect(self.dsn) as connection:
                make_catalogue(connection, self._catalogue)
                for prefix in self._prefixes:
                    make_served(connection, prefix)
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    @property
    def dsn(self) -> str:
        return self._postgres.dsn()

    def psql(self) -> str:
        """How to look into the tables; the password is in a file, not on the screen."""
        facts = conninfo_to_dict(self.dsn)
        file = self._folder / "pgpass"
        file.touch(mode=0o600)
        file.write_text(f"{facts['host']}:{facts['port']}:*:{facts['user']}:{facts['password']}\n")
        return f"PGPASSFILE={file} psql -h {facts['host']} -p {facts['port']} -U {facts['user']} {facts['dbname']}"

    def bounce_broker(self) -> None:
        """SIGKILL, and up again."""
        self._broker.kill()
        self._broker.restart()

    def _make_topics(self) -> None:
        made = [f"{prefix}{name}" for prefix in self._prefixes for name in words.MADE]
        wire = Wire(Cluster(self.bootstrap))
        try:
            wire.create_topics([*words.RAW, *made], PARTITIONS, settings=FOR_EVER)
        finally:
            wire.close()
