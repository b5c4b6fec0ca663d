"""What readers see: records without those of aborted transactions, from leaders that move, in any codec."""

from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.compression import Compression, compress, decompress
from onceward.kafka.cursor import OffsetsMissing
from onceward.kafka.reading import NO_TIME, Reader, Record
from onceward.kafka.wire import SETTLE_TIMEOUT_S, Wire
from support.brokers import Brokers, said
from support.kept import batch, ended, fetched, old, thinned, throttled

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


def until(brokers: Brokers, wire: Wire, end: int, **options: Any) -> Iterator[Record]:
    return Reader(wire, {T0: 0}, committed=True, clock=brokers.clock, **options).until({T0: end})


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
        fetched(batch(0, "first", at_ms=1), batch(1, "last", at_ms=3), partition=1),
    )
    found = Reader(wire, {T0: 0, T1: 0}, committed=True).until({T0: 2, T1: 2})
    assert values(found) == ["first", "second", "third", "last"]


def test_a_batch_that_is_cut_off_comes_with_the_next_answer(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), batch(1, "b")[:-1]), fetched(batch(1, "b"), batch(2, "c")[:20]))
    assert values(Reader(wire, {T0: 0}, committed=True).until({T0: 2})) == ["a", "b"]


def test_an_empty_answer_is_never_the_end(brokers: Brokers, wire: Wire) -> None:
    """A1: a broker answers so while a tiered topic's remote storage takes its time, however far its partition goes."""
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(bound=5), throttled(), fetched(batch(1, "b", "c")))
    assert values(until(brokers, wire, 3)) == ["a", "b", "c"]
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(bound=5))
    with pytest.raises(PartitionSilent, match="t-0: nothing has come from offset 1 on, of what lies before 5"):
        list(until(brokers, wire, 5))


def test_what_was_cleaned_away_before_the_end_is_told_by_what_is_behind_it(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(thinned(5, 9, {7: "b"})))
    assert values(until(brokers, wire, 5, compacted={"t"})) == ["a"]
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(thinned(5, 9, {7: "b"})))
    with pytest.raises(OffsetsMissing, match="t-0: the records from 1 to 4 are missing"):
        list(until(brokers, wire, 5))


def test_a_new_leader_that_knows_less_is_asked_again_and_not_for_ever(brokers: Brokers, wire: Wire) -> None:
    """C8."""
    brokers.will("FetchRequest", fetched(bound=0), fetched(bound=0), fetched(batch(0, "a")))
    assert values(until(brokers, wire, 1)) == ["a"]
    brokers.will("FetchRequest", fetched(bound=0))
    with pytest.raises(PartitionSilent, match="t-0: nothing has come from offset 0 on, of what lies before 1"):
        list(until(brokers, wire, 1))


def test_a_record_that_is_given_again_is_told_once(brokers: Brokers, wire: Wire) -> None:
    """A2."""
    brokers.will("FetchRequest", fetched(batch(0, "a", "b")), fetched(batch(0, "a", "b"), batch(1, "b", "c")))
    assert values(until(brokers, wire, 3)) == ["a", "b", "c"]


def test_a_batch_that_compaction_has_emptied_has_no_records(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), thinned(1, 4)), fetched(thinned(5, 9, {7: "b"})))
    assert [(it.offset, it.value) for it in until(brokers, wire, 10)] == [(0, b"a"), (7, b"b")]


@pytest.mark.parametrize("codec", [0, 1], ids=["plain", "gzip"])
def test_messages_from_before_kafka_0_11_are_read(brokers: Brokers, wire: Wire, codec: int) -> None:
    """Those of v0 have no time."""
    brokers.will(
        "FetchRequest", fetched(old(0, 0, *"abc", codec=codec)), fetched(old(1, 3, *"def", codec=codec), batch(6, "g"))
    )
    found = [(it.offset, it.timestamp_ms, it.key, it.value, it.headers) for it in until(brokers, wire, 7)]
    times = [NO_TIME] * 3 + [5] * 3 + [1]
    assert found == [(at, times[at], b"k", b"abcdefg"[at : at + 1], []) for at in range(7)]
    brokers.will("FetchRequest", fetched(old(1, 3, *"def", codec=codec)))
    assert [it.offset for it in Reader(wire, {T0: 4}, committed=True).until({T0: 5})] == [4]


def test_who_follows_sees_what_comes(brokers: Brokers, wire: Wire) -> None:
    brokers.will(
        "FetchRequest",
        fetched(batch(0, "a"), bound=1),
        fetched(partition=1, bound=0),
        fetched(bound=1),
        fetched(batch(0, "b"), partition=1),
        fetched(),
    )
    reader = Reader(wire, {T0: 0, T1: 0}, committed=True, clock=brokers.clock)
    assert values(islice(reader.follow(), 2)) == ["a", "b"]
    asked = [it.topics[0].partitions[0] for it in brokers.requests("FetchRequest")]
    assert [(it.partition, it.fetch_offset) for it in asked] == [(0, 0), (1, 0), (0, 1), (1, 0)]
    assert {it.max_wait_ms for it in brokers.requests("FetchRequest")} == {250}


def test_who_follows_ends_when_somebody_says_so(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), bound=1), fetched(bound=1))
    reader = Reader(wire, {T0: 0}, committed=True, clock=brokers.clock)
    assert values(reader.follow(lambda: len(brokers.requests("FetchRequest")) == 3)) == ["a"]


def test_who_follows_is_patient_where_there_is_nothing_and_not_where_there_is(brokers: Brokers, wire: Wire) -> None:
    """A1."""
    nothing, something = fetched(bound=1), fetched(bound=2)
    brokers.will("FetchRequest", fetched(batch(0, "a")), *[nothing] * 9000, fetched(batch(1, "b")), something)
    seen = Reader(wire, {T0: 0}, committed=True, clock=brokers.clock).follow()
    assert values(islice(seen, 2)) == ["a", "b"]
    assert brokers.now > 2 * SETTLE_TIMEOUT_S
    brokers.will("FetchRequest", fetched(bound=3))
    with pytest.raises(PartitionSilent, match="t-0: nothing has come from offset 2 on, though there is more"):
        next(seen)


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
