"""Where the very first epoch begins, as far as it can be told without a broker."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from onceward.errors import ConfigurationError
from onceward.kafka.copies import Copy, building
from onceward.kafka.patterns import whole
from onceward.kafka.wire import Cluster
from onceward.pipeline.first_positions import spark_offsets

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
