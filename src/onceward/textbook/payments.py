"""The job of the story about two-phase commit: payments from Kafka into files, PostgreSQL and Kafka, watched."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import psycopg
from psycopg import sql

import onceward as ow
from onceward.textbook.kafka.ground import Ground
from onceward.textbook.stage import Stage
from onceward.textbook.watch import FILES, KAFKA, POSTGRES, Watch

VERBS: Final = ("begin", "write", "pre_commit", "abort")
PER_EPOCH: Final = 3
EPOCHS: Final = 3
GONE: Final = "does not answer"


class Seen(NamedTuple):
    """How many payments a reader of each place sees now; `uncommitted`: with isolation.level=read_uncommitted."""

    files: int
    postgres: int | str
    kafka: int
    uncommitted: int


class Payments:
    """Nine payments in a topic, three for each epoch; the servers, the readers, and drivers one after the other."""

    def __init__(self, stage: Stage) -> None:
        self._spark, self.postgres, self.ground = stage.spark(), stage.postgres(), Ground(stage)
        self._folder = self._hidden = stage.folder()
        self._name, self._database = stage.unique("payments"), stage.unique("textbook")
        with self.postgres.connect() as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._database)))
        self._source = self.ground.topic("payments", *(str(it) for it in range(1, PER_EPOCH * EPOCHS + 1)))
        self._target = self.ground.topic("paid")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.postgres.start()  # an error may have come while it was stopped, and it may be somebody else's
        with self.postgres.connect() as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self._database)))
        self.ground.__exit__(kind, error, trace)

    def start(self, watch: Watch, report: Callable[[str], None] = lambda _: None) -> ow.Query:
        """A driver that works off what there is, and ends."""
        payments = ow.read_kafka(
            self._spark, self.ground.bootstrap, topics=[self._source.topic], max_records_per_epoch=PER_EPOCH
        )
        made = ow.Pipeline(self._name, home=self._folder / "home", source=payments.selectExpr("cast(value as string)"))
        files = ow.FileSink(self._folder / "paid", format="json")
        self._hidden = files.staging
        postgres = ow.PostgresSink(self.postgres.dsn(self._database, connect_timeout=5), table="paid", create=True)
        kafka = ow.KafkaSink(self.ground.bootstrap, topic=self._target.topic)
        made.to(watch.over(FILES, files, (*VERBS, "commit")), name="files")
        made.to(watch.over(POSTGRES, postgres, (*VERBS, "commit")), name="postgres")
        made.to(watch.over(KAFKA, kafka, (*VERBS, "decide")), name="kafka")
        return made.start(trigger="once", report=report)

    def look(self) -> Seen:
        committed, all_there_is = self.ground.seen(self._target), self.ground.seen(self._target, "read_uncommitted")
        return Seen(_lines(self._visible()), self._count("paid"), len(committed), len(all_there_is))

    def staged(self) -> dict[str, int | str]:
        """How many payments each place holds that no reader sees: prepared, and not committed."""
        hidden = [it for it in self._hidden.rglob("part-*") if it.is_file()]
        with self.postgres.connect(self._database) as reader:
            found = reader.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'stage%'").fetchall()
        rows = [self._count("onceward", name) for (name,) in found]
        seen = self.look()
        return {FILES: _lines(hidden), POSTGRES: sum(map(int, rows)), KAFKA: seen.uncommitted - seen.kafka}

    def paid(self) -> dict[str, list[str]]:
        """Every payment in each place, in order."""
        with self.postgres.connect(self._database) as reader:
            rows = [value for (value,) in reader.execute("SELECT value FROM paid").fetchall()]
        values = [json.loads(line)["value"] for it in self._visible() for line in it.read_text("utf-8").splitlines()]
        return {FILES: sorted(values), POSTGRES: sorted(rows), KAFKA: sorted(self.ground.seen(self._target))}

    def _visible(self) -> list[Path]:
        return list((self._folder / "paid").glob("epoch=*/[!._]*"))

    def _count(self, *table: str) -> int | str:
        """0 for a table that is not there yet, words for a server that is not."""
        asked = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*table))
        try:
            with self.postgres.connect(self._database) as reader:
                found = reader.execute(asked).fetchone()
        except psycopg.errors.UndefinedTable:
            return 0
        except psycopg.OperationalError:
            return GONE
        assert found is not None, "a count has a row"
        return int(found[0])


def _lines(files: Iterable[Path]) -> int:
    return sum(len(it.read_text("utf-8").splitlines()) for it in files)
