"""What `ow.read_kafka` reads, and from where on: on a real broker."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home
from onceward.epoch.source_topics import FILE, ids_in
from onceward.errors import ConfigurationError, InputLost, SourceReplaced, TopicUnusable
from onceward.kafka.wire import Cluster
from onceward.pipeline.first_positions import spark_offsets
from support.judge import Kafka
from support.runs import run
from support.waiting import eventually

Build = Callable[..., ow.Pipeline]


@pytest.fixture
def copy(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Build:
    """A pipeline that hands values on, read as the arguments say."""
    target = kafka.topic(1)

    def build(home: str = "home", **reading: Any) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, **reading)
        return ow.Pipeline(f"{name}-{home}", home=tmp_path / home, source=events).to(
            ow.KafkaSink(kafka.bootstrap, topic=target), rows=lambda batch: batch.selectExpr("topic as key", "value")
        )

    return build


def values(kafka: Kafka, pipeline: ow.Pipeline) -> list[str]:
    sink = pipeline.sinks["kafka"]
    assert isinstance(sink, ow.KafkaSink)
    assert sink.topic is not None
    return kafka.values(sink.topic)


def at(kafka: Kafka, topic: str, partition: int, value: str, moment: datetime) -> None:
    kafka.producer.produce(topic, value, partition=partition, timestamp=int(moment.timestamp() * 1000))
    assert kafka.producer.flush(30) == 0


def test_topics_that_fit_a_pattern_later_join_in_from_their_beginning(kafka: Kafka, copy: Build) -> None:
    """I1: also where the first epoch begins with the latest; a topic that fits in part is not read."""
    word = f"w{uuid.uuid4().hex[:8]}"
    kafka.wire.create_topics([f"{word}-1", f"old-{word}-1"], 1)
    kafka.feed(f"{word}-1", [("k", "before the start")])
    kafka.feed(f"old-{word}-1", [("k", "another topic")])
    pipeline = copy(pattern=f"{word}-.*", starting="latest")
    with pipeline.start() as query:
        query.process_all_available()
        kafka.feed(f"{word}-1", [("k", "first")])
        query.process_all_available()
        kafka.wire.create_topics([f"{word}-2"], 2)
        kafka.feed(f"{word}-2", [("a", "joined"), ("b", "joined")])
        eventually(lambda: len(values(kafka, pipeline)) == 3, "the new topic's events")
    assert sorted(values(kafka, pipeline)) == ["first", "joined", "joined"]
    asked = ConsumerGroupTopicPartitions(pipeline.name)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    committed = {(it.topic, it.partition) for it in answer.result(30).topic_partitions}
    assert committed == {(f"{word}-1", 0), (f"{word}-2", 0), (f"{word}-2", 1)}


def test_a_topic_that_joined_and_was_made_again_is_another_topic(kafka: Kafka, copy: Build) -> None:
    """J6: its id was noted before the first epoch that read it, not only at the next start."""
    word = f"w{uuid.uuid4().hex[:8]}"
    kafka.wire.create_topics([f"{word}-1"], 1)
    pipeline = copy(pattern=f"{word}-.*")
    with pipeline.start():
        kafka.wire.create_topics([f"{word}-2"], 1)
        kafka.feed(f"{word}-2", [("k", "a")])
        eventually(lambda: values(kafka, pipeline) == ["a"], "the new topic's event")
    assert ids_in(Checkpoint.noted(Home.at(Path(pipeline.home)), FILE)).keys() == {f"{word}-1", f"{word}-2"}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([f"{word}-2"])[f"{word}-2"].result(30)
    eventually(lambda: not kafka.wire.topics([f"{word}-2"]), "the topic is gone")
    with pytest.raises(InputLost, match="deleted"):
        run(copy(pattern=f"{word}-.*"))
    kafka.wire.create_topics([f"{word}-2"], 1)
    kafka.feed(f"{word}-2", [("k", "x"), ("k", "y"), ("k", "z")])
    with pytest.raises(SourceReplaced, match=f"'{word}-2' was deleted and made again"):
        run(copy(pattern=f"{word}-.*"))
    assert values(kafka, pipeline) == ["a"]


def test_a_pattern_that_fits_the_pipelines_own_output_is_refused(kafka: Kafka, copy: Build) -> None:
    """I3: it would read what it writes, without end."""
    with pytest.raises(ConfigurationError, match=r"fits 't-.*', which this pipeline writes"):
        copy(pattern="t-.*").start()


def test_a_moment_is_where_each_partition_begins(kafka: Kafka, copy: Build) -> None:
    """I1: a partition without a record that young begins at its end, and nothing that comes later is skipped."""
    source = kafka.topic(3)
    early, noon, late = (datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (9, 12, 15))
    for partition, value, moment in (
        (0, "0 early", early),
        (0, "0 noon", noon),
        (1, "1 early", early),
        (0, "0 late", late),
    ):
        at(kafka, source, partition, value, moment)
    pipeline = copy(topics=[source], starting="2026-03-01T12:00:00Z")
    for partition, value in ((1, "1 later"), (2, "2 later")):
        at(kafka, source, partition, value, early)  # after the moment was looked up
    run(pipeline)
    assert sorted(values(kafka, pipeline)) == ["0 late", "0 noon", "1 later", "2 later"]
    again = copy(topics=[source], starting=datetime(2026, 3, 1, 13, tzinfo=UTC))
    run(again)  # goes on where the first one ended
    assert len(values(kafka, again)) == 4
    with pytest.raises(TopicUnusable, match="'no-such-topic' does not exist"):
        copy(topics=["no-such-topic"], starting=noon)


def test_a_moment_is_exact_to_the_millisecond(kafka: Kafka) -> None:
    """I1: a partition's record of that very moment is its first one, also where it is the first of all."""
    source, noon = kafka.topic(5), datetime(2026, 3, 1, 12, tzinfo=UTC)
    just = timedelta(milliseconds=1)
    held = {0: (noon - just, noon, noon + just), 1: (noon,), 2: (noon + just,), 3: (noon - just,), 4: ()}
    for partition, moments in held.items():
        for moment in moments:
            at(kafka, source, partition, "x", moment)
    begins = {
        moment: list(json.loads(spark_offsets(moment, [source], "", Cluster(kafka.bootstrap)))[source].values())
        for moment in (noon - just, noon, noon + just, noon + 2 * just)
    }
    assert begins == {
        noon - just: [0, 0, 0, 0, 0],
        noon: [1, 0, 0, 1, 0],
        noon + just: [2, 1, 0, 1, 0],
        noon + 2 * just: [3, 1, 1, 1, 0],
    }


def test_offsets_are_where_each_partition_begins(kafka: Kafka, copy: Build) -> None:
    """I1, I3: what the partitions do not hold is refused before anything is written; later starts do not ask."""
    source = kafka.topic(2)
    for partition in (0, 1):
        for number in range(3):
            at(kafka, source, partition, f"{partition}-{number}", datetime.now(UTC))
    refused = {
        "says nothing of partition 1 of topic": {source: {0: 1}},
        "names partition 2 of topic .*, which has 2": {source: {0: 1, 1: 1, 2: 0}},
        "offset 4 for partition 1 of topic .*, which holds 0 to 2": {source: {0: 1, 1: 4}},
    }
    for says, starting in refused.items():
        with pytest.raises(ConfigurationError, match=says):
            copy(topics=[source], starting=starting).start()
    pipeline = copy(topics=[source], starting={(source, 0): 2, (source, 1): -1})
    run(pipeline)
    assert values(kafka, pipeline) == ["0-2"]
    at(kafka, source, 1, "later", datetime.now(UTC))
    run(copy(topics=[source], starting={source: {0: 1}}))  # it has begun, so what starting= lacks is no matter
    assert sorted(values(kafka, pipeline)) == ["0-2", "later"]


@pytest.mark.slow
def test_a_session_without_the_connector_is_told_how_to_get_it() -> None:
    """I3: a Spark of somebody else's making."""
    text = (
        "from pyspark.sql import SparkSession\n"
        "import onceward as ow\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "try:\n"
        "    ow.read_kafka(spark, 'localhost:9092', topics=['events'])\n"
        "except ow.errors.ConfigurationError as error:\n"
        "    print('told:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert "told: this Spark session has no Kafka connector. Make it with ow.session" in done.stdout, done.stderr[
        -3000:
    ]


@pytest.mark.parametrize("named", [{}, {"topics": ["a"], "pattern": "a"}, {"topics": []}])
def test_topics_or_a_pattern_and_not_both(spark: SparkSession, named: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="read_kafka needs"):
        ow.read_kafka(spark, "localhost:1", **named)


def test_a_poll_waits_for_nothing_and_returns_many_records_unless_told_otherwise(
    spark: SparkSession, kafka: Kafka
) -> None:
    """Spark asks Kafka twice after each poll, behind a fetch that waits."""

    def asked(**reading: Any) -> dict[str, str]:
        frame = ow.read_kafka(spark, kafka.bootstrap, topics=["events"], **reading)
        options = frame._jdf.queryExecution().analyzed().extraOptions()
        return {it: options.get(f"kafka.{it}") for it in ("fetch.max.wait.ms", "max.poll.records")}

    assert asked() == {"fetch.max.wait.ms": "0", "max.poll.records": "5000"}
    assert asked(options={"kafka.max.poll.records": "7"})["max.poll.records"] == "7"
