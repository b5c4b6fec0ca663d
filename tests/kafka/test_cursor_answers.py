"""What moves a cursor, and what does not: empty answers, throttled ones, errors, leaders that move, batches again."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kafka.future import Future

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.cursor import MOST_THROTTLED_S, Cursor, Leaders, OffsetsMissing
from onceward.kafka.decoding import Malformed
from onceward.kafka.wire import Wire
from support.brokers import LOST, Brokers, said
from support.kept import batch, ended, failed, fetched, old, thinned, throttled

T0 = TopicPartition("t", 0)
PATIENCE_S = 5.0


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    brokers.will("MetadataRequest", led_by(3))
    return brokers


def led_by(*leaders: int) -> SimpleNamespace:
    partitions = [SimpleNamespace(partition_index=at, leader_id=leader) for at, leader in enumerate(leaders)]
    return SimpleNamespace(topics=[said(name="t", partitions=partitions, topic_id=UUID(int=1))])


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def cursor(brokers: Brokers, wire: Wire, start: int, end: int | None, **options: Any) -> Cursor:
    return Cursor(Leaders(wire, brokers.clock), T0, start, end, patience_s=PATIENCE_S, **options)


def found(brokers: Brokers, wire: Wire, start: int, end: int, **options: Any) -> list[tuple[int, int, int]]:
    """First and last offset of each batch, and from where on it was new."""
    reader, new = cursor(brokers, wire, start, end, **options), []
    while not reader.is_done:
        new += reader.come()
    return [(it.entry.first, it.entry.last, it.since) for it in new]


ALL = [(0, 3, 0), (4, 7, 4)]
FIRST, SECOND = batch(0, *"abcd"), batch(4, *"efgh")
NOT_NOW = {
    "empty": fetched(bound=8),
    "empty, from a leader that is far ahead": fetched(bound=99),
    "empty, from a leader that knows less": fetched(bound=4),
    "throttled": throttled(),
    "throttled, with the partition in it": fetched(throttle_ms=100),
    "lost": LOST,
    "the whole request, later": failed(7),
    "leader not available": fetched(error_code=5),
    "not the leader": fetched(error_code=6),
    "storage error": fetched(error_code=56),
    "fenced leader epoch": fetched(error_code=74),
    "unknown leader epoch": fetched(error_code=75),
    "offset not available": fetched(error_code=78),
    "another partition": fetched(SECOND, partition=1),
    "no whole batch": fetched(SECOND[:-1]),
    "a batch that is known": fetched(FIRST),
}


@pytest.mark.parametrize("answer", NOT_NOW.values(), ids=NOT_NOW)
def test_only_a_batch_that_is_new_moves_it(brokers: Brokers, wire: Wire, answer: Any) -> None:
    """A1: whatever else is answered is asked again."""
    brokers.will("FetchRequest", fetched(FIRST), answer, answer, fetched(SECOND))
    assert found(brokers, wire, 0, 8) == ALL


@pytest.mark.parametrize("answer", NOT_NOW.values(), ids=NOT_NOW)
def test_and_if_none_comes_that_is_an_error_and_not_the_end(brokers: Brokers, wire: Wire, answer: Any) -> None:
    """A1: a slow tier says nothing for as long as it takes, in exactly the words of a partition that is empty."""
    brokers.will("FetchRequest", fetched(FIRST), answer)
    with pytest.raises(PartitionSilent, match="t-0: nothing has come from offset 4 on, of what lies before 8") as told:
        found(brokers, wire, 0, 8)
    assert "remote.fetch.max.wait.ms" in str(told.value)
    most_s = 2 * PATIENCE_S + (MOST_THROTTLED_S if getattr(answer, "throttle_time_ms", 0) else 0)
    assert PATIENCE_S < brokers.waited < most_s


def test_time_for_which_a_broker_asks_is_no_silence(brokers: Brokers, wire: Wire) -> None:
    """A1: and meanwhile nobody asks."""
    brokers.will("FetchRequest", fetched(FIRST), throttled(20_000), throttled(10_000), fetched(SECOND))
    assert found(brokers, wire, 0, 8) == ALL
    assert 30 <= brokers.waited < 31
    assert len(brokers.requests("FetchRequest")) == 4


def test_but_nobody_is_asked_to_wait_for_ever(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", throttled(9_000))
    with pytest.raises(PartitionSilent, match="60 s of it for a quota"):
        found(brokers, wire, 0, 8)
    assert brokers.waited < MOST_THROTTLED_S + 2 * PATIENCE_S


def test_answers_that_come_with_a_throttle_are_taken(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(FIRST, throttle_ms=500), fetched(SECOND))
    assert found(brokers, wire, 0, 8) == ALL
    assert brokers.waited >= 0.5


@pytest.mark.parametrize(("code", "name"), [(1, "OFFSET_OUT_OF_RANGE"), (29, "TOPIC_AUTHORIZATION_FAILED")])
def test_a_refusal_names_the_partition_and_the_offset(brokers: Brokers, wire: Wire, code: int, name: str) -> None:
    """A1, D5: 1 is OFFSET_OUT_OF_RANGE, what was there is gone."""
    for answer in (fetched(error_code=code), failed(code)):
        brokers.will("FetchRequest", answer)
        with pytest.raises(BrokerRefused, match=f"t-0 at 2: {name}"):
            found(brokers, wire, 2, 9)


@pytest.mark.parametrize("leaders", [(-1,), (3,)])
def test_a_leader_that_has_moved_is_looked_up(brokers: Brokers, wire: Wire, leaders: tuple[int, ...]) -> None:
    """C8."""
    brokers.will("MetadataRequest", led_by(*leaders), led_by(5))
    brokers.will("FetchRequest", *([fetched(error_code=6)] if leaders == (3,) else []), fetched(FIRST))
    assert found(brokers, wire, 0, 4) == ALL[:1]
    assert brokers.asked[-1][0] == 5


def test_a_partition_that_the_topic_no_longer_has_is_refused(brokers: Brokers, wire: Wire) -> None:
    """D5: deleted, or made again with fewer partitions, since somebody looked."""
    reader = Cursor(Leaders(wire, brokers.clock), TopicPartition("t", 9), 0, 1)
    with pytest.raises(BrokerRefused, match="t-9 is not there"):
        reader.come()


def test_an_answer_that_takes_its_time_is_waited_for_and_not_for_ever(
    brokers: Brokers, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Future()
    monkeypatch.setattr(Wire, "send", lambda *_: asked)
    with pytest.raises(PartitionSilent):
        found(brokers, wire, 0, 4)
    monkeypatch.setattr(Wire, "poll", lambda *_: asked.success(fetched(FIRST)))
    assert found(brokers, wire, 0, 4) == ALL[:1]


def test_a_batch_that_is_given_again_gives_nothing_again(brokers: Brokers, wire: Wire) -> None:
    """A2: nor does what lies before the offset that was asked for."""
    brokers.will("FetchRequest", fetched(FIRST, FIRST, SECOND), fetched(FIRST, SECOND))
    assert found(brokers, wire, 0, 8) == ALL
    assert found(brokers, wire, 2, 8) == [(0, 3, 2), (4, 7, 4)]
    brokers.will("FetchRequest", fetched(FIRST, batch(2, *"cdef")))
    assert found(brokers, wire, 0, 6) == [(0, 3, 0), (2, 5, 4)]


def test_the_end_of_an_aborted_transaction_counts_though_it_is_old_news(brokers: Brokers, wire: Wire) -> None:
    """A6: the same producer's next transaction was committed, and is not hidden."""
    brokers.will(
        "FetchRequest", fetched(batch(0, "gone"), ended(1, commits=False), batch(2, "b"), ended(3), aborted=((0, 7),))
    )
    hidden = {it.entry.first: it.is_hidden for it in cursor(brokers, wire, 2, 4).come()}
    assert hidden == {2: False, 3: True}


def test_what_is_missing_between_batches_is_an_error_unless_the_topic_is_compacted(
    brokers: Brokers, wire: Wire
) -> None:
    """A1."""
    brokers.will("FetchRequest", fetched(FIRST, batch(6, "g", "h")))
    with pytest.raises(OffsetsMissing, match="t-0: the records from 4 to 5 are missing"):
        found(brokers, wire, 0, 8)
    assert found(brokers, wire, 0, 8, is_compacted=True) == [(0, 3, 0), (6, 7, 4)]
    brokers.will("FetchRequest", fetched(batch(6, "g", "h")))
    with pytest.raises(OffsetsMissing, match="t-0: the records from 5 to 5 are missing"):
        found(brokers, wire, 5, 8)


def test_what_lies_behind_the_end_is_nobodys_business(brokers: Brokers, wire: Wire) -> None:
    """Not even if it is missing, or of a format that is not known."""
    for behind in (batch(9, "x"), old(1, 4, "y"), bytes([*SECOND[:16], 9, *SECOND[17:]])):
        brokers.will("FetchRequest", fetched(FIRST, behind))
        assert found(brokers, wire, 0, 4) == ALL[:1]


def test_a_batch_that_compaction_has_emptied_moves_it_on(brokers: Brokers, wire: Wire) -> None:
    brokers.will("FetchRequest", fetched(FIRST), fetched(thinned(4, 7)))
    assert found(brokers, wire, 0, 8) == ALL


def test_the_format_is_looked_at_before_anything_else_is_read(brokers: Brokers, wire: Wire) -> None:
    """E9: the fields of v2, read from older messages, are other bytes."""
    brokers.will("FetchRequest", fetched(old(0, 0, "a"), old(1, 1, "b", "c", codec=1), batch(3, "d")))
    new = cursor(brokers, wire, 0, 4).come()
    assert [(it.entry.first, it.entry.last, it.is_hidden) for it in new] == [
        (0, 0, False),
        (1, 2, False),
        (3, 3, False),
    ]


DAMAGED = {
    "another format": (bytes([*FIRST[:16], 3, *FIRST[17:]]), "t-0 at 0: a record batch of format v3"),
    "a negative length": (
        FIRST[:8] + b"\xff\xff\xff\xf4" + FIRST[12:],
        "t-0: a record batch of format v2 in -12 bytes",
    ),
    "an old message's checksum": (old(1, 0, "a")[:-1] + b"x", "t-0 at 0: the message does not fit its checksum"),
}


@pytest.mark.parametrize(("data", "says"), DAMAGED.values(), ids=DAMAGED)
def test_bytes_that_make_no_sense_are_refused(brokers: Brokers, wire: Wire, data: bytes, says: str) -> None:
    """E9."""
    brokers.will("FetchRequest", fetched(data))
    with pytest.raises(BrokerRefused, match=says):
        found(brokers, wire, 0, 4)


def test_an_old_message_whose_content_is_damaged_is_refused(
    brokers: Brokers, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E9: with a checksum that fits."""
    monkeypatch.setattr("kafka.record.legacy_records.LegacyRecordBatch.validate_crc", lambda _: True)
    for data in (old(1, 0, "a", codec=1)[:-9] + b"x" * 9, old(0, 0, "a")[:18] + b"\x7f" * 10):
        brokers.will("FetchRequest", fetched(data))
        with pytest.raises(Malformed, match="t-0 at 0: a message of format v"):
            found(brokers, wire, 0, 1)
