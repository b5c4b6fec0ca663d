"""What readers see: records without those of aborted transactions, from leaders that move, in any codec."""

from itertools import islice
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable
from onceward.kafka.compression import Compression, compress, decompress
from onceward.kafka.reading import Reader
from onceward.kafka.wire import Wire
from support.brokers import Brokers, said
from support.kept import batch, ended, fetched

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    partitions = [SimpleNamespace(partition_index=number, leader_id=3) for number in (0, 1)]
    brokers.will(
        "MetadataRequest", SimpleNamespace(topics=[said(name="t", partitions=partitions, topic_id=UUID(int=1))])
    )
    return brokers


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def values(found: Any) -> list[str]:
    return [it.value.decode() for it in found]


def test_a_reader_of_committed_records_does_not_see_aborted_ones(brokers: Brokers, wire: Wire) -> None:
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
    assert values(Reader(wire, {T0: 0}, committed=True).until({T0: 9})) == [
        "mine", "too", "still mine", "second try", "plain",
    ]  # fmt: skip
    assert {it.isolation_level for it in brokers.requests("FetchRequest")} == {1}


def test_any_other_reader_sees_them(brokers: Brokers, wire: Wire) -> None:
    """A6."""
    brokers.will("FetchRequest", fetched(batch(0, "a"), batch(1, "aborted", producer=8), ended(2), aborted=None))
    assert values(Reader(wire, {T0: 0}, committed=False).until({T0: 3})) == ["a", "aborted"]
    assert {it.isolation_level for it in brokers.requests("FetchRequest")} == {0}


def test_an_answer_of_aborted_records_alone_is_not_the_end(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "aborted"), ended(1), aborted=((0, 7),)), fetched(batch(2, "b")))
    assert values(Reader(wire, {T0: 0}, committed=True).until({T0: 3})) == ["b"]


def test_it_begins_and_ends_inside_of_batches(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a", "b"), batch(2, "c", "d")))
    (b, c) = Reader(wire, {T0: 1}, committed=True).until({T0: 3})
    assert (b.place, b.offset, b.key, b.value, b.headers) == (T0, 1, b"k", b"b", [])
    assert c.offset == 2


def test_partitions_come_side_by_side_in_the_order_of_time(brokers: Brokers, wire: Wire) -> None:
    brokers.will(
        "FetchRequest",
        fetched(batch(0, "second", at_ms=2), batch(1, "third", at_ms=1)),  # in one partition offsets count
        fetched(batch(0, "first", at_ms=1), batch(1, "last", at_ms=3)),
    )
    found = Reader(wire, {T0: 0, T1: 0}, committed=True).until({T0: 2, T1: 2})
    assert values(found) == ["first", "second", "third", "last"]


def test_a_batch_that_is_cut_off_comes_with_the_next_answer(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), batch(1, "b")[:-1]), fetched(batch(1, "b"), batch(2, "c")[:20]))
    assert values(Reader(wire, {T0: 0}, committed=True).until({T0: 2})) == ["a", "b"]


def test_what_was_cleaned_away_before_the_end_is_not_waited_for(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(bound=5))
    assert values(Reader(wire, {T0: 0}, committed=True).until({T0: 5})) == ["a"]


def test_a_new_leader_that_knows_less_is_asked_again_and_not_for_ever(brokers: Brokers, wire: Wire) -> None:
    """C8."""
    brokers.will("FetchRequest", fetched(bound=0), fetched(bound=0), fetched(batch(0, "a")))
    assert values(Reader(wire, {T0: 0}, committed=True).until({T0: 1})) == ["a"]
    brokers.will("FetchRequest", fetched(bound=0))
    with pytest.raises(BrokerUnreachable, match="t-0 up to offset 1"):
        list(Reader(wire, {T0: 0}, committed=True).until({T0: 1}))


def test_who_follows_sees_what_comes(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(), fetched(), fetched(batch(0, "b")), fetched())
    assert values(islice(Reader(wire, {T0: 0, T1: 0}, committed=True).follow(), 2)) == ["a", "b"]
    asked = [it.topics[0].partitions[0] for it in brokers.requests("FetchRequest")]
    assert [(it.partition, it.fetch_offset) for it in asked] == [(0, 0), (1, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_read(brokers: Brokers, wire: Wire, codec: Compression) -> None:
    text = ["many words " * 20_000, "short"]
    brokers.will("FetchRequest", fetched(batch(0, *text, codec=codec.value)))
    assert values(Reader(wire, {T0: 0}, committed=True).until({T0: 2})) == text


def test_snappy_is_read_as_java_and_as_librdkafka_write_it() -> None:
    plain = b"many words " * 20
    block = pa.Codec("snappy").compress(plain, asbytes=True)
    assert decompress(Compression.SNAPPY, block) == plain
    java = compress(Compression.SNAPPY, memoryview(plain))
    assert decompress(Compression.SNAPPY, java + java[16:]) == plain * 2  # several blocks


def test_a_batch_with_a_wrong_checksum_is_refused(brokers: Brokers, wire: Wire) -> None:
    """E9: never a wrong record."""
    brokers.will("FetchRequest", fetched(batch(0, "fine"), batch(1, "damaged")[:-3] + b"xxx"))
    with pytest.raises(BrokerRefused, match="t-0 at 1: the record batch does not fit its checksum"):
        list(Reader(wire, {T0: 0}, committed=True).until({T0: 2}))
