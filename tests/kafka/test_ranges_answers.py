"""A range's committed records as columns: what Spark's source would give, from leaders that move, in any codec."""

from types import SimpleNamespace
from uuid import UUID

import pytest
from kafka.future import Future

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable
from onceward.kafka.batch import BatchHeader
from onceward.kafka.compression import Compression
from onceward.kafka.decoding import Malformed
from onceward.kafka.fetching import FETCH_BYTES
from onceward.kafka.ranges import ASSUMED_BYTES, LEAST_BYTES, TOGETHER_BYTES, Range, RangeReader
from onceward.kafka.wire import Wire
from support.brokers import Brokers, said
from support.kept import batch, ended, fetched

T0 = TopicPartition("t", 0)


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    partitions = [SimpleNamespace(partition_index=0, leader_id=3)]
    brokers.will(
        "MetadataRequest", SimpleNamespace(topics=[said(name="t", partitions=partitions, topic_id=UUID(int=1))])
    )
    return brokers


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def values(wire: Wire, start: int, end: int) -> list[str]:
    found = RangeReader(wire).read([Range(T0, start, end)])
    return [value.decode() for _, records in found for value in records.value.to_pylist()]


def test_aborted_records_and_ends_of_transactions_are_left_out(brokers: Brokers, wire: Wire) -> None:
    """A6: two transactions in one partition at once; one of them was aborted, and is used again afterwards."""
    kept = [
        batch(0, "mine", "too"),
        batch(2, "aborted", producer=8),
        batch(3, "still mine"),
        ended(4, producer=8),
        ended(5),
        batch(6, "second try", producer=8),
        ended(7, producer=8),
        batch(8, "plain", producer=8, transactional=False),
    ]
    brokers.will("FetchRequest", fetched(*kept, aborted=((2, 8),)))
    assert values(wire, 0, 9) == ["mine", "too", "still mine", "second try", "plain"]
    assert {it.isolation_level for it in brokers.requests("FetchRequest")} == {1}


def test_an_answer_of_aborted_records_alone_is_not_the_end(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "aborted"), ended(1), aborted=((0, 7),)), fetched(batch(2, "b")))
    assert values(wire, 0, 3) == ["b"]


def test_it_begins_and_ends_inside_of_batches(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a", "b"), batch(2, "c", "d"), batch(4, "e")))
    assert values(wire, 1, 3) == ["b", "c"]


def test_small_batches_are_looked_at_together_and_each_record_has_its_own_offset(brokers: Brokers, wire: Wire) -> None:
    """Offsets between batches may be missing: cleaned away, or ends of transactions."""
    brokers.will("FetchRequest", fetched(batch(0, "a", "b"), ended(2), batch(3, "c"), batch(7, "d", "e", "f")))
    ((_, found),) = RangeReader(wire).read([Range(T0, 0, 10)])
    assert found.deltas.tolist() == [0, 1, 3, 7, 8, 9]
    brokers.will("FetchRequest", fetched(batch(0, "a", "b"), batch(3, "c"), batch(7, "d", "e", "f")))
    assert values(wire, 1, 9) == ["b", "c", "d", "e"]


def test_large_batches_are_looked_at_one_by_one(brokers: Brokers, wire: Wire) -> None:
    large = "x" * (TOGETHER_BYTES // 2 + 1)
    brokers.will("FetchRequest", fetched(batch(0, large), batch(1, "a"), batch(2, large), batch(3, "b")))
    found = [len(records) for _, records in RangeReader(wire).read([Range(T0, 0, 4)])]
    assert found == [2, 2]


def test_a_batch_that_is_cut_off_comes_with_the_next_answer(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), batch(1, "b")[:-1]), fetched(batch(1, "b"), batch(2, "c")[:20]))
    assert values(wire, 0, 2) == ["a", "b"]
    assert [it.topics[0].partitions[0].fetch_offset for it in brokers.requests("FetchRequest")] == [0, 1]


def test_what_was_cleaned_away_before_the_end_is_not_waited_for(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(bound=5))
    assert values(wire, 0, 5) == ["a"]


def test_a_new_leader_that_knows_less_is_asked_again_and_not_for_ever(brokers: Brokers, wire: Wire) -> None:
    """C8."""
    brokers.will("FetchRequest", fetched(bound=0), fetched(bound=0), fetched(batch(0, "a")))
    assert values(wire, 0, 1) == ["a"]
    brokers.will("FetchRequest", fetched(bound=0))
    with pytest.raises(BrokerUnreachable, match="t-0 up to offset 1"):
        values(wire, 0, 1)


def test_what_kafka_has_deleted_is_an_error(brokers: Brokers, wire: Wire) -> None:
    """A1: nothing is passed over that was there when the epoch was planned."""
    part = said(1, records=None, aborted_transactions=None, last_stable_offset=9, high_watermark=9)
    brokers.will("FetchRequest", SimpleNamespace(throttle_time_ms=0, responses=[SimpleNamespace(partitions=[part])]))
    with pytest.raises(BrokerRefused, match="OFFSET_OUT_OF_RANGE"):
        values(wire, 0, 5)


def test_records_before_the_range_alone_are_none(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), batch(5, "b")))
    assert values(wire, 1, 3) == []


def test_a_partition_without_a_leader_is_asked_about_again(brokers: Brokers, wire: Wire) -> None:
    """C8."""
    led, (topic, ids) = [-1, 3], ("t", UUID(int=1))
    brokers.will(
        "MetadataRequest",
        *(
            SimpleNamespace(
                topics=[said(name=topic, partitions=[SimpleNamespace(partition_index=0, leader_id=it)], topic_id=ids)]
            )
            for it in led
        ),
    )
    brokers.will("FetchRequest", fetched(batch(0, "a")))
    assert values(wire, 0, 1) == ["a"]


def test_an_answer_is_waited_for(brokers: Brokers, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Future()
    monkeypatch.setattr(Wire, "send", lambda *_: asked)
    monkeypatch.setattr(Wire, "poll", lambda *_: asked.success(fetched(batch(0, "a"))))
    assert values(wire, 0, 1) == ["a"]
    assert brokers.requests("FetchRequest") == []


def test_a_leader_is_asked_for_about_as_much_as_a_range_needs(brokers: Brokers, wire: Wire) -> None:
    """A short range of a long backlog."""
    reader = RangeReader(wire)
    brokers.will("FetchRequest", fetched(batch(0, *["x" * 100] * 2000)))
    assert len(list(reader.read([Range(T0, 0, 2000)]))) == 1
    list(reader.read([Range(T0, 0, 1500)]))
    list(reader.read([Range(T0, 0, 1)]))
    with pytest.raises(Malformed):  # more of it there is not
        list(reader.read([Range(T0, 0, 10**9)]))
    asked = [it.topics[0].partitions[0].partition_max_bytes for it in brokers.requests("FetchRequest")]
    assert asked[0] == 2000 * ASSUMED_BYTES
    assert 1500 * 100 < asked[1] < 1500 * 150
    assert (asked[2], asked[3]) == (LEAST_BYTES, FETCH_BYTES)


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_read(brokers: Brokers, wire: Wire, codec: Compression) -> None:
    text = ["many words " * 20_000, "short"]
    brokers.will("FetchRequest", fetched(batch(0, *text, codec=codec.value)))
    assert values(wire, 0, 2) == text


def test_a_batch_with_a_wrong_checksum_is_refused(brokers: Brokers, wire: Wire) -> None:
    """E9: never a wrong record."""
    brokers.will("FetchRequest", fetched(batch(0, "fine"), batch(1, "damaged")[:-3] + b"xxx"))
    with pytest.raises(BrokerRefused, match="t-0 at 1: the record batch does not fit its checksum"):
        values(wire, 0, 2)


def test_records_of_an_older_format_are_refused(brokers: Brokers, wire: Wire) -> None:
    """Topics that were written before Kafka 0.11: Spark's client reads those."""
    old = BatchHeader.of(batch(0, "old"))._replace(magic=1).packed() + batch(0, "old")[61:]
    brokers.will("FetchRequest", fetched(old))
    with pytest.raises(BrokerRefused, match="format v1"):
        values(wire, 0, 1)
    brokers.will("FetchRequest", fetched(old[:34]))  # one message of it is shorter than a batch's header
    with pytest.raises(Malformed, match="no whole batch"):
        values(wire, 0, 1)
