"""A range's committed records as columns: what Spark's source would give, from leaders that move, in any codec."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.compression import Compression
from onceward.kafka.cursor import OffsetsMissing
from onceward.kafka.decoding import Malformed
from onceward.kafka.fetching import FETCH_BYTES
from onceward.kafka.ranges import AHEAD, ASSUMED_BYTES, LEAST_BYTES, PATIENCE_S, TOGETHER_BYTES, Range, RangeReader
from onceward.kafka.wire import Wire
from onceward.proof.simulation.reading import kept
from support.brokers import Brokers, said
from support.kept import batch, ended, fetched, old, thinned, throttled

T0 = TopicPartition("t", 0)


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    partitions = [SimpleNamespace(partition_index=at, leader_id=0) for at in range(20)]
    brokers.will(
        "MetadataRequest", SimpleNamespace(topics=[said(name="t", partitions=partitions, topic_id=UUID(int=1))])
    )
    return brokers


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def values(wire: Wire, start: int, end: int, *, is_compacted: bool = False) -> list[str]:
    clock = wire.client().clock  # type: ignore[attr-defined]  # the brokers'
    found = RangeReader(wire, clock).read([Range(T0, start, end, is_compacted)])
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
    ((_, found),) = RangeReader(wire).read([Range(T0, 0, 10, is_compacted=True)])
    assert found.deltas.tolist() == [0, 1, 3, 7, 8, 9]
    brokers.will("FetchRequest", fetched(batch(0, "a", "b"), batch(3, "c"), batch(7, "d", "e", "f")))
    assert values(wire, 1, 9, is_compacted=True) == ["b", "c", "d", "e"]


def test_a_batch_that_is_given_again_is_read_once(brokers: Brokers, wire: Wire) -> None:
    """A2: alone and among others, as a whole and in part."""
    both = batch(0, "a", "b"), batch(2, "c", "d")
    for answers in ([(*both, *both)], [both[:1], both], [both[:1], (*both, batch(3, "d", "e"))]):
        brokers.will("FetchRequest", *(fetched(*it) for it in answers))
        assert values(wire, 0, 4) == ["a", "b", "c", "d"]


def test_a_batch_that_compaction_has_emptied_gives_no_rows(brokers: Brokers, wire: Wire) -> None:
    """A user's function is not called with nothing."""
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(thinned(1, 4)), fetched(thinned(5, 9, {7: "b"})))
    ((_, a), (_, b)) = RangeReader(wire).read([Range(T0, 0, 10)])
    assert [it.value.to_pylist() for it in (a, b)] == [[b"a"], [b"b"]]
    brokers.will("FetchRequest", fetched(thinned(0, 4)))
    assert list(RangeReader(wire).read([Range(T0, 0, 5)])) == []


def test_a_batch_of_no_records_that_has_bytes_of_some_is_refused(brokers: Brokers, wire: Wire) -> None:
    """E9: with a checksum that fits."""
    brokers.will("FetchRequest", fetched(kept._sealed(b"a record", 0, 4, kept.Writer(), 0, 0)))
    with pytest.raises(Malformed, match="t-0 at 0: a batch of no records"):
        values(wire, 0, 5)


def test_large_batches_are_looked_at_one_by_one(brokers: Brokers, wire: Wire) -> None:
    large = "x" * (TOGETHER_BYTES // 2 + 1)
    brokers.will("FetchRequest", fetched(batch(0, large), batch(1, "a"), batch(2, large), batch(3, "b")))
    found = [len(records) for _, records in RangeReader(wire).read([Range(T0, 0, 4)])]
    assert found == [2, 2]


def test_a_batch_that_is_cut_off_comes_with_the_next_answer(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), batch(1, "b")[:-1]), fetched(batch(1, "b"), batch(2, "c")[:20]))
    assert values(wire, 0, 2) == ["a", "b"]
    assert [it.topics[0].partitions[0].fetch_offset for it in brokers.requests("FetchRequest")] == [0, 1]


def test_an_empty_answer_is_never_the_end_of_a_range(brokers: Brokers, wire: Wire) -> None:
    """A1: a broker answers so while a tiered topic's remote storage takes its time, however far its partition goes."""
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(bound=5), throttled(), fetched(batch(1, "b", "c")))
    assert values(wire, 0, 3) == ["a", "b", "c"]
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(bound=5))
    with pytest.raises(PartitionSilent, match="t-0: nothing has come from offset 1 on, of what lies before 5"):
        values(wire, 0, 5)
    assert brokers.waited < 3 * PATIENCE_S


def test_what_was_cleaned_away_before_the_end_is_told_by_what_is_behind_it(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(thinned(5, 9, {7: "b"})))
    assert values(wire, 0, 5, is_compacted=True) == ["a"]
    brokers.will("FetchRequest", fetched(batch(0, "a")), fetched(thinned(5, 9, {7: "b"})))
    with pytest.raises(OffsetsMissing, match="t-0: the records from 1 to 4 are missing"):
        values(wire, 0, 5)


def test_what_kafka_has_deleted_is_an_error(brokers: Brokers, wire: Wire) -> None:
    """A1: nothing is passed over that was there when the epoch was planned."""
    brokers.will("FetchRequest", fetched(error_code=1, bound=9))
    with pytest.raises(BrokerRefused, match="OFFSET_OUT_OF_RANGE"):
        values(wire, 0, 5)


def test_records_before_the_range_alone_are_none(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(batch(0, "a"), batch(5, "b")))
    assert values(wire, 1, 3, is_compacted=True) == []
    brokers.will("FetchRequest", fetched(thinned(0, 4, {0: "a"})))
    assert values(wire, 1, 5) == []


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


def test_no_more_ranges_are_asked_for_ahead_than_a_connection_takes(brokers: Brokers, wire: Wire) -> None:
    """One that has sixteen unanswered requests refuses the next, and the sink sends through it too."""
    answers = [fetched(batch(0, "a", "b"), partition=at) for at in range(20)]
    brokers.will("FetchRequest", *answers)
    seen = RangeReader(wire).read(Range(TopicPartition("t", at), 0, 2) for at in range(20))
    found = []
    for number, (wanted, records) in enumerate(seen):
        found.append((wanted.place.partition, records.value.to_pylist()))
        assert len(brokers.requests("FetchRequest")) == min(number + AHEAD, 20)
    assert found == [(at, [b"a", b"b"]) for at in range(20)]


def test_a_throttle_in_the_answer_about_one_range_is_heard_by_all(brokers: Brokers, wire: Wire) -> None:
    """A1: nobody asks meanwhile: the connection would take no requests, and that is no silence."""
    brokers.will(
        "FetchRequest",
        fetched(batch(0, "a")),
        throttled(20_000),
        fetched(batch(1, "b")),
        fetched(batch(0, "c"), partition=1),
    )
    seen = RangeReader(wire, brokers.clock).read([Range(T0, 0, 2), Range(TopicPartition("t", 1), 0, 1)])
    found = [(value, brokers.waited) for _, records in seen for value in records.value.to_pylist()]
    assert [value for value, _ in found] == [b"a", b"b", b"c"]
    assert found[0][1] < 20 <= found[1][1]


def test_a_leader_is_asked_for_about_as_much_as_a_range_needs(brokers: Brokers, wire: Wire) -> None:
    """A short range of a long backlog."""
    reader = RangeReader(wire)
    brokers.will("FetchRequest", fetched(batch(0, *["x" * 100] * 2000)))
    assert len(list(reader.read([Range(T0, 0, 2000)]))) == 1
    list(reader.read([Range(T0, 0, 1500)]))
    list(reader.read([Range(T0, 0, 1)]))
    next(reader.read([Range(T0, 0, 10**9)]))
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


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_an_older_format_are_refused(brokers: Brokers, wire: Wire, magic: int) -> None:
    """Topics that were written before Kafka 0.11: Spark's client reads those."""
    brokers.will("FetchRequest", fetched(old(magic, 0, *"abc")))
    with pytest.raises(BrokerRefused, match=f"t-0 at 0: records of format v{magic}"):
        values(wire, 0, 3)
