"""A snapshot compared with the topics themselves, on a real broker: is what was on its way there, and nothing more?"""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from onceward.epoch.ledger import SinkEntry
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.errors import SnapshotDamaged
from onceward.kafka.offsets import EARLIEST, LATEST, offsets
from onceward.kafka.sender import Sender
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Cluster, Wire
from onceward.sinks.kafka.boundaries import Boundaries
from onceward.snapshot.manifest import OnItsWay, load
from onceward.snapshot.verifying import in_the_topics, verify
from snapshot.homes import KAFKA, Joined, taken
from support.judge import Kafka
from support.leaders import payload
from support.waiting import eventually


class Producer:
    """A pipeline whose epochs are real transactions, noted in a home made by hand."""

    def __init__(self, folder: Path, kafka: Kafka, wire: Wire, name: str = "first") -> None:
        self.kafka, self.topic = kafka, kafka.topic(1)
        self.wire, self.place = wire, TopicPartition(self.topic, 0)
        self.home = Joined(folder, name)
        self.transactor = Transactor(self.wire, f"pipeline-of-{self.topic}", 60_000)
        self.transactor.fence()
        self.boundaries = Boundaries()
        self.boundaries.learn(self.wire.topic_ids([self.topic]), self.wire.ends([self.topic]))
        self.number = -1

    def epoch(self, count: int, *, is_noted: bool = True) -> None:
        """So many records in batches of two."""
        self.number += 1
        transaction = self.transactor.begin(self.number)
        outcome = self._write(transaction, count)
        vote = {
            "version": 1,
            "producer_id": transaction.identity.producer_id,
            "producer_epoch": transaction.identity.producer_epoch,
            **self.boundaries.vote(outcome),
        }
        self.transactor.commit(transaction, positions={self.place: 0}, lineage="L", term=1, outcome=outcome)
        self._await_end()
        if is_noted:
            part = SinkEntry.of(outcome, kind=KAFKA, committable=vote)
            self.home.epoch(self.number, sinks={"out": part})

    def aborted(self, count: int) -> None:
        transaction = self.transactor.begin(self.number + 1)
        self._write(transaction, count)
        self.transactor.abort(transaction)
        self._await_end()

    def _write(self, transaction: Any, count: int) -> Outcome:
        sender = Sender(self.wire, transaction.identity, self.transactor.pipeline)
        for _ in range(0, count, 2):
            data = payload(b"a", b"b", timestamp_ms=time.time_ns() // 1_000_000)  # an old one would fall to retention
            sender.send(self.place, data, 2)
        spans = sender.flush()
        return Outcome.of([(self.place, PartitionOutcome(count, 1, spans.get(self.place)))] if count else [])

    def _await_end(self) -> None:
        """EndTxn answers before its end markers are written."""
        eventually(
            lambda: self.kafka.end_offsets(self.topic) == self.kafka.end_offsets(self.topic, "read_committed"),
            "the end",
        )

    @property
    def end(self) -> int:
        return self.wire.ends([self.topic])[self.place]


@pytest.fixture
def wire(kafka: Kafka) -> Iterator[Wire]:
    with closing(Wire(Cluster(kafka.bootstrap))) as wire:
        yield wire


@pytest.fixture
def first(tmp_path: Path, kafka: Kafka, wire: Wire) -> Producer:
    """Epoch 0 at 0 to 4, epoch 1 at 5 to 11, and their end markers."""
    producer = Producer(tmp_path / "homes", kafka, wire)
    producer.epoch(4)
    producer.epoch(6)
    return producer


def snapshot_of(folder: Path, first: Producer, *, read: int) -> Path:
    second = Joined(folder / "homes", "second").reads_topics(**first.boundaries.ids)
    second.epoch(0, reads={first.topic: {0: read}})
    return Path(taken(folder, first.home, second)[0].location)


def looked_at(path: Path, wire: Wire, **changes: object) -> list[str]:
    """What the topics say to a channel that was altered together with its savepoints."""
    place, found = load(path)
    channel: OnItsWay = msgspec.structs.replace(found.channels[0], **changes)
    return in_the_topics(channel, verify(place, found), wire)


def test_a_snapshot_of_real_transactions_is_what_the_topic_holds(tmp_path: Path, first: Producer) -> None:
    """D5: before and after its producer goes on."""
    path = snapshot_of(tmp_path, first, read=5)
    assert load(path)[1].channels[0].ranges == [(0, 5, 12)]
    assert first.end == 12
    verify(*load(path), first.wire)
    first.epoch(2)
    verify(*load(path), first.wire)


def test_a_reader_that_has_caught_up_stands_at_the_boundary(tmp_path: Path, first: Producer) -> None:
    """D5: behind the end marker, on a real broker."""
    committed = first.kafka.end_offsets(first.topic, "read_committed")[0]
    path = snapshot_of(tmp_path, first, read=committed)
    assert load(path)[1].channels[0].ranges == [(0, committed, committed)]
    verify(*load(path), first.wire)


@pytest.mark.parametrize("end", [11, 10, 9, 7, 6])
def test_a_boundary_that_is_too_low_is_noticed(tmp_path: Path, first: Producer, end: int) -> None:
    """D5: within a batch, between two of them, or by one record."""
    path = snapshot_of(tmp_path, first, read=5)
    wrong = looked_at(path, first.wire, ranges=[(0, 5, end)])
    assert bool(wrong) == (end < 11), wrong  # at 11 there is the end marker, and no record
    assert all("is of epoch 1 of first, or of an earlier one" in it for it in wrong)


def test_a_boundary_that_is_too_high_is_noticed(tmp_path: Path, first: Producer) -> None:
    """D5: the next epoch's records would be read twice."""
    path = snapshot_of(tmp_path, first, read=5)
    first.epoch(4)
    assert looked_at(path, first.wire, ranges=[(0, 5, 12)]) == []
    (wrong,) = looked_at(path, first.wire, ranges=[(0, 5, 13)])
    assert f"{first.place} at 12 is of a later epoch of first than 1" in wrong


def test_a_later_epoch_is_known_by_the_producer_id_that_the_pipeline_has_now(
    tmp_path: Path, kafka: Kafka, wire: Wire, name: str
) -> None:
    """D5: after 32,767 transactions a pipeline goes on under another id, whose epochs begin with 0."""
    first = Producer(tmp_path / "homes", kafka, wire, name)
    first.epoch(4)
    first.epoch(6)
    path = snapshot_of(tmp_path, first, read=5)
    first.transactor = Transactor(wire, name, 60_000)
    first.transactor.fence()
    first.aborted(2)
    first.epoch(4)
    verify(*load(path), wire)
    (wrong,) = looked_at(path, wire, ranges=[(0, 5, 16)])
    assert f"{first.place} at 15 is of a later epoch of {name} than 1" in wrong


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not-told"])
def test_an_epoch_under_an_id_that_nobody_knows_any_more_cannot_be_judged(
    tmp_path: Path, kafka: Kafka, wire: Wire, name: str, monkeypatch: pytest.MonkeyPatch, *, is_told: bool
) -> None:
    """D5: after twice as many transactions; or where we may not ask for today's id."""
    first = Producer(tmp_path / "homes", kafka, wire, name)
    first.epoch(4)
    first.epoch(6)
    path = snapshot_of(tmp_path, first, read=5)
    for transactional_id in (f"{name}-between", name) if is_told else (name,):
        first.transactor = Transactor(wire, transactional_id, 60_000)
        first.transactor.fence()
        first.epoch(2)
    if not is_told:
        monkeypatch.setattr("onceward.snapshot.verifying.producer_id", lambda *_: None)
    assert looked_at(path, wire) == []
    (wrong, *_) = looked_at(path, wire, ranges=[(0, 5, 14)])
    assert f"{first.place} at 12 is of producer" in wrong
    assert f"later epoch of {name} than 1 cannot be told" in wrong
    assert ("without the right to describe" in wrong) is not is_told


def test_a_range_that_the_topic_does_not_have_is_noticed(tmp_path: Path, first: Producer) -> None:
    """D5: a broker has lost what it had acknowledged, or the range was altered."""
    path = snapshot_of(tmp_path, first, read=5)
    (wrong,) = looked_at(path, first.wire, ranges=[(0, 5, 20)])
    assert "ends at 12, before 20: the topic has lost records" in wrong


def test_aborted_tries_and_strangers_do_no_harm(tmp_path: Path, first: Producer) -> None:
    """D5: neither are of an epoch."""
    first.kafka.feed(first.topic, [(None, "a stranger's")])
    first.aborted(4)
    first.epoch(2)
    first.aborted(2)
    path = snapshot_of(tmp_path, first, read=5)
    first.aborted(2)
    first.kafka.feed(first.topic, [(None, "a stranger's")])
    first.epoch(2)
    verify(*load(path), first.wire)


def test_an_aborted_try_between_two_sources_of_a_reader_does_no_harm(tmp_path: Path, first: Producer) -> None:
    """D5: it lies before the end, and is of nobody."""
    first.aborted(4)
    quickest = first.end
    first.epoch(2)
    (first.home.checkpoint / "commits/2").unlink()  # its output is known, its state is not complete
    texts = [f'{{"{first.topic}":{{"0":{position}}}}}' for position in (5, quickest)]
    plan = "\n".join(["v1", "{}", *texts])
    second = Joined(tmp_path / "homes", "second").reads_topics(**first.boundaries.ids)
    second.epoch(0, positions=texts, plan=plan).put("offsets/0", plan)
    place, snapshot = taken(tmp_path, first.home, second)
    assert snapshot.channels[0].ranges == [(0, 5, quickest)]
    verify(place, snapshot, first.wire)


def test_a_reader_that_has_read_too_far_is_noticed(tmp_path: Path, first: Producer) -> None:
    """D5: whatever the ledgers say, the topic tells whose records are before the reader's position."""
    path = snapshot_of(tmp_path, first, read=5)
    first.epoch(4)
    (wrong, *_) = looked_at(path, first.wire, ranges=[(0, first.end, first.end)])
    assert f"{first.place} at 12 is of a later epoch of first than 1" in wrong


def test_records_that_were_cleared_away_are_noticed(tmp_path: Path, first: Producer) -> None:
    """D5: by retention, or by somebody. What was read before is not missed."""
    path = snapshot_of(tmp_path, first, read=5)
    admin = AdminClient({"bootstrap.servers": first.kafka.bootstrap})
    for upto, fails in ((5, False), (8, True)):
        for done in admin.delete_records([Place(first.topic, 0, upto)]).values():
            done.result()
        eventually(lambda upto=upto: offsets(first.wire, [first.topic], EARLIEST)[first.place] == upto, "cleared")
        if not fails:
            verify(*load(path), first.wire)
            continue
        with pytest.raises(SnapshotDamaged, match="begins at 8 now: what was on its way from 5 on was cleared away"):
            verify(*load(path), first.wire)
    assert offsets(first.wire, [first.topic], LATEST)[first.place] == 12


def test_a_topic_that_was_deleted_or_made_again_is_noticed(tmp_path: Path, first: Producer) -> None:
    """D5: its name is the same, its offsets are others."""
    path = snapshot_of(tmp_path, first, read=5)
    admin = AdminClient({"bootstrap.servers": first.kafka.bootstrap})
    for done in admin.delete_topics([first.topic]).values():
        done.result()
    eventually(lambda: not first.wire.topic_ids([first.topic]), "the deletion")
    with pytest.raises(SnapshotDamaged, match="was deleted: what was on its way is gone"):
        verify(*load(path), first.wire)
    first.wire.create_topics([first.topic], 1)
    with pytest.raises(SnapshotDamaged, match="was deleted and made again"):
        verify(*load(path), first.wire)


def test_an_epoch_that_is_not_noted_holds_its_reader_back(tmp_path: Path, first: Producer) -> None:
    """D5: killed after its commit; what a reader has seen of it is not in the cut."""
    second = Joined(tmp_path / "homes", "second").reads_topics(**first.boundaries.ids)
    second.epoch(0, reads={first.topic: {0: first.end}})
    first.epoch(4, is_noted=False)
    second.epoch(1, reads={first.topic: {0: first.end}})
    place, snapshot = taken(tmp_path, first.home, second)
    assert [it.epoch for it in snapshot.members] == [1, 0]
    verify(place, snapshot, first.wire)
