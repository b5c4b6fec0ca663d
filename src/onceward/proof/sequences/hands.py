"""Carries a sequence's actions out on real Kafka, PostgreSQL, files and Spark, each sequence in places of its own."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final, cast

from onceward.kafka.wire import Wire
from onceward.proof.chaos.places import ProofFailed
from onceward.proof.chaos.stack import Stack
from onceward.proof.sequences import outputs
from onceward.proof.sequences.actions import Action, Result
from onceward.proof.sequences.drivers import Drivers
from onceward.proof.sequences.orders import Order, Target
from onceward.proof.sequences.world import KAFKA

FED_S: Final = 30.0


class Servers:
    """What all sequences of a campaign share."""

    def __init__(self, stack: Stack, wire: Wire, drivers: Drivers, folder: Path) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.stack, self.wire, self.drivers, self.folder = stack, wire, drivers, folder
        assert stack.postgres is not None
        self.database: Any = stack.postgres.connect()
        self.admin: Any = AdminClient({"bootstrap.servers": stack.bootstrap, "log_level": 0})
        self.producer: Any = Producer(
            {"bootstrap.servers": stack.bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )


class RealHands:
    """Of one sequence."""

    def __init__(self, servers: Servers, seed: int, partitions: int, limit: int, backend: str) -> None:
        self._servers, self._seed, self._partitions, self._limit = servers, seed, partitions, limit
        self._backend = cast("Any", backend)
        self._folder = servers.folder / f"s{seed}"
        self._topics: set[str] = set()
        self._tables: set[str] = set()
        self._input = self._topic(f"s{seed}-in", partitions)

    def perform(self, action: Action) -> Result:
        self._feed(action)
        answer = self._servers.drivers.ask(self._order(action))
        if answer is None:
            return Result(died=True)
        return Result(refused=answer.refused, message=answer.message, position=answer.position, epochs=answer.epochs)

    def visible(self, pipeline: int, sink: str) -> Counter[str]:
        place = self._place(pipeline, sink)
        if sink == KAFKA:
            return outputs.topic(self._servers.stack.bootstrap, place)
        if sink == "postgres":
            return outputs.table(self._servers.database, place)
        return outputs.files(Path(place))

    def clear(self) -> None:
        """Its topics, tables and files: a broker of hundreds of sequences must not become slow."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for name in self._tables:
            self._servers.database.execute(f"DROP TABLE IF EXISTS {name}")
        self._servers.admin.delete_topics(sorted(self._topics))  # it goes on behind our back

    def _order(self, action: Action) -> Order:
        name = f"s{self._seed}-p{action.pipeline}"
        return Order(
            kind=action.kind,
            name=name,
            home=str(self._folder / name),
            bootstrap=self._servers.stack.bootstrap,
            dsn=self._servers.stack.dsn or "",
            topic=self._input,
            limit=self._limit,
            backend=self._backend,
            sinks=tuple(Target(kind=sink, place=self._place(action.pipeline, sink)) for sink in action.sinks),
            savepoint=str(self._folder / f"savepoint-{action.savepoint}") if action.savepoint is not None else "",
            partitions=action.partitions,
            knowingly=action.knowingly,
            retain="always" if action.retain else "never",
            offsets=action.offsets,
            from_group=action.how == "group",
            crash_at=str(action.kill) if action.kill is not None else "",
        )

    def _place(self, pipeline: int, sink: str) -> str:
        name = f"s{self._seed}_p{pipeline}"
        if sink == KAFKA:
            return self._topic(name, 2)
        if sink == "postgres":
            self._tables.add(name)
            return name
        return str(self._folder / f"files-{pipeline}")

    def _topic(self, name: str, partitions: int) -> str:
        if name not in self._topics:
            self._servers.wire.create_topics([name], partitions)
            self._topics.add(name)
        return name

    def _feed(self, action: Action) -> None:
        producer, undelivered = self._servers.producer, list[str]()
        for partition, ids in enumerate(action.feed):
            for number in ids:
                producer.produce(
                    self._input,
                    value=outputs.value_of(number),
                    partition=partition,
                    on_delivery=lambda error, _: undelivered.append(str(error)) if error is not None else None,
                )
        if producer.flush(FED_S) or undelivered:
            raise ProofFailed(f"records could not be fed: {undelivered[:1] or 'no answer from Kafka'}")
