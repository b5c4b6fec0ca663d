"""The batches of a partition by their headers: in pieces, cut off, compacted, and to the very end."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.cursor import OffsetsMissing
from onceward.kafka.walking import batches, headers
from onceward.kafka.wire import Wire
from support.brokers import Brokers, said
from support.kept import batch, ended, fetched, old, thinned, with_policy

T0 = TopicPartition("t", 0)


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    partition = SimpleNamespace(partition_index=0, leader_id=3)
    brokers.will(
        "MetadataRequest", SimpleNamespace(topics=[said(name="t", partitions=[partition], topic_id=UUID(int=1))])
    )
    brokers.will("DescribeConfigsRequest", with_policy("delete"))
    return brokers


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def found(brokers: Brokers, wire: Wire, start: int, end: int) -> list[tuple[int, int]]:
    return [(it.base_offset, it.last_offset) for it, _ in batches(wire, T0, start, end, brokers.clock)]


def asked(brokers: Brokers) -> list[int]:
    return [it.topics[0].partitions[0].fetch_offset for it in brokers.requests("FetchRequest")]


def test_batches_are_read_to_the_end_in_as_many_fetches_as_it_takes(brokers: Brokers, wire: Wire) -> None:
    """D5: committed or not, and the end markers."""
    brokers.will("FetchRequest", fetched(batch(0, *"abcd"), ended(4)), fetched(batch(5, *"ef")))
    assert found(brokers, wire, 0, 7) == [(0, 3), (4, 4), (5, 6)]
    assert asked(brokers) == [0, 5]
    assert {it.isolation_level for it in brokers.requests("FetchRequest")} == {0}


def test_whose_a_batch_is_stands_in_its_header(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    brokers.will("FetchRequest", fetched(batch(0, "a", "b", epoch=5), ended(2)))
    read = list(headers(wire, T0, 0, 3))
    assert [(it.producer_id, it.producer_epoch, it.is_control) for it in read] == [(7, 5, False), (7, 0, True)]


def test_the_end_of_a_transaction_says_how_it_ended(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    records = [batch(0, "a", "b"), ended(2, commits=False), batch(3, "c", "d"), ended(5)]
    brokers.will("FetchRequest", fetched(*records))
    assert [aborts for _, aborts in batches(wire, T0, 0, 6)] == [False, True, False, False]


def test_nothing_is_asked_of_an_empty_range(brokers: Brokers, wire: Wire) -> None:
    assert found(brokers, wire, 5, 5) == []
    assert brokers.asked == []


def test_what_lies_behind_the_end_is_left_out(brokers: Brokers, wire: Wire) -> None:
    """D5: a batch that only reaches over it is not."""
    brokers.will("FetchRequest", fetched(batch(0, *"abcd"), batch(4, *"efgh"), batch(8, "i")))
    assert found(brokers, wire, 0, 6) == [(0, 3), (4, 7)]
    assert found(brokers, wire, 0, 4) == [(0, 3)]


def test_a_fetch_begins_with_the_batch_that_holds_the_offset(brokers: Brokers, wire: Wire) -> None:
    """D5: and a broker may begin even earlier."""
    brokers.will("FetchRequest", fetched(batch(0, *"abcd"), batch(4, *"efgh")))
    assert found(brokers, wire, 6, 8) == [(4, 7)]


def test_a_batch_that_is_cut_off_is_fetched_again(brokers: Brokers, wire: Wire) -> None:
    """D5: wherever it is cut."""
    brokers.will(
        "FetchRequest",
        fetched(batch(0, *"abcd"), batch(4, *"efgh")[:30]),
        fetched(batch(4, *"efgh")[:70]),
        fetched(batch(4, *"efgh")),
    )
    assert found(brokers, wire, 0, 8) == [(0, 3), (4, 7)]
    assert asked(brokers) == [0, 4, 4]


def test_a_partition_that_gives_nothing_more_is_not_at_its_end(brokers: Brokers, wire: Wire) -> None:
    """D5: what is there and does not come may be of anybody; a slow tier answers just so, and is waited for."""
    brokers.will("FetchRequest", fetched(batch(0, *"abcd")), fetched(), fetched(), fetched(batch(4, *"efghi")))
    assert found(brokers, wire, 0, 9) == [(0, 3), (4, 8)]
    for silent in (fetched(), fetched(batch(0, *"abcd"))):
        brokers.will("FetchRequest", fetched(batch(0, *"abcd")), silent)
        with pytest.raises(PartitionSilent, match="t-0: nothing has come from offset 4 on, of what lies before 9"):
            found(brokers, wire, 0, 9)


def test_offsets_that_compaction_has_taken_away_are_not_waited_for(brokers: Brokers, wire: Wire) -> None:
    """D5: the next batch tells that there is nothing before it, even if it lies behind the end."""
    log = fetched(thinned(2, 3, {3: "b"}), thinned(6, 7), batch(9, "c"))
    brokers.will("DescribeConfigsRequest", with_policy("compact,delete"))
    brokers.will("FetchRequest", log)
    assert found(brokers, wire, 0, 8) == [(2, 3), (6, 7)]
    brokers.will("FetchRequest", fetched(batch(9, "c")))
    assert found(brokers, wire, 4, 8) == []
    assert [aborts for _, aborts in batches(wire, T0, 4, 10)] == [False]
    brokers.will("DescribeConfigsRequest", with_policy("delete"))
    brokers.will("FetchRequest", log)
    with pytest.raises(OffsetsMissing, match="t-0: the records from 0 to 1 are missing"):
        found(brokers, wire, 0, 8)


def test_messages_of_an_older_format_have_no_producer(brokers: Brokers, wire: Wire) -> None:
    """D5: their bytes at the place of one are other things."""
    brokers.will("FetchRequest", fetched(old(1, 0, "a")))
    with pytest.raises(BrokerRefused, match=r"t-0 at 0: records of format v1, from before Kafka 0\.11"):
        found(brokers, wire, 0, 1)
