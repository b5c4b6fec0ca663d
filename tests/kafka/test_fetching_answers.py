"""The batches of a partition by their headers: in pieces, cut off, from leaders that move, and to their end."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.batch import CONTROL, HEADER, LENGTH_COUNTS_FROM, BatchHeader, stamp
from onceward.kafka.fetching import batches, headers
from onceward.kafka.wire import Wire
from support.brokers import LOST, Brokers, said
from support.leaders import payload

T0 = TopicPartition("t", 0)


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    partition = SimpleNamespace(partition_index=0, leader_id=3)
    brokers.will(
        "MetadataRequest", SimpleNamespace(topics=[said(name="t", partitions=[partition], topic_id=UUID(int=1))])
    )
    return brokers


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def batch(base_offset: int, count: int = 1, *, epoch: int = 0) -> bytes:
    """As a broker keeps it."""
    data = stamp(payload(*[b"x"] * count), producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)
    return BatchHeader.of(data)._replace(base_offset=base_offset).packed() + data[HEADER.size :]


def ended(base_offset: int, *, commits: bool = True, epoch: int = 0) -> bytes:
    """The broker's own: one record, whose key has a version and a type."""
    header = BatchHeader.of(batch(base_offset, epoch=epoch))
    record = bytes([0x1C, 0, 0, 0, 8]) + bytes([0, 0, 0, commits]) + bytes([12, 0, 0, 0, 0, 0, 0, 0])
    length = HEADER.size - LENGTH_COUNTS_FROM + len(record)
    return header._replace(length=length, attributes=header.attributes | CONTROL).packed() + record


def fetched(*kept: bytes, error_code: int = 0, throttle_time_ms: int = 0) -> SimpleNamespace:
    part = said(error_code, records=b"".join(kept) if kept else None)
    return SimpleNamespace(throttle_time_ms=throttle_time_ms, responses=[SimpleNamespace(partitions=[part])])


def found(wire: Wire, start: int, end: int) -> list[tuple[int, int]]:
    return [(it.base_offset, it.last_offset) for it in headers(wire, T0, start, end)]


def asked(brokers: Brokers) -> list[int]:
    return [it.topics[0].partitions[0].fetch_offset for it in brokers.requests("FetchRequest")]


def test_batches_are_read_to_the_end_in_as_many_fetches_as_it_takes(brokers: Brokers, wire: Wire) -> None:
    """D5: committed or not, and the end markers."""
    brokers.will("FetchRequest", fetched(batch(0, 4), ended(4)), fetched(batch(5, 2)))
    assert found(wire, 0, 7) == [(0, 3), (4, 4), (5, 6)]
    assert asked(brokers) == [0, 5]
    assert {it.isolation_level for it in brokers.requests("FetchRequest")} == {0}


def test_whose_a_batch_is_stands_in_its_header(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    brokers.will("FetchRequest", fetched(batch(0, 2, epoch=5), ended(2, epoch=5)))
    read = list(headers(wire, T0, 0, 3))
    assert [(it.producer_id, it.producer_epoch, it.is_control) for it in read] == [(7, 5, False), (7, 5, True)]


def test_the_end_of_a_transaction_says_how_it_ended(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    records = [batch(0, 2), ended(2, commits=False), batch(3, 2), ended(5, commits=True)]
    brokers.will("FetchRequest", fetched(*records))
    assert [aborts for _, aborts in batches(wire, T0, 0, 6)] == [False, True, False, False]


def test_nothing_is_asked_of_an_empty_range(brokers: Brokers, wire: Wire) -> None:
    assert found(wire, 5, 5) == []
    assert asked(brokers) == []


def test_what_lies_behind_the_end_is_left_out(brokers: Brokers, wire: Wire) -> None:
    """D5: a batch that only reaches over it is not."""
    brokers.will("FetchRequest", fetched(batch(0, 4), batch(4, 4), batch(8)))
    assert found(wire, 0, 6) == [(0, 3), (4, 7)]
    assert found(wire, 0, 4) == [(0, 3)]


def test_a_fetch_begins_with_the_batch_that_holds_the_offset(brokers: Brokers, wire: Wire) -> None:
    """D5: and a broker may begin even earlier."""
    brokers.will("FetchRequest", fetched(batch(0, 4), batch(4, 4)))
    assert found(wire, 6, 8) == [(4, 7)]


def test_a_batch_that_is_cut_off_is_fetched_again(brokers: Brokers, wire: Wire) -> None:
    """D5: where its header is whole that is enough, and else it comes with the next fetch."""
    brokers.will("FetchRequest", fetched(batch(0, 4), batch(4, 4)[:30]), fetched(batch(4, 4)[:61]))
    assert found(wire, 0, 8) == [(0, 3), (4, 7)]
    assert asked(brokers) == [0, 4]


def test_how_a_transaction_ended_is_not_guessed_from_a_batch_that_is_cut_off(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    end = ended(2, commits=False)
    brokers.will("FetchRequest", fetched(batch(0, 2), end[:66]), fetched(end))
    assert [aborts for _, aborts in batches(wire, T0, 0, 3)] == [False, True]
    assert asked(brokers) == [0, 2]


def test_a_partition_that_gives_nothing_more_ends_it(brokers: Brokers, wire: Wire) -> None:
    """D5: what was compacted or cleared away does not come any more."""
    brokers.will("FetchRequest", fetched(batch(0, 4)), fetched())
    assert found(wire, 0, 9) == [(0, 3)]


def test_a_fetch_that_leads_no_further_ends_it(brokers: Brokers, wire: Wire) -> None:
    """D5: rather than asking for ever."""
    brokers.will("FetchRequest", fetched(batch(0, 4)))
    assert found(wire, 0, 9) == [(0, 3)]
    assert asked(brokers) == [0, 4]


@pytest.mark.parametrize("code", [6, 74, 78, 3])
def test_a_leader_that_has_moved_is_looked_up(brokers: Brokers, wire: Wire, code: int) -> None:
    """D5."""
    brokers.will("FetchRequest", fetched(error_code=code), LOST, fetched(batch(0, 4)))
    assert found(wire, 0, 4) == [(0, 3)]
    assert len(asked(brokers)) == 3


def test_a_partition_without_a_leader_is_waited_for(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    led = [SimpleNamespace(partition_index=0, leader_id=leader) for leader in (-1, 3)]
    brokers.will("MetadataRequest", *(SimpleNamespace(topics=[said(name="t", partitions=[it])]) for it in led))
    brokers.will("FetchRequest", fetched(batch(0, 4)))
    assert found(wire, 0, 4) == [(0, 3)]


def test_a_partition_that_the_topic_no_longer_has_is_refused(brokers: Brokers, wire: Wire) -> None:
    """D5: deleted, or made again with fewer partitions, since somebody looked."""
    with pytest.raises(BrokerRefused, match="t-9 is not there"):
        list(headers(wire, TopicPartition("t", 9), 0, 1))


@pytest.mark.parametrize(("code", "name"), [(1, "OFFSET_OUT_OF_RANGE"), (29, "TOPIC_AUTHORIZATION_FAILED")])
def test_a_refusal_names_the_partition_and_the_offset(brokers: Brokers, wire: Wire, code: int, name: str) -> None:
    """D5: 1 is OFFSET_OUT_OF_RANGE, what was there is gone."""
    brokers.will("FetchRequest", fetched(error_code=code))
    with pytest.raises(BrokerRefused, match=f"t-0 at 2: {name}"):
        list(headers(wire, T0, 2, 9))


def test_a_broker_that_did_not_look_because_of_a_quota_is_asked_again(brokers: Brokers, wire: Wire) -> None:
    """E9: its empty answer is not the end of the partition."""
    brokers.will("FetchRequest", fetched(throttle_time_ms=90), fetched(batch(0, 4)))
    assert found(wire, 0, 4) == [(0, 3)]
