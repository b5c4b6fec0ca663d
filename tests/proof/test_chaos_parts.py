"""G1: what the chaos runner reads, from files and logs, is what is there."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, write_deltalake

from onceward.proof.chaos import rawlog
from onceward.proof.chaos.books import HOMES, Books, homes_of
from onceward.proof.chaos.outputs import Lake
from onceward.proof.chaos.places import VARIABLE, Places, read_topic
from onceward.proof.chaos.watchers import Watcher
from onceward.proof.checkers.log import one_transaction, raw_log
from onceward.proof.history import History, LogBatch
from onceward.servers.broker import DevBroker
from support.judge import Kafka
from support.waiting import eventually


def history(log: tuple[LogBatch, ...], place: tuple[str, int]) -> History:
    return History(events=(), input={}, planned={}, sinks={}, log={place: log})


def transactions(kafka: Kafka, topic: str, name: str) -> None:
    """Two records committed, one aborted, one committed."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(30)
    for values, commit in ((["a", "b"], True), (["x"], False), (["c"], True)):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=value, partition=0)
            producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def test_the_log_on_disk_shows_batches_sequences_and_end_markers(kafka: Kafka, broker: DevBroker, name: str) -> None:
    topic = kafka.topic(1)
    transactions(kafka, topic, name)
    epochs = {message.offset(): {"a": 0, "b": 0, "c": 1}[message.value().decode()] for message in kafka.read(topic)}
    log = rawlog.read(broker.log_dir(), (topic, 0), epochs)
    assert [(it.kind, it.rows, it.epoch) for it in log if it.kind == "data"] == [
        ("data", 1, 0), ("data", 1, 0), ("data", 1, -1), ("data", 1, 1),
    ]  # fmt: skip
    assert [it.kind for it in log if it.kind != "data"] == ["commit", "abort", "commit"]
    assert len({it.producer_id for it in log}) == 1
    # This client keeps its producer epoch from one transaction to the next, as Kafka did before transaction.version 2.
    assert "writes after its end marker" in raw_log(history(log, (topic, 0)))[0]
    assert one_transaction(history(log, (topic, 0))) == []


def test_a_watcher_sees_what_its_isolation_lets_it_see(kafka: Kafka, name: str) -> None:
    topic = kafka.topic(1)
    watchers = {it: Watcher(kafka.bootstrap, [topic], it) for it in ("read_committed", "read_uncommitted")}
    for watcher in watchers.values():
        watcher.start()
    transactions(kafka, topic, name)
    eventually(lambda: watchers["read_uncommitted"].count == 4, "the control has seen everything")
    for watcher in watchers.values():
        watcher.end()
    assert {it: watcher.count for it, watcher in watchers.items()} == {"read_committed": 3, "read_uncommitted": 4}
    committed = {message.offset(): hash(message.value()) for message in read_topic(kafka.bootstrap, topic)}
    assert watchers["read_committed"].seen[(topic, 0)] == committed


def test_plans_are_remembered_after_spark_has_forgotten_them(tmp_path: Path) -> None:
    offsets, commits = tmp_path / "checkpoints" / "000001" / "offsets", tmp_path / "checkpoints" / "000001" / "commits"
    offsets.mkdir(parents=True)
    commits.mkdir()
    books = Books(tmp_path)
    assert books.last_commit() == -1
    for epoch in range(3):
        (offsets / str(epoch)).write_text("\n".join(["v1", "{}", json.dumps({"in": {"0": epoch, "1": 2 * epoch}})]))
        (commits / str(epoch)).touch()
        books.look()
    (offsets / "0").unlink()
    books.look()
    assert books.planned == {epoch: {("in", 0): epoch, ("in", 1): 2 * epoch} for epoch in range(3)}
    assert books.last_commit() == 2
    assert books.changed == []
    (offsets / "2").write_text("\n".join(["v1", "{}", json.dumps({"in": {"0": 9, "1": 9}})]))
    books.look()
    assert "epoch 2 was planned up to" in books.changed[0]


def test_places_travel_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(bootstrap="here:1", dsn=None, folder=tmp_path, sinks=("kafka", "files"), over_tasks=True)
    monkeypatch.setenv(VARIABLE, places.text)
    assert Places.here() == places


def test_homes_are_unknown_until_a_job_has_told_them(tmp_path: Path) -> None:
    assert homes_of(tmp_path) == []
    (tmp_path / HOMES).write_text(json.dumps([str(tmp_path / "home")]))
    assert homes_of(tmp_path) == [tmp_path / "home"]


def test_a_lake_tables_own_checkpoints_are_no_leftovers_and_a_stray_file_is(tmp_path: Path) -> None:
    """G1: a false alarm of long runs; what it is there to find, it still finds."""
    rows = pa.table({"id": [1], "key": ["k"], "number": [1]})
    write_deltalake(tmp_path / "delta", rows)
    DeltaTable(tmp_path / "delta").create_checkpoint()
    assert list((tmp_path / "delta" / "_delta_log").glob("*.checkpoint.parquet"))
    lake = Lake(Places(bootstrap="", dsn=None, folder=tmp_path, sinks=("delta",)))
    assert lake.left_behind() == []
    pq.write_table(rows, tmp_path / "delta" / "stray.parquet")
    assert lake.left_behind() == [f"no version of the table has {tmp_path / 'delta' / 'stray.parquet'}"]
