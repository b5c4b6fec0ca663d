"""Those who forget and those who lie, against a real broker, a real Spark and a real PostgreSQL (J6)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.errors import (
    BrokerRefused,
    ConfigurationError,
    HomeMismatch,
    InputLost,
    MarkerMissing,
    SourceReplaced,
    TopicUnusable,
)
from onceward.kafka.wire import Cluster, Wire
from onceward.pipeline.source_topics import topic_ids
from onceward.servers.broker import DevBroker
from support.home import checkpoint_of
from support.judge import Kafka
from support.runs import crash, run
from support.waiting import eventually

Build = Callable[..., ow.Pipeline]


class Copy:
    """A pipeline that copies one topic into another, and files beside it if wanted."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.source, self.target = kafka.topic(1), kafka.topic(1)
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def pipeline(self, *, home: str = "home", options: dict[str, str] | None = None, **reading: object) -> ow.Pipeline:
        events = ow.read_kafka(
            self.spark,
            self.kafka.bootstrap,
            topics=[self.source],
            options=options,
            **reading,  # type: ignore[arg-type]
        )
        sink = ow.KafkaSink(self.kafka.bootstrap, topic=self.target)
        return ow.Pipeline(self.name, home=self.folder / home, source=events.select("key", "value")).to(sink)

    def feed(self, *values: str) -> None:
        self.kafka.feed(self.source, [("k", value) for value in values])

    def values(self) -> list[str]:
        return self.kafka.values(self.target)

    def delete_group(self) -> None:
        self.admin.delete_consumer_groups([self.name])[self.name].result(30)

    def commit_as_a_stranger(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": self.name})
        try:
            consumer.commit(offsets=[TopicPartition(self.source, 0, 1)], asynchronous=False)
        finally:
            consumer.close()


@pytest.fixture
def copy(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Copy:
    return Copy(spark, kafka, name, tmp_path)


class TestAMarkerThatIsGone:
    def test_while_the_first_epoch_is_in_doubt_is_not_taken_for_never(
        self, copy: Copy, crash_at: Callable[..., None]
    ) -> None:
        """Traps 6 and 24: committed, killed, and seven days later the group's offsets have expired."""
        copy.feed("a", "b")
        crash_at("decided")
        crash(copy.pipeline())
        crash_at(None)
        copy.delete_group()
        with pytest.raises(MarkerMissing, match=r"Epoch 0 is in doubt.*--in-doubt committed"):
            run(copy.pipeline())
        with pytest.raises(MarkerMissing, match="in_doubt='committed' or in_doubt='aborted'"):
            run(copy.pipeline(), trust_ledger="kafka")
        run(copy.pipeline(), trust_ledger="kafka", in_doubt="committed")
        assert copy.values() == ["a", "b"]
        copy.feed("c")
        run(copy.pipeline())
        assert copy.values() == ["a", "b", "c"]

    def test_an_epoch_that_was_not_committed_can_be_said_to_be_so(
        self, copy: Copy, crash_at: Callable[..., None]
    ) -> None:
        copy.feed("a")
        run(copy.pipeline())
        copy.feed("b")
        crash_at("marked")
        crash(copy.pipeline())
        crash_at(None)
        copy.delete_group()
        run(copy.pipeline(), trust_ledger="kafka", in_doubt="aborted")
        assert copy.values() == ["a", "b"]

    def test_a_strangers_commit_over_it_is_named(self, copy: Copy, crash_at: Callable[..., None]) -> None:
        """Sixty records were visible once where thirty had come in."""
        copy.feed("a")
        crash_at("decided")
        crash(copy.pipeline())
        crash_at(None)
        copy.commit_as_a_stranger()
        with pytest.raises(MarkerMissing, match=r"another consumer commits to this group"):
            run(copy.pipeline())
        assert copy.values() == ["a"]

    def test_a_group_that_others_use_is_refused_before_the_first_epoch(self, copy: Copy) -> None:
        copy.commit_as_a_stranger()
        with pytest.raises(MarkerMissing, match=r"another consumer commits to this group.*another name"):
            run(copy.pipeline())

    def test_while_the_driver_lives_stops_it_before_the_next_epoch(self, copy: Copy) -> None:
        copy.feed("a")
        query = copy.pipeline().start()
        query.process_all_available()
        copy.delete_group()
        copy.feed("b")
        with pytest.raises(MarkerMissing, match=r"is to hold epoch 0, and has no marker of it"):
            query.wait(60)
        assert copy.values() == ["a"]

    def test_an_idle_pipeline_writes_it_again_before_it_expires(self, copy: Copy) -> None:
        copy.feed("a")
        with copy.pipeline().start() as query:
            query.process_all_available()
            before = query._runner._marked_at
            query._runner.keep_alive_s = 0.0
            eventually(lambda: query._runner._marked_at > before + 1.5, "the marker was written again")
            query._runner.keep_alive_s = 3600.0
            copy.feed("b")
            query.process_all_available()
        assert copy.values() == ["a", "b"]
        copy.feed("c")
        run(copy.pipeline())
        assert copy.values() == ["a", "b", "c"]


def test_a_start_with_a_strange_home_leaves_the_healthy_pipeline_alone(copy: Copy) -> None:
    """It would be refused anyway; it must not fence first."""
    copy.feed("a")
    with copy.pipeline().start() as query:
        query.process_all_available()
        with pytest.raises(HomeMismatch, match=r"lineage.*onceward reset HOME"):
            copy.pipeline(home="another").start()
        copy.feed("b")
        query.process_all_available()
        assert [entry.attempts for entry in query.epochs] == [1, 1]
    assert copy.values() == ["a", "b"]


def test_a_lost_home_is_replaced_from_where_the_group_stands(copy: Copy) -> None:
    """I3: the documented way out. Nothing is written twice, nothing is left out; only the state is gone."""
    copy.feed("a")
    run(copy.pipeline())
    with pytest.raises(HomeMismatch, match="--from-group"):
        run(copy.pipeline(home="another"))
    copy.feed("b")
    copy.pipeline(home="another").reset(from_group=True)
    run(copy.pipeline(home="another"))
    copy.feed("c")
    run(copy.pipeline(home="another"))
    assert copy.values() == ["a", "b", "c"]


def test_a_lost_home_can_be_replaced_once_the_group_is_deleted(copy: Copy) -> None:
    """Then the input is read from its beginning; what is in the output topic stays."""
    copy.feed("a")
    run(copy.pipeline())
    copy.delete_group()
    run(copy.pipeline(home="another"))
    assert copy.values() == ["a", "a"]


class TestTheInput:
    def test_that_kafka_has_deleted_is_named_and_can_be_accepted(self, copy: Copy) -> None:
        copy.feed("a", "b")
        run(copy.pipeline())
        copy.feed("c", "d", "e")
        copy.admin.delete_records([TopicPartition(copy.source, 0, 4)])[TopicPartition(copy.source, 0)].result(30)
        with pytest.raises(InputLost, match=r"deleted events.*--accept-lost-input"):
            run(copy.pipeline())
        assert copy.values() == ["a", "b"]
        with pytest.raises(ConfigurationError, match=r"failOnDataLoss=false.*--accept-lost-input"):
            run(copy.pipeline(options={"failOnDataLoss": "false"}))
        run(copy.pipeline(options={"failOnDataLoss": "false"}), accept_lost_input=True)
        assert copy.values() == ["a", "b", "e"]

    def test_topic_that_was_deleted_and_made_again_is_another_topic(self, copy: Copy) -> None:
        """Its first events would be skipped: the positions are those of the old one."""
        copy.feed("a")
        run(copy.pipeline())
        before = copy.kafka.wire.topics([copy.source])
        copy.admin.delete_topics([copy.source])[copy.source].result(30)
        eventually(lambda: copy.source not in copy.kafka.wire.topics([copy.source]), "the topic is gone")
        copy.kafka.wire.create_topics([copy.source], 1)
        assert before.keys() == {copy.source}
        copy.feed("x", "y", "z")
        with pytest.raises(SourceReplaced, match=rf"'{copy.source}' was deleted and made again"):
            run(copy.pipeline())
        assert copy.values() == ["a"]
        copy.pipeline().reset()
        run(copy.pipeline())
        assert copy.values() == ["a", "x", "y", "z"]

    def test_topic_that_is_not_there_is_named_with_what_to_do(self, copy: Copy) -> None:
        """I4."""
        missing = f"{copy.source}-missing"
        events = ow.read_kafka(copy.spark, copy.kafka.bootstrap, topics=[copy.source, missing])
        with pytest.raises(TopicUnusable, match=f"'{missing}' does not exist.*onceward kafka topic create"):
            topic_ids(events)


class TestSparksLogs:
    def test_torn_by_a_power_cut_are_put_right(self, copy: Copy) -> None:
        """Spark syncs none of them."""
        for value in ("a", "b"):
            copy.feed(value)
            run(copy.pipeline())
        logs = checkpoint_of(copy.folder / "home")
        (logs / "commits" / "1").write_bytes(b"")
        (logs / "offsets" / "1").write_bytes(b"v1\n")
        (logs / "offsets" / "2").write_bytes(b"")
        copy.feed("c")
        told: list[str] = []
        run(copy.pipeline(), report=told.append)
        assert copy.values() == ["a", "b", "c"]
        assert len([line for line in told if "torn" in line or "cut short" in line]) == 3

    def test_a_planned_epoch_can_be_cut_into_smaller_ones(self, copy: Copy, crash_at: Callable[..., None]) -> None:
        """The way out for an epoch that takes longer than any transaction may."""
        copy.feed(*map(str, range(10)))
        crash_at("written")
        crash(copy.pipeline())
        crash_at(None)
        told: list[str] = []
        query = run(copy.pipeline(max_records_per_epoch=3), replan=True, report=told.append)
        assert any("epoch 0, which nobody has committed, is planned anew" in line for line in told)
        assert [entry.input_rows for entry in query.epochs] == [3, 3, 3, 1]
        assert copy.values() == [str(number) for number in range(10)]


class TestNames:
    def test_a_sink_may_be_called_as_we_call_things(
        self, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, crash_at: Callable[..., None]
    ) -> None:
        """Trap 25: a sink named "ledger" was skipped when a decided epoch was finished, and its rows were lost."""
        source = kafka.topic(1)
        kafka.feed(source, [("k", "a")])

        def build() -> ow.Pipeline:
            events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).selectExpr("cast(value as string) as value")
            made = ow.Pipeline(name, home=tmp_path / "home", source=events)
            return made.to(ow.FileSink(tmp_path / "out", format="json"), name="ledger")

        crash_at("decided")
        crash(build())
        crash_at(None)
        run(build())
        rows = [row.value for row in spark.read.json(str(tmp_path / "out")).collect()]
        assert rows == ["a"]

    def test_a_name_that_is_taken_is_refused_for_a_kafka_sink_too(
        self, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
    ) -> None:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic(1)])
        made = ow.Pipeline(name, home=tmp_path / "home", source=events)
        made.to(ow.FileSink(tmp_path / "out", format="json"), name="kafka")
        with pytest.raises(ConfigurationError, match=r"has a sink 'kafka' already"):
            made.to(ow.KafkaSink(kafka.bootstrap, topic=kafka.topic(1)))
        assert isinstance(made.sinks["kafka"], ow.FileSink)

    def test_a_guarantee_is_a_word_or_the_value(
        self, spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
    ) -> None:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic(1)])
        for given in (ow.Guarantee.AT_LEAST_ONCE, "at-least-once"):
            made = ow.Pipeline(name, home=tmp_path, source=events, guarantee=given)
            assert made.guarantee == ow.Guarantee.AT_LEAST_ONCE == "at-least-once"


def test_a_pipeline_object_can_be_started_again_after_a_crash_in_its_transaction(
    copy: Copy, crash_at: Callable[..., None]
) -> None:
    """As in a notebook: the sink's own state is of the start that failed."""
    copy.feed("a")
    pipeline = copy.pipeline()
    crash_at("marked")
    crash(pipeline)
    crash_at(None)
    run(pipeline)
    assert copy.values() == ["a"]


def test_a_record_time_that_the_broker_refuses_is_named_with_the_setting(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "a")])

    def ahead(batch: DataFrame) -> DataFrame:
        return batch.selectExpr("key", "value", "current_timestamp() + interval 3 hours as timestamp")

    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    sink = ow.KafkaSink(kafka.bootstrap, topic=target)
    with pytest.raises(BrokerRefused, match=r"message\.timestamp\.after\.max\.ms"):
        run(ow.Pipeline(name, home=tmp_path / "home", source=events).to(sink, rows=ahead))
    assert kafka.values(target) == []


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Another cluster."""
    with DevBroker(tmp_path_factory.mktemp("elsewhere"), port=0) as broker:
        wire = Wire(Cluster(broker.bootstrap))
        yield Kafka(broker.bootstrap, wire)
        wire.close()


def test_a_source_in_one_cluster_and_a_sink_in_another(
    spark: SparkSession, kafka: Kafka, elsewhere: Kafka, name: str, tmp_path: Path, crash_at: Callable[..., None]
) -> None:
    """The marker rides on the sink's own topic: the source's does not exist there."""
    source, target = kafka.topic(2), elsewhere.topic(2)

    def build(topic: str | None) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        made = ow.Pipeline(name, home=tmp_path / "home", source=events)
        sink = ow.KafkaSink(elsewhere.bootstrap, topic=topic)
        return made.to(sink, rows=lambda batch: batch.selectExpr("key", "value", f"'{target}' as topic"))

    kafka.feed(source, [("a", "1"), ("b", "2")])
    with pytest.raises(ConfigurationError, match=r"no place for the marker.*KafkaSink\(topic=\.\.\.\)"):
        run(build(None))
    crash_at("decided")
    crash(build(target))
    crash_at(None)
    kafka.feed(source, [("c", "3")])
    run(build(target))
    assert sorted(elsewhere.values(target)) == ["1", "2", "3"]
    run(build(target))
    assert sorted(elsewhere.values(target)) == ["1", "2", "3"]


def test_the_lease_survives_a_disk_that_says_no_for_a_moment(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """One OSError ended its thread for good, and the next start took a living driver's home."""
    query = copy.pipeline().start()
    try:
        term, failures = query._runner.taken.term, [OSError("no space left on device")]
        renew = type(term).renew

        def unwell(self: object) -> None:
            if failures:
                raise failures.pop()
            renew(self)  # type: ignore[arg-type]

        monkeypatch.setattr(type(term), "renew", unwell)
        eventually(lambda: not failures, "one renewal has failed")
        before = term.count
        eventually(lambda: term.count > before, "the lease is renewed again")
    finally:
        query.stop()
