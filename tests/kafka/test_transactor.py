"""Epochs against a real broker: visible at once or never, whatever becomes of answers and drivers."""

import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest

from onceward.doctor.cluster import judge_brokers
from onceward.doctor.finding import Level
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.errors import (
    BrokerRefused,
    BrokerUnreachable,
    CommitUnproven,
    ConfigurationError,
    EpochTooLong,
    TransactionsUnsupported,
)
from onceward.jars import broker_jars, java_command
from onceward.kafka import transactor as transactor_module
from onceward.kafka import wire as wire_module
from onceward.kafka.cluster_facts import look
from onceward.kafka.sender import IdentityLost
from onceward.kafka.transaction import Identity, State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import AnswerLost, Cluster, Wire
from onceward.servers.broker import DevBroker

LAST_EPOCH = 32_766  # of a producer id: the next transaction gets a new one


class Lossy(Wire):
    """Loses what the broker says to some requests, or the requests themselves."""

    def __init__(self, cluster: Cluster, *, kind: type, times: int, sent: bool = True) -> None:
        super().__init__(cluster)
        self.kind, self.sent = kind, sent
        self.left, self.lost = 0, 0
        self.times = times

    def call(self, node: int, request: object) -> Any:
        if isinstance(request, self.kind) and self.left:
            self.left -= 1
            self.lost += 1
            if self.sent:
                super().call(node, request)
            raise AnswerLost(f"{type(request).__name__} (by the test)")
        return super().call(node, request)

    def arm(self) -> None:
        self.left = self.times


class Doubtful(Lossy):
    """Besides, the first EndTxn is carried out, and its answer says that the transaction is not open."""

    denied = False

    def call(self, node: int, request: object) -> Any:
        answer = super().call(node, request)
        if isinstance(request, EndTxnRequest) and not self.denied:
            self.denied = True
            assert answer.error_code == 0
            answer.error_code = 48
        return answer


def places(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions)]


class TestVisibility:
    def test_a_commit_shows_all_partitions_of_all_topics_and_the_marker_at_once(self, lab: Any) -> None:
        """A6, A7, C3, C4."""
        first, second, source = lab.topic(3), lab.topic(2), lab.topic(2)
        rows = {place: [b"%d" % n for n in range(20)] for place in (*places(first, 3), *places(second, 2))}
        transactor = lab.transactor()
        transaction = transactor.begin(0)
        outcome = lab.write(transactor.wire, transaction.identity, transactor.pipeline, rows)
        assert lab.read(first) == [[], [], []]
        assert lab.read(second) == [[], []]
        expected = [b"%d" % n for n in range(20)]
        assert lab.read(first, committed=False) == [expected] * 3
        assert lab.read(second, committed=False) == [expected] * 2
        assert transactor.read_marker().marker is None

        ends = {TopicPartition(source, 0): 120, TopicPartition(source, 1): 7}
        ended = lab.commit(transactor, transaction, rows, positions=ends)
        assert ended.state is State.COMMITTED
        assert lab.read(first) == [expected] * 3
        assert lab.read(second) == [expected] * 2
        marker = transactor.read_marker().marker
        assert (marker.epoch, marker.lineage, marker.term) == (0, "L", 1)
        assert marker.outcome == outcome
        assert transactor.read_marker().positions == ends

    def test_an_abort_hides_everything_and_the_next_epoch_is_clean(self, lab: Any) -> None:
        """B4."""
        place = TopicPartition(lab.topic(), 0)
        transactor = lab.transactor()
        transaction = transactor.begin(0)
        lab.write(transactor.wire, transaction.identity, transactor.pipeline, {place: [b"never"]})
        assert transactor.abort(transaction).state is State.ABORTED
        assert transactor.identity != transaction.identity
        assert lab.epoch(transactor, 0, {place: [b"once"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"once"]]
        assert lab.read(place.topic, committed=False) == [[b"never", b"once"]]

    def test_an_abort_before_the_first_record_is_fine(self, lab: Any) -> None:
        transactor = lab.transactor()
        assert transactor.abort(transactor.begin(0)).state is State.ABORTED
        place = TopicPartition(lab.topic(), 0)
        assert lab.epoch(transactor, 0, {place: [b"once"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"once"]]

    def test_an_empty_epoch_commits_its_marker_alone(self, lab: Any) -> None:
        """Proof, Kafka: empty epoch."""
        place = TopicPartition(lab.topic(), 0)
        transactor = lab.transactor()
        for epoch in range(3):
            ended = transactor.commit(
                transactor.begin(epoch), positions={place: 5}, lineage="L", term=1, outcome=Outcome()
            )
            assert ended.state is State.COMMITTED
        assert transactor.read_marker().marker.epoch == 2
        assert lab.read(place.topic) == [[]]

    def test_epochs_follow_each_other_under_identities_from_the_answers(self, lab: Any) -> None:
        """C7: one transactional id for ever; each epoch has a producer epoch of its own."""
        place = TopicPartition(lab.topic(), 0)
        transactor = lab.transactor()
        identities = []
        for epoch in range(10):
            identities.append(transactor.identity)
            assert lab.epoch(transactor, epoch, {place: [b"%d" % epoch]}).state is State.COMMITTED
        assert len(set(identities)) == 10
        assert lab.read(place.topic) == [[b"%d" % epoch for epoch in range(10)]]

    def test_a_marker_that_kafka_refuses_aborts_the_epoch(self, lab: Any) -> None:
        """A topic that was deleted since: the marker cannot ride on it, and the error says so."""
        place = TopicPartition(lab.topic(), 0)
        transactor = lab.transactor()
        transaction = transactor.begin(0)
        lab.write(transactor.wire, transaction.identity, transactor.pipeline, {place: [b"never"]})
        gone = {TopicPartition(lab.name("gone"), 0): 1}
        with pytest.raises(BrokerRefused, match=r"epoch 0.*gone.*UNKNOWN_TOPIC_OR_PARTITION"):
            lab.commit(transactor, transaction, {}, positions=gone)
        assert lab.read(place.topic) == [[]]


class TestFencing:
    def test_whoever_fences_first_finds_the_marker_of_every_answered_commit(self, lab: Any) -> None:
        """B10: EndTxn answers before its end markers are written, InitProducerId only after; so fence, then read."""
        place = TopicPartition(lab.topic(), 0)
        for _ in range(10):
            transactor = lab.transactor()
            transaction = transactor.begin(0)
            outcome = lab.write(transactor.wire, transaction.identity, transactor.pipeline, {place: [b"once"]})
            transactor.commit(transaction, positions={place: 1}, lineage="L", term=1, outcome=outcome)
            heir = Transactor(transactor.wire, transactor.pipeline, 60_000)
            heir.fence()
            found = heir.read_marker().marker
            assert found is not None
            assert found.epoch == 0

    def test_a_newer_driver_aborts_the_older_ones_work_and_nothing_of_it_is_added(self, lab: Any) -> None:
        """C6."""
        place = TopicPartition(lab.topic(2), 0)
        zombie = lab.transactor()
        assert lab.epoch(zombie, 0, {place: [b"before"]}).state is State.COMMITTED
        transaction = zombie.begin(1)
        lab.write(zombie.wire, transaction.identity, zombie.pipeline, {place: [b"zombie, open"]})

        heir = lab.transactor(zombie.pipeline)
        assert lab.state_of(zombie.pipeline) in ("CompleteAbort", "Empty")
        assert heir.read_marker().marker.epoch == 0
        assert lab.epoch(heir, 1, {place: [b"heir"]}).state is State.COMMITTED

        for row in ({place: [b"late"]}, {TopicPartition(place.topic, 1): [b"late elsewhere"]}):
            with pytest.raises(IdentityLost, match=rf"{place.topic}-\d: (INVALID_PRODUCER_EPOCH|PRODUCER_FENCED)"):
                lab.write(zombie.wire, transaction.identity, zombie.pipeline, row)
        assert lab.commit(zombie, transaction, {place: [b"late"]}).state is State.FENCED
        assert zombie.abort(transaction).state is State.FENCED
        assert heir.read_marker().marker.epoch == 1
        assert lab.epoch(heir, 2, {place: [b"heir again"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"before", b"heir", b"heir again"], []]

    def test_a_zombie_with_everything_written_and_no_marker_yet_cannot_commit(self, lab: Any) -> None:
        """C6: paused just before the commit; the heir has not even begun."""
        place = TopicPartition(lab.topic(), 0)
        zombie = lab.transactor()
        transaction = zombie.begin(0)
        rows = {place: [b"zombie"]}
        lab.write(zombie.wire, transaction.identity, zombie.pipeline, rows)
        heir = lab.transactor(zombie.pipeline)
        assert lab.commit(zombie, transaction, rows).state is State.FENCED
        assert heir.read_marker().marker is None
        assert lab.epoch(heir, 0, {place: [b"heir"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"heir"]]

    def test_a_zombie_that_never_wrote_is_fenced_too(self, lab: Any) -> None:
        place = TopicPartition(lab.topic(), 0)
        zombie = lab.transactor()
        transaction = zombie.begin(0)
        heir = lab.transactor(zombie.pipeline)
        assert zombie.abort(transaction).state is State.FENCED
        assert lab.epoch(heir, 0, {place: [b"heir"]}).state is State.COMMITTED

    def test_the_heir_of_a_heir_fences_both(self, lab: Any) -> None:
        place = TopicPartition(lab.topic(), 0)
        first = lab.transactor()
        second, third = lab.transactor(first.pipeline), lab.transactor(first.pipeline)
        for old in (first, second):
            with pytest.raises(IdentityLost):
                lab.write(old.wire, old.identity, old.pipeline, {place: [b"late"]})
            assert lab.commit(old, old.begin(0), {place: [b"late"]}).state is State.FENCED
        assert lab.epoch(third, 0, {place: [b"once"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"once"]]


class TestLostAnswers:
    """Unknown is an outcome of its own: it is resolved by asking, never by an abort."""

    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize("sent", [True, False], ids=["answer lost", "request lost"])
    @pytest.mark.parametrize("kind", [TxnOffsetCommitRequest, EndTxnRequest], ids=lambda kind: kind.__name__)
    def test_the_commit_is_resolved_and_the_data_is_there_once(
        self, lab: Any, kind: type, sent: bool, times: int
    ) -> None:
        """B5, C1."""
        rows = {place: [b"a", b"b"] for place in places(lab.topic(2), 2)}
        topic = next(iter(rows)).topic
        wire = lab.wire_of(Lossy, kind=kind, times=times, sent=sent)
        transactor = lab.transactor(wire=wire)
        for epoch in range(3):
            wire.arm()
            assert lab.epoch(transactor, epoch, rows).state is State.COMMITTED
            assert transactor.read_marker().marker.epoch == epoch
        assert wire.lost == 3 * times
        assert lab.read(topic) == [[b"a", b"b"] * 3] * 2

    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize("kind", [InitProducerIdRequest, OffsetFetchRequest], ids=lambda kind: kind.__name__)
    def test_a_commit_that_seems_lost_is_found_by_its_marker(self, lab: Any, kind: type, times: int) -> None:
        """B5: ask for ownership under the old identity, then read; each of those answers may be lost too."""
        place = TopicPartition(lab.topic(), 0)
        wire = lab.wire_of(Doubtful, kind=kind, times=times)
        transactor = lab.transactor(wire=wire)
        wire.arm()
        assert lab.epoch(transactor, 0, {place: [b"0"]}).state is State.COMMITTED
        assert wire.lost == times
        assert wire.denied
        assert lab.epoch(transactor, 1, {place: [b"1"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"0", b"1"]]

    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize("sent", [True, False], ids=["answer lost", "request lost"])
    def test_an_abort_is_resolved_and_nothing_is_visible(self, lab: Any, sent: bool, times: int) -> None:
        place = TopicPartition(lab.topic(), 0)
        wire = lab.wire_of(Lossy, kind=EndTxnRequest, times=times, sent=sent)
        transactor = lab.transactor(wire=wire)
        transaction = transactor.begin(0)
        lab.write(wire, transaction.identity, transactor.pipeline, {place: [b"never"]})
        wire.arm()
        assert transactor.abort(transaction).state is State.ABORTED
        assert wire.lost == times
        assert lab.epoch(transactor, 0, {place: [b"once"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"once"]]

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_start_is_resolved(self, lab: Any, times: int) -> None:
        place = TopicPartition(lab.topic(), 0)
        for kind in (InitProducerIdRequest, OffsetFetchRequest):
            wire = lab.wire_of(Lossy, kind=kind, times=times)
            wire.arm()
            transactor = lab.transactor(wire=wire)
            assert transactor.read_marker().marker is None
            assert wire.lost == times
            assert lab.epoch(transactor, 0, {place: [b"once"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"once", b"once"]]


class TestTimeout:
    def test_a_transaction_that_the_broker_timed_out_is_noticed_and_redone(self, lab: Any) -> None:
        """C9: never lost, never twice."""
        place = TopicPartition(lab.topic(), 0)
        transactor = lab.transactor(timeout_ms=2000)
        assert lab.epoch(transactor, 0, {place: [b"zero"]}).state is State.COMMITTED
        transaction = transactor.begin(1)
        lab.write(transactor.wire, transaction.identity, transactor.pipeline, {place: [b"too slow"]})
        assert lab.state_of(transactor.pipeline) == "Ongoing"
        lab.eventually(lambda: lab.state_of(transactor.pipeline) == "CompleteAbort", "the broker's abort")

        assert lab.commit(transactor, transaction, {place: [b"too slow"]}).state is State.ABORTED
        assert transactor.identity != transaction.identity
        assert transactor.timeout_ms == 4000  # the redo has twice the time
        assert lab.epoch(transactor, 1, {place: [b"one"]}).state is State.COMMITTED
        assert lab.epoch(transactor, 2, {place: [b"two"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"zero", b"one", b"two"]]
        assert lab.read(place.topic, committed=False) == [[b"zero", b"too slow", b"one", b"two"]]

    def test_a_timeout_during_the_write_or_before_an_abort_is_noticed_too(self, lab: Any) -> None:
        """C9: the answer is the same as a fence's; the driver is not fenced."""
        place = TopicPartition(lab.topic(), 0)
        transactor = lab.transactor(timeout_ms=1000)
        transaction = transactor.begin(0)
        lab.write(transactor.wire, transaction.identity, transactor.pipeline, {place: [b"too slow"]})
        lab.eventually(lambda: lab.state_of(transactor.pipeline) == "CompleteAbort", "the broker's abort")
        with pytest.raises(IdentityLost):
            lab.write(transactor.wire, transaction.identity, transactor.pipeline, {place: [b"later still"]})
        assert transactor.abort(transaction).state is State.ABORTED
        assert lab.epoch(transactor, 0, {place: [b"once"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"once"]]

    def test_an_heir_that_comes_after_the_timeout_still_fences(self, lab: Any) -> None:
        """C6 and C9 together: the answers look alike, the outcome must not."""
        place = TopicPartition(lab.topic(), 0)
        zombie = lab.transactor(timeout_ms=1000)
        transaction = zombie.begin(0)
        lab.write(zombie.wire, transaction.identity, zombie.pipeline, {place: [b"zombie"]})
        lab.eventually(lambda: lab.state_of(zombie.pipeline) == "CompleteAbort", "the broker's abort")
        heir = lab.transactor(zombie.pipeline)
        assert lab.commit(zombie, transaction, {place: [b"zombie"]}).state is State.FENCED
        assert lab.epoch(heir, 0, {place: [b"heir"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"heir"]]

    def test_twice_the_time_is_asked_for_only_as_far_as_the_broker_grants_it(self, lab: Any) -> None:
        """C9: 900,000 ms is the broker's default maximum."""
        place = TopicPartition(lab.topic(), 0)
        wire = lab.wire_of(Doubtful, kind=OffsetFetchRequest, times=0)
        transactor = lab.transactor(wire=wire, timeout_ms=500_000)
        assert lab.epoch(transactor, 0, {place: [b"0"]}).state is State.COMMITTED
        assert wire.denied
        assert transactor.timeout_ms == 900_000  # not twice as much, but all there is
        assert lab.epoch(transactor, 1, {place: [b"1"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"0", b"1"]]

    def test_an_epoch_that_outlasts_the_longest_transaction_stops_with_the_ways_out(
        self, lab: Any, tmp_path: Path
    ) -> None:
        """C9: redone with the same time it would end the same way, again and again."""
        with DevBroker(tmp_path, port=0, settings={"transaction.max.timeout.ms": "1500"}) as broker:
            lab = type(lab)(broker)
            place = TopicPartition(lab.topic(), 0)
            transactor = lab.transactor(timeout_ms=1000)
            for number, limit in enumerate((1500, 1500)):
                transaction = transactor.begin(number)
                lab.write(transactor.wire, transaction.identity, transactor.pipeline, {place: [b"too slow"]})
                lab.eventually(lambda: lab.state_of(transactor.pipeline) == "CompleteAbort", "the broker's abort")
                if number == 0:
                    assert transactor.abort(transaction).state is State.ABORTED
                else:
                    with pytest.raises(
                        EpochTooLong, match=r"2 s, the longest.*transaction\.max\.timeout\.ms.*--replan"
                    ):
                        transactor.abort(transaction)
                assert transactor.timeout_ms == limit
            assert lab.read(place.topic) == [[]]
            lab.close()

    def test_a_timeout_above_the_brokers_maximum_names_both_settings(self, lab: Any) -> None:
        """Proof, bad input."""
        with pytest.raises(
            ConfigurationError, match=r"transaction_timeout_ms=86400000 .*transaction\.max\.timeout\.ms"
        ):
            Transactor(lab.wire, lab.name(), 86_400_000).fence()


class TestRollover:
    """C7, trap 5: the producer epoch is 16 bits wide; past its end comes a new producer id."""

    @pytest.mark.parametrize("lossy", [False, True], ids=["answers", "answers lost"])
    def test_epochs_across_the_end_of_a_producer_id_are_there_once_and_in_order(self, lab: Any, lossy: bool) -> None:
        place = TopicPartition(lab.topic(2), 1)
        wire = lab.wire_of(Lossy, kind=EndTxnRequest, times=2)
        transactor = lab.transactor(wire=wire)
        old = transactor.identity.producer_id
        use_up(lab, transactor.pipeline, LAST_EPOCH - 8)
        transactor.fence()
        assert transactor.identity.producer_id == old

        identities: list[Identity] = []
        for epoch in range(16):
            identities.append(transactor.identity)
            if lossy:
                wire.arm()
            assert lab.epoch(transactor, epoch, {place: [b"%d" % epoch, b"-"]}).state is State.COMMITTED
            assert transactor.read_marker().marker.epoch == epoch
        producers = [identity.producer_id for identity in identities]
        assert producers[0] == old
        assert len(set(producers)) == 2
        crossed = producers.index(producers[-1])
        assert identities[crossed].producer_epoch == 0
        assert identities[crossed - 1].producer_epoch >= LAST_EPOCH - 1
        assert len(set(identities)) == 16
        assert lab.read(place.topic) == [[], [row for epoch in range(16) for row in (b"%d" % epoch, b"-")]]

        late = {place: [b"late"]}
        with pytest.raises(IdentityLost):
            lab.write(wire, identities[crossed - 1], transactor.pipeline, late)
        with pytest.raises(IdentityLost):
            lab.write(wire, identities[crossed], transactor.pipeline, late)
        heir = lab.transactor(transactor.pipeline)
        assert heir.read_marker().marker.epoch == 15
        assert lab.commit(transactor, transactor.begin(16), late).state is State.FENCED
        assert lab.epoch(heir, 16, {place: [b"heir"]}).state is State.COMMITTED
        assert lab.read(place.topic)[1][-1] == b"heir"

    def test_a_zombie_whose_heir_began_a_new_producer_id_is_fenced_though_it_asks_as_the_old_ones_owner(
        self, lab: Any
    ) -> None:
        """C6, C7: a broker could take that for a repetition of its heir's question, and give both one identity."""
        place = TopicPartition(lab.topic(), 0)
        zombie = lab.transactor()
        use_up(lab, zombie.pipeline, LAST_EPOCH - 3)
        while zombie.identity.producer_epoch < LAST_EPOCH:
            zombie.fence()
        heir = lab.transactor(zombie.pipeline)
        assert heir.identity.producer_id != zombie.identity.producer_id
        assert lab.commit(zombie, zombie.begin(0), {place: [b"zombie"]}).state is State.FENCED
        assert lab.epoch(heir, 0, {place: [b"heir"]}).state is State.COMMITTED
        assert lab.read(place.topic) == [[b"heir"]]


def use_up(lab: Any, pipeline: str, until: int) -> None:
    """Raise the producer epoch by InitProducerId, five hundred requests on their way at a time (about 0.2 ms each)."""
    host, port = lab.cluster.bootstrap.split(":")
    name = pipeline.encode()
    header = struct.pack(">hhih", 22, 4, 0, -1) + b"\0"
    body = bytes([len(name) + 1]) + name + struct.pack(">iqh", 60_000, -1, -1) + b"\0"
    request = struct.pack(">i", len(header + body)) + header + body
    epoch = 0
    with socket.create_connection((host, int(port)), timeout=60) as connection, connection.makefile("rb") as answers:
        while epoch < until:
            count = min(500, until - epoch)
            connection.sendall(request * count)
            for _ in range(count):
                (size,) = struct.unpack(">i", answers.read(4))
                *_, error, _, found = struct.unpack_from(">ibihqh", answers.read(size))
                assert error in (0, 51), error
                epoch = found if error == 0 else epoch


class TestUnusableClusters:
    def test_an_unreachable_broker_is_named_in_bounded_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wire_module, "CONNECT_TIMEOUT_S", 1.0)
        with socket.socket() as reserved:  # bound, not listening: nobody answers there
            reserved.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{reserved.getsockname()[1]}"
            wire = Wire(Cluster(address))
            began = time.monotonic()
            with pytest.raises(BrokerUnreachable, match=rf"no Kafka broker at {address}.*check the address"):
                wire.client()
            assert time.monotonic() - began < 10

    def test_a_refused_request_is_final(self, lab: Any) -> None:
        with pytest.raises(BrokerRefused, match="transactional id ''"):
            Transactor(lab.wire, "", 60_000).fence()


class TestOwnBroker:
    """With a broker that these tests may stop and change."""

    @pytest.mark.parametrize("mute", [TxnOffsetCommitRequest, EndTxnRequest], ids=lambda kind: kind.__name__)
    def test_a_commit_nobody_answers_is_unproven_and_the_next_start_resolves_it(
        self, own: Any, monkeypatch: pytest.MonkeyPatch, mute: type
    ) -> None:
        """B5, B10: stopped with the epoch's name; nothing lost, nothing twice."""
        monkeypatch.setattr(wire_module, "REQUEST_TIMEOUT_MS", 500)
        monkeypatch.setattr(wire_module, "SETTLE_TIMEOUT_S", 0.7)
        monkeypatch.setattr(transactor_module, "RESOLVE_TIMEOUT_S", 1.5)

        class PausedAt(Wire):
            def call(self, node: int, request: object) -> Any:
                if isinstance(request, mute) and own.broker.state() != "paused":
                    own.broker.pause()
                return super().call(node, request)

        place = TopicPartition(own.topic(), 0)
        plain = own.transactor()
        assert own.epoch(plain, 0, {place: [b"zero"]}).state is State.COMMITTED
        transactor = own.transactor(plain.pipeline, wire=own.wire_of(PausedAt))
        transaction = transactor.begin(1)
        rows = {place: [b"one"]}
        own.write(plain.wire, transaction.identity, plain.pipeline, rows)
        began = time.monotonic()
        try:
            with pytest.raises(CommitUnproven, match=rf"'{plain.pipeline}', epoch 1: .*next start"):
                own.commit(transactor, transaction, rows)
        finally:
            own.broker.resume()
        assert time.monotonic() - began < 15
        monkeypatch.undo()

        heir = own.transactor(plain.pipeline)
        out = heir.read_marker().marker.epoch
        if out == 0:
            assert own.epoch(heir, 1, rows).state is State.COMMITTED
        assert own.read(place.topic) == [[b"zero", b"one"]]

    def test_a_cluster_without_the_repaired_protocol_is_refused_and_the_named_command_repairs_it(
        self, own: Any
    ) -> None:
        """C10, I5: a start refuses it, and so does the doctor."""
        own.wire.require_transactions()
        features(own.broker, "downgrade", "transaction.version=1")
        wire = own.wire_of(Wire)
        with pytest.raises(TransactionsUnsupported) as refused:
            own.eventually(lambda: wire.require_transactions() is not None, "the refusal", 10)
        for named in (own.cluster.bootstrap, "transaction.version 1", "needs 2", "Kafka 4.0", "KIP-890"):
            assert named in str(refused.value)
        told = judge_brokers(look(wire, []), own.cluster.bootstrap, 60.0)[0]
        assert (told.level, told.says[:21]) == (Level.RISK, "transaction.version 1")
        named = str(refused.value).partition("kafka-features.sh ")[2].split()
        assert named == ["upgrade", "--feature", "transaction.version=2"]
        features(own.broker, named[0], named[2])
        own.eventually(lambda: accepts(wire), "the repaired cluster", 10)


def features(broker: DevBroker, what: str, feature: str) -> None:
    jars = ":".join(str(jar) for jar in broker_jars())
    tool = [str(java_command()), "-Xshare:auto", "-cp", jars, "org.apache.kafka.tools.FeatureCommand"]
    command = [*tool, "--bootstrap-server", broker.bootstrap, what, "--feature", feature]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def accepts(wire: Wire) -> bool:
    try:
        wire.require_transactions()
    except TransactionsUnsupported:
        return False
    return True
