"""The ad-event application on a real broker, a real PostgreSQL and a real Spark, against the truth."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import onceward as ow
from onceward.apps.ads import clean, pipelines, words
from onceward.apps.ads.places import Places
from onceward.apps.ads.world.generator import Generated, generate
from onceward.apps.ads.world.judge import Judgement, judge
from onceward.apps.ads.world.records import Record
from onceward.apps.ads.world.tables import announce, make_catalogue, make_served
from onceward.apps.ads.world.truth import Truth, truth
from onceward.demo.feeder import CLOSING_MS, heartbeat
from onceward.demo.outputs import seen
from onceward.pipeline.host import load_module
from onceward.servers.postgres import PostgresServer
from support.home import checkpoint_of
from support.judge import Kafka
from support.postgres import Database
from support.tutorial import tutorial_file
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PARTITIONS = 2
WITHOUT_RECORDS = "spark.sql.streaming.noDataMicroBatches.enabled"


class Shop:
    """The application's places, filled with made events."""

    def __init__(
        self, kafka: Kafka, database: Database, folder: Path, name: str, made: Generated, guarantee: str
    ) -> None:
        self.made = made
        self.truth: Truth = truth(made.records, made.catalogue)
        prefix = f"{name.replace('-', '_')}_"
        self.places = Places(
            bootstrap=kafka.bootstrap,
            dsn=database.dsn(),
            folder=folder,
            prefix=prefix,
            raw_prefix=prefix,
            records_per_epoch=1_200,
            guarantee=guarantee,
        )
        topics = [self.places.topic(topic) for topic in (*words.RAW, *words.MADE)]
        kafka.wire.create_topics(topics, PARTITIONS, settings={"retention.ms": "-1"})
        with psycopg.connect(self.places.dsn) as connection:
            make_catalogue(connection, made.catalogue)
            make_served(connection, prefix)
            for price in made.catalogue.prices:
                announce(connection, price)

    def feed(self, records: list[Record]) -> None:
        producer = Producer({"bootstrap.servers": self.places.bootstrap, "enable.idempotence": True})
        for it in records:
            producer.produce(self.places.topic(it.topic), key=it.key, value=it.value, timestamp=it.arrived_ms)
            producer.poll(0)
        assert producer.flush(60) == 0

    def run_and_forget(
        self, spark: SparkSession, build: Callable[[], list[ow.Pipeline]]
    ) -> tuple[Judgement, list[int]]:
        """Half of the records; then Spark forgets its last epochs, as if killed before it noted them; then the rest.

        The judgement, and how many epochs each pipeline has put out.
        """
        half = len(self.made.records) // 2
        self.feed(self.made.records[:half])
        spark.conf.set(WITHOUT_RECORDS, "false")  # the last epoch of this half shall have some
        queries = [pipeline.start(trigger="200ms") for pipeline in build()]
        spark.conf.unset(WITHOUT_RECORDS)
        read = self.places.topic(words.AD_EVENTS_RAW), self.places.topic(words.ORDERS_RAW)
        self._await(queries, lambda: _read_to_the_end(queries[0], read, half))
        done = [_stopped(query) for query in queries]
        for pipeline in ("clean", "aggregate", "attribute", "load"):
            commits = checkpoint_of(self.places.home(pipeline)) / "commits"
            max(commits.glob("[0-9]*"), key=lambda it: int(it.name)).unlink()
        self.feed(self.made.records[half:])
        queries = [pipeline.start(trigger="200ms") for pipeline in build()]
        self._await(queries, lambda: _read_to_the_end(queries[0], read, len(self.made.records)))
        self.feed([heartbeat(self.made.end_ms + CLOSING_MS)])
        wanted = len(self.truth.minutes), len(self.truth.attributed)
        self._await(queries, lambda: self._served() == wanted)
        done = [before + _stopped(query) for before, query in zip(done, queries, strict=True)]
        return judge(self.truth, seen(self.places), self.made.catalogue), done

    def _await(self, queries: list[ow.Query], reached: Callable[[], bool]) -> None:
        try:
            eventually(lambda: _require_running(queries) and reached(), "the application is there", 300)
        except BaseException:
            for query in queries:
                with suppress(Exception):
                    query.stop()
            raise

    def _served(self) -> tuple[int, int]:
        with psycopg.connect(self.places.dsn) as connection:
            minutes, orders = (
                connection.execute(f"select count(*) from {self.places.table(name)}").fetchone()  # type: ignore[arg-type]
                for name in (words.MINUTES, words.ATTRIBUTED)
            )
        return minutes[0], orders[0]  # type: ignore[index]


def _require_running(queries: list[ow.Query]) -> bool:
    for query in queries:
        if (failure := query.exception()) is not None:
            raise failure
    return True


def _read_to_the_end(first: ow.Query, topics: tuple[str, ...], records: int) -> bool:
    """`clean` has read so many records."""
    progress = first.last_progress
    ends = json.loads(progress["sources"][0]["endOffset"] or "{}") if progress else {}
    return sum(sum(ends.get(topic, {}).values()) for topic in topics) == records


def _stopped(query: ow.Query) -> int:
    query.stop()
    return query.epochs_committed


def _tutorial(places: Places, spark: SparkSession) -> list[ow.Pipeline]:
    """The pipelines of the page, from its own blocks."""
    file = places.folder / "ads.py"
    file.write_text(tutorial_file("ads.py"))
    page = load_module(file)
    return [make(spark, places) for make in (page.clean, page.aggregate, page.attribute, page.load)]


@pytest.fixture
def shop(kafka: Kafka, postgres: PostgresServer, tmp_path: Path, name: str) -> Callable[..., Shop]:
    def make(seed: int, guarantee: str = "exactly-once") -> Shop:
        made = generate(4_000, seed)
        return Shop(kafka, Database.new(postgres), tmp_path, name, made, guarantee)

    return make


def test_every_record_ends_where_it_must_and_every_cent_is_right(
    shop: Callable[..., Shop], spark: SparkSession
) -> None:
    """F1-F5: each output is what the truth says, over many epochs, though Spark forgot that it had finished some.

    What runs is the tutorial's own code.
    """
    made = shop(seed=5)
    judged, epochs = made.run_and_forget(spark, lambda: _tutorial(made.places, spark))
    assert [it for it in judged.findings if not it.clean] == []
    assert judged.exact
    assert sum(it.truth_cents for it in judged.bill) > 0
    assert min(epochs) > 1


ORDER = json.dumps(
    {"id": "1", "type": words.ORDER, "user": "u", "store": "s", "amount": 5, "at": words.START_MS}
)  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [f"[{ORDER}]", f" [ {ORDER}, {ORDER} ]", f"{ORDER}{ORDER}", f"{ORDER},{ORDER}", f"{ORDER}] [{ORDER}", f"{ORDER}x"],
    ids=["a list of one", "a list of two", "one after the other", "with a comma", "in brackets", "with a rest"],
)
def test_only_one_object_is_one_event(spark: SparkSession, value: str) -> None:
    """F4: whatever else stands in a value would be lost in silence, and it may be somebody's money."""
    at = datetime.fromtimestamp(words.START_MS / 1000, UTC)
    raw = spark.createDataFrame(
        [(it.encode(), at, "raw", 0, number) for number, it in enumerate((value, f" {ORDER}\n"))],
        "value binary, timestamp timestamp, topic string, partition int, offset long",
    )
    made = clean.judged(raw).orderBy("place").select("fault", "taken").collect()
    assert [(it.fault, it.taken) for it in made] == [("malformed", False), (None, True)]


def test_an_order_is_no_copy_of_a_click_with_its_number_and_needs_no_ad(spark: SparkSession) -> None:
    """F1: ids are told apart by what they are ids of, and only what must name a known ad is asked for it."""
    told = {"user": "u", "store": "s", "at": words.START_MS}
    events = [
        {"id": "1", "type": words.CLICK, "ad": "known", **told},
        {"id": "1", "type": words.ORDER, "amount": 5, "ad": "no such ad", **told},
        {"id": "2", "type": words.CLICK, "ad": "no such ad", **told},
    ]
    at = datetime.fromtimestamp(words.START_MS / 1000, UTC)
    raw = spark.createDataFrame(
        [(json.dumps(it).encode(), at, "raw", 0, number) for number, it in enumerate(events)],
        "value binary, timestamp timestamp, topic string, partition int, offset long",
    )
    judged = clean.judged(raw)
    assert judged.select("identity").distinct().count() == len(events)
    ads = {"ads": spark.createDataFrame([("known",)], "ad string")}
    made = clean.letters(judged, ads, Places(bootstrap="", dsn="", folder=Path())).select("topic").collect()
    assert sorted(it.topic for it in made) == sorted([words.AD_EVENTS, words.ORDERS, words.DEAD])


def test_at_least_once_charges_too_much_in_the_same_run(shop: Callable[..., Shop], spark: SparkSession) -> None:
    """A5: the same application, the same forgotten epochs: records come twice, and campaigns pay for them."""
    made = shop(seed=5, guarantee="at-least-once")
    judged, _ = made.run_and_forget(spark, lambda: pipelines(spark, made.places))
    twice = {it.output: it.duplicated for it in judged.findings}
    assert twice["ad_events"] > 0
    assert sum(it.lost for it in judged.findings) == 0
    assert judged.off_cents > 0
