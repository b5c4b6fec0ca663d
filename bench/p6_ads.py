"""P6, a whole application: the ad application, billed to the cent, beside the same on Spark's own sinks.

Every round has topics and tables of its own, filled beforehand. The time is from the start of the four pipelines to the
last result in PostgreSQL. Nothing is killed here, so both must be exact; what a kill does is `onceward demo`.
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sized
from dataclasses import replace

import psycopg
from confluent_kafka import Producer

from bench.broker import QUIET
from bench.rounds import Failed, Outcome
from bench.stage import Stage
from onceward.apps.ads import words
from onceward.apps.ads.places import Places
from onceward.apps.ads.world.generator import Generated, generate
from onceward.apps.ads.world.judge import judge
from onceward.apps.ads.world.records import Record
from onceward.apps.ads.world.tables import announce, make_catalogue, make_served
from onceward.apps.ads.world.truth import Truth, truth
from onceward.demo import outputs
from onceward.demo.feeder import CLOSING_MS, heartbeat
from onceward.demo.live import Live
from onceward.demo.servers import FOR_EVER, PARTITIONS
from onceward.demo.trial import EPOCH_SPAN_S
from onceward.servers.postgres import PostgresServer

TITLE = "The ad application, money exact"
BASE = "ads-spark"
SYSTEMS = ("ads-spark", "ads-onceward")
EVENTS = 200_000
GIVE_UP_S = 600.0
POLL_S = 0.05


def run(stage: Stage) -> None:
    made = generate(stage.options.records or EVENTS, seed=1)
    known = truth(made.records, made.catalogue)
    with PostgresServer() as postgres:
        dsn = postgres.dsn()
        with psycopg.connect(dsn) as connection:
            make_catalogue(connection, made.catalogue)
            for price in made.catalogue.prices:
                announce(connection, price)
        subjects = []
        for system in stage.chosen(SYSTEMS):
            shop = Shop(stage, system, dsn, made, known)
            subjects.append(stage.subject(system, system, shop.once))
        stage.rounds.interleave(f"{len(made.records):,} records", subjects, stage.options.rounds or 3)


class Shop:
    """Runs the application of one system, each time on places of its own."""

    def __init__(self, stage: Stage, system: str, dsn: str, made: Generated, known: Truth) -> None:
        self.stage, self.system, self.dsn, self.made, self.known = stage, system, dsn, made, known

    def once(self) -> Outcome:
        places = self._places()
        live = Live(self.stage.bootstrap, [places.topic(it) for it in words.MADE], PARTITIONS)
        live.start()
        began = time.perf_counter()
        worker = self.stage.worker(self.system)
        per_epoch = round(self.made.per_second * EPOCH_SPAN_S)
        worker.ask("serve", prefix=places.prefix, dsn=self.dsn, epoch_records=per_epoch)
        try:
            _until(lambda: self._cleaned(places, live), live)
            self._feed(places, [heartbeat(self.made.end_ms + CLOSING_MS)])
            _until(lambda: self._served(places), live)
            seconds = time.perf_counter() - began
        finally:
            live.end()
            worker.ask("stop")
        records = len(self.made.records)
        return Outcome({"records/s": records / seconds}, records, check=lambda: self._wrong(places))

    def _places(self) -> Places:
        prefix = f"b{uuid.uuid4().hex[:8]}_"
        places = Places(
            bootstrap=self.stage.bootstrap, dsn=self.dsn, folder=self.stage.folder, prefix=prefix, raw_prefix=prefix
        )
        topics = [places.topic(it) for it in (*words.RAW, *words.MADE)]
        self.stage.topics.wire.create_topics(topics, PARTITIONS, settings=FOR_EVER)
        with psycopg.connect(self.dsn) as connection:
            make_served(connection, prefix)
        self._feed(places, self.made.records)
        return places

    def _feed(self, places: Places, records: Iterable[Record]) -> None:
        producer = Producer(
            {"bootstrap.servers": places.bootstrap, "enable.idempotence": True, "linger.ms": 20, **QUIET}
        )
        for number, it in enumerate(records):
            producer.produce(places.topic(it.topic), key=it.key, value=it.value, timestamp=it.arrived_ms)
            if number % 1000 == 0:
                producer.flush(60)
        if producer.flush(60):
            raise Failed("the events could not be fed")

    def _cleaned(self, places: Places, live: Live) -> bool:
        known = self.known
        parts: dict[str, Sized] = {
            words.AD_EVENTS: known.events, words.ORDERS: known.orders, words.LATE: known.late, words.DEAD: known.dead
        }  # fmt: skip
        return all(live.counts[places.topic(name)] >= _size(part) for name, part in parts.items())

    def _served(self, places: Places) -> bool:
        wanted = len(self.known.minutes) + len(self.known.attributed)
        tables = (places.table(words.MINUTES), places.table(words.ATTRIBUTED))
        with psycopg.connect(self.dsn) as connection:
            found = [connection.execute(f"select count(*) from {it}").fetchone() for it in tables]
        return sum(int(row[0]) for row in found if row is not None) >= wanted

    def _wrong(self, places: Places) -> list[str]:
        known, seen = self.known, outputs.seen(places)
        if self.system == "ads-spark":  # Spark's own Kafka sink cannot give a record a time
            known = replace(known, late=Counter((value, 0) for value, _ in known.late.elements()))
            seen = replace(seen, late=[(value, 0) for value, _ in seen.late])
        judged = judge(known, seen, self.made.catalogue)
        found = [
            f"{it.output}: {it.lost} lost, {it.duplicated} twice, {it.wrong} wrong"
            for it in judged.findings
            if not it.clean
        ]
        off = [f"{it.campaign} is charged {it.off_cents} cents too much" for it in judged.bill if it.off_cents]
        return [*found, *off]


def _until(reached: Callable[[], bool], live: Live) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not reached():
        if live.failure is not None or time.monotonic() > deadline:
            raise Failed(live.failure or f"the application was not done within {GIVE_UP_S:.0f} s")
        time.sleep(POLL_S)


def _size(part: Sized) -> int:
    return part.total() if isinstance(part, Counter) else len(part)
