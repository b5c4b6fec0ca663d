"""The real servers of a story: started when first asked for, gone when the story is over.

Servers that are handed in (a test's shared ones) are used as they are, and left running. A broker that somebody runs
with `onceward kafka start` is not touched: stories pause and kill.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceward.servers.broker import DevBroker
    from onceward.servers.postgres import PostgresServer

BRIEF_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # it lives for seconds: no time to optimise


class Servers:
    def __init__(
        self,
        *,
        broker: "DevBroker | None" = None,
        postgres: "PostgresServer | None" = None,
        spark: "SparkSession | None" = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._broker, self._postgres, self._spark = broker, postgres, spark
        self._report = report
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def broker(self) -> "DevBroker":
        if self._broker is None:
            from onceward.servers.broker import DevBroker

            self._report("starting a Kafka broker for this story")
            self._broker = self._open.enter_context(DevBroker(self.folder(), port=0))
        return self._broker

    def postgres(self) -> "PostgresServer":
        if self._postgres is None:
            from onceward.servers.postgres import PostgresServer

            self._report("starting a PostgreSQL for this story")
            self._postgres = self._open.enter_context(PostgresServer())
        return self._postgres

    def spark(self) -> "SparkSession":
        if self._spark is None:
            import onceward as ow

            self._report("starting a Spark for this story")
            self._spark = ow.session("textbook", master="local[1]", **{"spark.driver.extraJavaOptions": BRIEF_JVM})
            self._open.callback(self._spark.stop)
        return self._spark

    def folder(self) -> Path:
        return Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="onceward-textbook-")))
