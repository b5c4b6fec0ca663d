"""F6: what an epoch looks up in a database is the same for every try, whatever the database says meanwhile.

Epochs are stateful (a running count per key), so that a restart after the decision replays one; the price comes from
PostgreSQL, and is changed between the tries.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import onceward as ow
from onceward import processes
from onceward.errors import (
    ConfigurationError,
    LedgerCorrupt,
    LookupUnreachable,
    LookupUnusable,
    OutageTooLong,
    ReplayDiverged,
)
from onceward.servers.broker.layout import free_ports
from onceward.servers.postgres import PostgresServer
from support.driver import Driver
from support.judge import Kafka
from support.postgres import Database, away
from support.waiting import eventually

QUERIES = {"prices": "SELECT key, price FROM prices", "none": "SELECT key, price FROM prices WHERE false"}
Build = Callable[..., ow.Pipeline]
FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    counts = events.selectExpr("cast(key as string) as key").groupBy("key").count()
    lookup = ow.PostgresLookup({dsn!r}, {{"prices": "SELECT key, price FROM prices"}})
    return ow.Pipeline({name!r}, home={home!r}, source=counts, output_mode="update", lookup=lookup).to(
        ow.KafkaSink({bootstrap!r}, topic={target!r}),
        rows=lambda batch, tables: batch.join(tables["prices"], "key", "left").selectExpr(
            "key", "concat(key, count, ' for ', price) as value"
        ),
    )
"""


class Given(ow.Lookup):
    """A lookup of one's own: it tells what it is given, and counts how often it is asked."""

    def __init__(self, *answers: Mapping[str, pa.Table] | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def read(self) -> Mapping[str, pa.Table]:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    made = Database.new(postgres)
    made.admin("CREATE TABLE prices (key text, price int)")
    made.admin("INSERT INTO prices VALUES ('a', 1)")
    yield made
    made.drop()


def priced(batch: DataFrame, prices: DataFrame) -> DataFrame:
    return batch.join(prices, "key", "left").selectExpr("key", "concat(key, count, ' for ', price) as value")


def looked_up(batch: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
    return priced(batch, tables["prices"])


@pytest.fixture
def topics(kafka: Kafka) -> tuple[str, str]:
    return kafka.topic(2), kafka.topic(2)


@pytest.fixture
def build(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]) -> Build:
    def make(rows: object = looked_up, per_epoch: int | None = None, **options: object) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]], max_records_per_epoch=per_epoch)
        counts = events.selectExpr("cast(key as string) as key").groupBy("key").count()
        pipeline = ow.Pipeline(name, home=tmp_path / "home", source=counts, output_mode="update", **options)  # type: ignore[arg-type]
        return pipeline.to(ow.KafkaSink(kafka.bootstrap, topic=topics[1]), rows=rows)  # type: ignore[arg-type]

    return make


def run(pipeline: ow.Pipeline) -> ow.Query:
    query = pipeline.start(trigger="once")
    query.wait(120)
    return query


def crash(pipeline: ow.Pipeline) -> None:
    with pytest.raises(Exception, match="Crash"):
        run(pipeline)


def test_every_try_of_an_epoch_sees_the_rows_of_the_first_though_they_change_or_are_away(
    kafka: Kafka,
    topics: tuple[str, str],
    database: Database,
    build: Build,
    crash_at: Callable[[str | None], None],
    tmp_path: Path,
) -> None:
    """F6: redone before the decision, replayed after it, and a file that is damaged is named, not read anew."""
    lookup = ow.PostgresLookup(database.dsn(), QUERIES)
    kafka.feed(topics[0], [("a", "1")])
    for price, point in enumerate(("looked-up", "written"), start=2):
        crash_at(point)
        crash(build(lookup=lookup))
        database.admin(f"UPDATE prices SET price = {price}")
    assert kafka.values(topics[1]) == []
    with away(database.server):
        crash_at("decided")
        crash(build(lookup=lookup))  # redone from what is kept
        assert kafka.values(topics[1]) == ["a1 for 1"]
        crash_at(None)
        assert run(build(lookup=lookup)).epochs_committed == 0  # replayed from what is kept, and found the same
    kafka.feed(topics[0], [("a", "2")])
    crash_at("decided")
    crash(build(lookup=lookup))
    assert kafka.values(topics[1]) == ["a1 for 1", "a2 for 3"]
    newest = max((tmp_path / "home" / "lookups").iterdir())
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])
    crash_at(None)
    with pytest.raises(LedgerCorrupt, match=rf"{newest} is damaged.*epoch 1"):
        run(build(lookup=lookup))
    newest.write_bytes(whole)
    run(build(lookup=lookup))
    assert kafka.values(topics[1]) == ["a1 for 1", "a2 for 3"]


def test_without_a_lookup_a_changed_price_is_noticed_by_the_replay(
    kafka: Kafka,
    topics: tuple[str, str],
    database: Database,
    build: Build,
    crash_at: Callable[[str | None], None],
    tmp_path: Path,
) -> None:
    """F6: a function that reads the database by itself; also a lookup whose kept rows somebody has taken away."""

    def by_itself(batch: DataFrame) -> DataFrame:
        found = database.admin("SELECT key, price FROM prices")
        return priced(batch, batch.sparkSession.createDataFrame(found, "key string, price int"))

    kafka.feed(topics[0], [("a", "1")])
    crash_at("decided")
    crash(build(by_itself))
    database.admin("UPDATE prices SET price = 2")
    crash_at(None)
    with pytest.raises(ReplayDiverged, match="epoch 0"):
        run(build(by_itself))
    lookup = ow.PostgresLookup(database.dsn(), QUERIES)
    with pytest.raises(ReplayDiverged, match="epoch 0"):
        run(build(lookup=lookup))
    (kept,) = (tmp_path / "home" / "lookups").iterdir()
    kept.unlink()
    database.admin("UPDATE prices SET price = 1")
    assert run(build(lookup=lookup)).epochs_committed == 0
    assert kafka.values(topics[1]) == ["a1 for 1"]


def test_a_database_that_is_away_is_asked_again_and_then_named_with_nothing_lost(
    kafka: Kafka, topics: tuple[str, str], build: Build
) -> None:
    tables = {"prices": pa.table({"key": ["a"], "price": [1]})}
    kafka.feed(topics[0], [("a", "1")])
    (nobody,) = free_ports(1)
    impatient = build(lookup=ow.PostgresLookup(f"host=127.0.0.1 port={nobody} user=nobody", QUERIES))
    impatient.patience = 1.0
    with pytest.raises(OutageTooLong, match=f"lookup's database was waited for.*127.0.0.1:{nobody}.*cannot be reached"):
        run(impatient)
    assert kafka.values(topics[1]) == []
    later = Given(LookupUnreachable("not yet"), tables)
    assert run(build(lookup=later)).epochs_committed == 1
    assert later.asked == 2
    assert kafka.values(topics[1]) == ["a1 for 1"]


def test_a_stop_does_not_wait_for_a_database_that_is_away(kafka: Kafka, topics: tuple[str, str], build: Build) -> None:
    kafka.feed(topics[0], [("a", "1")])
    lookup = Given(LookupUnreachable("away"))
    query = build(lookup=lookup).start()
    eventually(lambda: lookup.asked >= 2, "the lookup was asked in vain")
    query.stop()
    assert query.exception() is None
    assert kafka.values(topics[1]) == []
    run(build(lookup=Given({"prices": pa.table({"key": ["a"], "price": [5]})})))
    assert kafka.values(topics[1]) == ["a1 for 5"]


def test_each_epoch_reads_once_and_the_last_ten_are_kept(
    kafka: Kafka, topics: tuple[str, str], build: Build, tmp_path: Path
) -> None:
    """However many sinks look; and what no try can ask for is cleared away."""
    answers = [{"prices": pa.table({"key": ["a"], "price": [number]})} for number in range(14)]
    lookup = Given(*answers)
    kafka.feed(topics[0], [("a", str(number)) for number in range(13)])
    pipeline = build(lookup=lookup, per_epoch=1)
    pipeline.to(ow.FileSink(tmp_path / "files", format="json"), rows=looked_up)
    pipeline.to(ow.FileSink(tmp_path / "plain", format="json"), rows=lambda batch: batch.select("key"), name="plain")
    query = run(pipeline)
    assert lookup.asked == query.epochs_committed == 13
    assert sorted(kafka.values(topics[1])) == sorted(f"a{number + 1} for {number}" for number in range(13))
    kept = sorted(int(file.name[:12]) for file in (tmp_path / "home" / "lookups").iterdir())
    assert kept == list(range(3, 13))


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_times_and_decimals_arrive_as_they_are_in_any_session_time_zone(
    spark: SparkSession, kafka: Kafka, topics: tuple[str, str], database: Database, build: Build, zone: str
) -> None:
    """F6: and a table without rows has its columns."""
    query = (
        "SELECT 'a' AS key, timestamptz '2026-03-29 01:30:00.000001+00' AS moment, "
        "timestamp '2026-03-08 02:30:00' AS wall, date '1900-01-01' AS day, 12.3::numeric(38,18) AS price"
    )
    lookup = ow.PostgresLookup(database.dsn(), {"full": query, "empty": f"{query} LIMIT 0"})
    seen: dict[str, list[tuple[object, ...]]] = {}
    types: dict[str, str] = {}

    def look(batch: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
        for name, table in tables.items():
            plain = table.select("key", F.unix_micros("moment"), F.col("wall").cast("string"), "day", "price")
            seen[name] = [tuple(row) for row in plain.collect()]
            types[name] = table.schema.simpleString()
        return batch.join(tables["empty"], "key", "left").selectExpr("key", "'-' as value")

    kafka.feed(topics[0], [("a", "1")])
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        run(build(look, lookup=lookup))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    moment = int(datetime(2026, 3, 29, 1, 30, tzinfo=UTC).timestamp()) * 1_000_000 + 1
    assert seen["empty"] == []
    ((key, micros, wall, day, price),) = seen["full"]
    assert (key, micros, wall, str(day), price) == ("a", moment, "2026-03-08 02:30:00", "1900-01-01", Decimal("12.3"))
    assert types["full"] == types["empty"]
    assert "wall:timestamp_ntz" in types["full"]
    assert kafka.values(topics[1]) == ["-"]


def test_what_a_pipeline_cannot_look_up_is_refused_with_what_to_write(
    kafka: Kafka, topics: tuple[str, str], build: Build
) -> None:
    with pytest.raises(ConfigurationError, match=r"'kafka'.*second parameter.*has none.*lookup=ow\.PostgresLookup"):
        build()
    with pytest.raises(ConfigurationError, match="3 parameters"):
        build(lambda batch, tables, more: looked_up(batch, tables or more))
    with pytest.raises(ConfigurationError, match=r"subclass of ow\.Lookup, not a dict"):
        build(lookup={"prices": None})
    kafka.feed(topics[0], [("a", "1")])
    tables = {"ads": pa.table({"key": ["a"]})}
    with pytest.raises(LookupUnusable, match=r"no table 'prices', but 'ads'.*epoch 0.*as it was before"):
        run(build(lookup=Given(tables)))
    # A parameter that has a default is the function's own.
    run(build(lambda batch, factor=2: batch.selectExpr("key", f"string({factor}) as value"), lookup=Given(tables)))
    assert kafka.values(topics[1]) == ["2"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_drivers_that_die_or_sleep_and_their_successors_make_an_epoch_of_the_same_rows(
    kafka: Kafka, drivers: Callable[[str], Driver], database: Database, name: str, tmp_path: Path
) -> None:
    """F6, A1, C6: real processes, `kill -9` before and after the decision, and a zombie that claimed the rows first."""
    source, target = kafka.topic(2), kafka.topic(2)
    facts = {"bootstrap": kafka.bootstrap, "source": source, "target": target, "name": name}
    text = FILE.format(**facts, home=str(tmp_path / "home"), dsn=database.dsn())
    driver = drivers(text)
    kafka.feed(source, [("a", "1")])
    for price, point in enumerate(("written", "decided"), start=2):
        assert driver.start("--once", ONCEWARD_CRASH_AT=point).wait() == -signal.SIGKILL, driver.text()[-3000:]
        driver.kill()
        database.admin(f"UPDATE prices SET price = {price}")
    assert kafka.values(target) == ["a1 for 1"]
    kafka.feed(source, [("a", "2")])
    # It replays epoch 0, and sleeps in epoch 1, with the rows it found for that already kept.
    sleep = {"ONCEWARD_CRASH_AT": "looked-up@1", "ONCEWARD_CRASH_SIGNAL": "SIGSTOP"}
    zombie = driver.start(**sleep)
    eventually(lambda: processes.state(zombie.running.pid) == "T", "the driver sleeps with its rows kept")
    database.admin("UPDATE prices SET price = 4")
    successor = drivers(text).start("--once", "--json", "--take-over")
    successor.result()
    zombie.running.send_signal(signal.SIGCONT)
    assert zombie.wait() == 4
    assert "taken over" in zombie.text(), zombie.text()[-3000:]
    assert sorted(kafka.values(target)) == ["a1 for 1", "a2 for 3"]
