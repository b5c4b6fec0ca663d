"""Topics whose logs are not simply all that was written: the remote part of a tiered one is slow, records of a
compacted one are gone.

While remote storage takes its time a broker answers without records and without an error. Compaction takes batches
away, and leaves some without records.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

import onceward as ow
from onceward.cli.main import app
from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.walking import headers
from onceward.kafka.wire import Cluster, Wire
from onceward.sinks.kafka.rows import ShapedBatch
from onceward.sinks.kafka.sink import KafkaSink
from support.judge import Kafka
from support.runs import run
from support.tiered import Tiered, tiered_broker
from support.waiting import eventually

RECORDS = 4000
SEGMENT_BYTES = 20_000  # some ten segments
LATE_MS = 700  # more than remote.fetch.max.wait.ms


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    with tiered_broker(tmp_path_factory.mktemp("tiered")) as tiered:
        yield tiered


@pytest.fixture(scope="module")
def kafka(tiered: Tiered) -> Iterator[Kafka]:
    wire = Wire(Cluster(tiered.broker.bootstrap))
    with closing(wire), closing(Kafka(tiered.broker.bootstrap, wire)) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def remote(tiered: Tiered, kafka: Kafka) -> str:
    """A topic of which the broker has nothing left on its own disk."""
    settings = tiered.topic_settings(SEGMENT_BYTES)
    topic = kafka.topic(2, **{name.replace(".", "_"): value for name, value in settings.items()})
    for start in range(0, RECORDS, 250):  # in batches that fit into segments
        kafka.feed(topic, ((f"k{number % 7}", f"{number}") for number in range(start, start + 250)))
    for place, end in kafka.wire.ends([topic]).items():
        tiered.await_remote(place, end)
    return topic


@pytest.fixture(autouse=True)
def _works_again(tiered: Tiered) -> Iterator[None]:
    yield
    tiered.reads("works")


@pytest.fixture
def consume(tiered: Tiered, remote: str) -> Callable[[], Result]:
    return lambda: CliRunner().invoke(app, ["kafka", "consume", remote, "--dir", str(tiered.broker.dir)])


@pytest.mark.parametrize("mode", ["works", f"slow-once {LATE_MS}"])
def test_all_records_are_consumed_however_slowly_they_come(
    tiered: Tiered, consume: Callable[[], Result], mode: str
) -> None:
    """A1."""
    tiered.reads(mode)
    seen = [int(line.partition(":")[2]) for line in consume().stdout.splitlines()]
    assert sorted(seen) == list(range(RECORDS))


def test_what_does_not_come_is_an_error_and_not_the_end(
    tiered: Tiered, consume: Callable[[], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1."""
    monkeypatch.setattr("onceward.kafka.reading.PATIENCE_S", 2.0)
    tiered.reads(f"slow {LATE_MS}")
    assert isinstance(consume().exception, PartitionSilent)
    tiered.reads("refuses")
    assert isinstance(consume().exception, BrokerRefused)


def test_the_headers_of_all_batches_come(tiered: Tiered, kafka: Kafka, remote: str) -> None:
    """D5: what verifies snapshots."""
    place, end = TopicPartition(remote, 1), kafka.wire.ends([remote])[TopicPartition(remote, 1)]
    tiered.reads(f"slow-once {LATE_MS}")
    found = list(headers(kafka.wire, place, 0, end))
    assert sum(it.record_count for it in found) == found[-1].last_offset + 1 == end


@pytest.fixture
def copy(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Callable[[str, int], str]:
    """Copies a topic to the end; where to."""

    def made(topic: str, small: int) -> str:
        target = kafka.topic(2)
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[topic]).select("key", "value")
        sink = ow.KafkaSink(kafka.bootstrap, topic=target, small_epoch_bytes=small)
        run(ow.Pipeline(name, home=tmp_path / "home", source=events).to(sink))
        return target

    return made


class Tries:
    """How each try to copy an epoch ended; the first one that fails mends the storage."""

    def __init__(self, tiered: Tiered) -> None:
        self.ended: list[str] = []
        self.tiered = tiered
        self.plain = KafkaSink._copied

    def copied(self, sink: KafkaSink, rows: ShapedBatch, context: EpochContext) -> Outcome | None:
        try:
            outcome = self.plain(sink, rows, context)
        except Exception:
            self.ended.append("failed")
            self.tiered.reads("works")
            raise
        self.ended.append("copied" if outcome is not None else "left to Spark")
        return outcome


@pytest.fixture
def tries(tiered: Tiered, monkeypatch: pytest.MonkeyPatch) -> Tries:
    tries = Tries(tiered)

    def watched(sink: KafkaSink, rows: ShapedBatch, context: EpochContext) -> Outcome | None:
        return tries.copied(sink, rows, context)

    monkeypatch.setattr(KafkaSink, "_copied", watched)
    return tries


WAYS = pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])


@WAYS
@pytest.mark.parametrize(
    ("mode", "ended"),
    [
        (f"slow-once {LATE_MS}", ["copied"]),
        (f"slow {LATE_MS}", ["failed", "left to Spark"]),
        ("refuses", ["failed", "left to Spark"]),
    ],
)
def test_a_copy_has_all_records_and_each_once(
    tiered: Tiered,
    kafka: Kafka,
    remote: str,
    copy: Callable[[str, int], str],
    tries: Tries,
    mode: str,
    ended: list[str],
    small: int,
) -> None:
    """A1, A2: however the remote storage reads; what does not come is Spark's to wait for."""
    tiered.reads(mode)
    found = [int(value) for value in kafka.values(copy(remote, small))]
    assert sorted(found) == list(range(RECORDS))
    assert tries.ended == ended


KEYS = 40


@pytest.fixture(scope="module")
def compacted(tiered: Tiered, kafka: Kafka) -> str:
    """Each key was written by two producers, a batch for a record; what the first one wrote is gone."""
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.001"}
    topic = kafka.topic(1, **{name.replace(".", "_"): value for name, value in settings.items()})
    for text in ("old", "new", "newest"):  # what is newest stays in a segment that is not cleaned
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "log_level": 0})
        for key in range(KEYS):
            producer.produce(topic, key=f"k{key}", value=text)
            assert producer.flush(30) == 0
    place = TopicPartition(topic, 0)
    eventually(lambda: tiered.is_clean(place), f"{place} is cleaned")
    return topic


def test_what_compaction_has_left_is_read_and_nothing_else_is_waited_for(
    tiered: Tiered, kafka: Kafka, compacted: str
) -> None:
    """A1: with batches that are gone, and one that is there without records."""
    found = list(headers(kafka.wire, TopicPartition(compacted, 0), 0, 3 * KEYS))
    assert min(it.record_count for it in found) == 0
    assert len(found) < 3 * KEYS
    ended = CliRunner().invoke(app, ["kafka", "consume", compacted, "--dir", str(tiered.broker.dir)])
    assert ended.stdout.splitlines() == [f"{it.key().decode()}:{it.value().decode()}" for it in kafka.read(compacted)]


@WAYS
def test_a_compacted_topic_is_copied(
    kafka: Kafka, compacted: str, copy: Callable[[str, int], str], tries: Tries, small: int
) -> None:
    """A1, A2: the driver asks whether it is one, and its tasks do not."""
    found, wanted = (
        sorted((it.key(), it.value()) for it in kafka.read(topic)) for topic in (copy(compacted, small), compacted)
    )
    assert found == wanted
    assert tries.ended == ["copied"]
