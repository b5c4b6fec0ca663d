"""Where the very first epoch begins, as far as it can be told without a broker."""

import json
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from onceward.errors import ConfigurationError, TopicUnusable
from onceward.kafka.copies import Copy, building
from onceward.kafka.offsets import LATEST
from onceward.kafka.patterns import whole
from onceward.kafka.wire import Cluster
from onceward.pipeline import first_positions
from onceward.pipeline.first_positions import spark_offsets
from support.brokers import Brokers, said

NOWHERE = Cluster("localhost:1")
TOPICS = ["a", "b"]


def told(starting: Any, topics: list[str] = TOPICS, pattern: str = "") -> Any:
    found = spark_offsets(starting, topics, pattern, NOWHERE)
    return json.loads(found) if found.startswith("{") else found


def test_offsets_may_be_written_in_three_ways() -> None:
    """I1."""
    wanted = {"a": {"0": 17, "1": -2}, "b": {"0": -1}}
    assert told({"b": {0: -1}, "a": {1: -2, 0: 17}}) == wanted
    assert told({("a", 0): 17, ("a", 1): -2, ("b", 0): -1}) == wanted
    assert told(json.dumps(wanted)) == wanted
    assert told({"x-1": {0: 5}}, [], whole("x-.")) == {"x-1": {"0": 5}}
    assert (told("earliest"), told("latest")) == ("earliest", "latest")


def test_in_a_copy_the_topics_are_called_otherwise() -> None:
    """D5: and a moment is not looked up, since a copy begins with its savepoint."""
    with building(Copy("lab", frozenset({"a"}))):
        assert told({"a": {0: 1}, "b": {0: 2}}) == {"lab-a": {"0": 1}, "b": {"0": 2}}
        assert told(datetime(2026, 3, 1, tzinfo=UTC)) == "earliest"


@pytest.mark.parametrize(
    ("starting", "says"),
    [
        ({"a": {0: 1}, "b": {0: 1}, "c": {0: 1}}, r"topic 'c', which topics= \(a, b\) does not have"),
        ({"a": {0: 1}}, "says nothing of topic 'b'; name all partitions of all topics"),
        ({"a": {1: 1}, "b": {0: 1}}, "says nothing of partition 0 of topic 'a'"),
        ({"a": 17, "b": 3}, r"has 'a': 17; offsets are \{'topic'"),
        ({"a": {0: -3}, "b": {0: 1}}, "offset -3 for partition 0 of topic 'a'; an offset is a number from 0 on"),
        ({"a": {0: 1.5}, "b": {0: 1}}, "offset 1.5"),
        ({"a": {"x": 1}, "b": {0: 1}}, "partition 'x' of topic 'a'; partitions are numbers"),
        ('{"a": {"0": ', "is not JSON"),
        ("yesterday", "is not known; choose 'earliest', 'latest', a moment"),
        (17, "is not known; choose"),
        ("2026-03-01T12:00:00", r"has no time zone.*say '2026-03-01T12:00:00\+00:00'"),
        (datetime(2026, 3, 1), "has no time zone"),  # noqa: DTZ001 - what is refused
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(starting: Any, says: str) -> None:
    """I3: with what to say instead."""
    with pytest.raises(ConfigurationError, match=says):
        told(starting)


def test_offsets_of_a_topic_that_the_pattern_does_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"names topic 'y', which pattern .* does not fit"):
        told({"y": {0: 5}}, [], whole("x-."))


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_MS = 1_772_366_400_000


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    """Who has topic `a`, of two partitions, and topic `gone` no more."""
    made = Brokers()
    wire = made.wire(monkeypatch)
    monkeypatch.setattr(first_positions, "Wire", lambda _: wire)
    parts = [SimpleNamespace(partition_index=index, leader_id=1, replica_nodes=[1]) for index in (0, 1)]
    made.will(
        "MetadataRequest",
        SimpleNamespace(
            topics=[said(name="a", partitions=parts, is_internal=False), said(3, name="gone", partitions=[])]
        ),
    )
    return made


def stand(brokers: Brokers, *told: int) -> None:
    """The answers: where the partitions end, then which offset each has for the moment."""
    answers = [SimpleNamespace(topics=[SimpleNamespace(partitions=[said(0, offset=offset)])]) for offset in told]
    brokers.will("ListOffsetsRequest", *answers)


def asked(brokers: Brokers) -> list[int]:
    return [it.topics[0].partitions[0].timestamp for it in brokers.requests("ListOffsetsRequest")]


@pytest.mark.parametrize(
    ("ends", "found", "begins"),
    [
        ((9, 9), (4, 8), {"0": 4, "1": 8}),
        ((9, 9), (0, 9), {"0": 0, "1": 9}),  # from the very first record on
        ((1, 1), (0, 0), {"0": 0, "1": 0}),
        ((9, 7), (-1, -1), {"0": 9, "1": 7}),  # none is young enough: what comes from now on
        ((0, 0), (-1, -1), {"0": 0, "1": 0}),  # nothing was ever written
    ],
)
def test_a_moment_is_the_first_record_that_is_young_enough(
    brokers: Brokers, ends: tuple[int, int], found: tuple[int, int], begins: dict[str, int]
) -> None:
    """I1: the ends are asked for first, so that nothing that comes meanwhile is passed over."""
    stand(brokers, *ends, *found)
    assert told(NOON, ["a"]) == {"a": begins}
    assert asked(brokers) == [LATEST, LATEST, NOON_MS, NOON_MS]


@pytest.mark.parametrize(
    ("moment", "since"),
    [
        (NOON - timedelta(milliseconds=1), NOON_MS - 1),
        (NOON + timedelta(microseconds=999), NOON_MS),  # a record has no finer time: one of this millisecond is read
        (NOON + timedelta(milliseconds=1), NOON_MS + 1),
        (NOON.astimezone(timezone(timedelta(hours=-7))), NOON_MS),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        # Numbers below 0 are words of Kafka's, -1 for the end: all would be passed over.
        (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), 0),
        (datetime(1, 1, 1, tzinfo=UTC), 0),
    ],
)
def test_a_moment_is_asked_for_in_milliseconds(brokers: Brokers, moment: datetime, since: int) -> None:
    stand(brokers, 9, 9, 4, 8)
    assert told(moment, ["a"]) == {"a": {"0": 4, "1": 8}}
    assert asked(brokers)[2:] == [since, since]


def test_a_topic_that_is_not_there_has_no_moment(brokers: Brokers) -> None:
    stand(brokers, 9, 9, 4, 8)
    with pytest.raises(TopicUnusable, match="'gone' does not exist"):
        told(NOON, ["a", "gone"])


def test_where_no_topic_fits_yet_a_later_one_is_read_from_its_beginning(brokers: Brokers) -> None:
    assert told(NOON, [], whole("x-.")) == "earliest"
    assert asked(brokers) == []
