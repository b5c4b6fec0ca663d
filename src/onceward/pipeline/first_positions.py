"""Where a pipeline's very first epoch begins: `starting=` of `ow.read_kafka`, in Spark's words.

A moment is looked up here and not by Spark, which asks for a partition's end after it has asked for the moment: what
arrives in between, in a partition without a record that young, would be skipped.
"""

import json
from collections.abc import Collection, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from onceward.errors import ConfigurationError, TopicUnusable
from onceward.kafka import copies
from onceward.kafka.copies import topic as in_copy
from onceward.kafka.listing import topic_names
from onceward.kafka.offsets import LATEST, offsets
from onceward.kafka.patterns import matches, said
from onceward.kafka.wire import Cluster, Wire

Offsets: TypeAlias = Mapping[str, Mapping[int, int]] | Mapping[tuple[str, int], int]
Starting: TypeAlias = str | datetime | Offsets
WORDS: Final = ("earliest", "latest")
LOWEST: Final = -2  # Spark's numbers: -2 is a partition's beginning, -1 its end


def spark_offsets(starting: Starting, topics: Collection[str], pattern: str, cluster: Cluster) -> str:
    """Spark's option startingOffsets. `topics` as the file names them; or else a pattern, with both ends."""
    if isinstance(starting, Mapping):
        return _json(_by_topic(starting), topics, pattern)
    if isinstance(starting, str) and starting in WORDS:
        return starting
    if isinstance(starting, str) and starting.lstrip().startswith("{"):
        try:
            told = json.loads(starting)
        except ValueError as error:
            raise ConfigurationError(f"starting={starting!r} is not JSON: {error}") from error
        return _json(_by_topic(told), topics, pattern)
    return _at(_moment(starting), topics, pattern, cluster)


def _moment(starting: Any) -> datetime:
    found = starting
    if isinstance(starting, str):
        try:
            found = datetime.fromisoformat(starting)
        except ValueError:
            found = None
    if not isinstance(found, datetime):
        raise ConfigurationError(
            f"starting={starting!r} is not known; choose 'earliest', 'latest', a moment ('2026-03-01T12:00:00+00:00', "
            "or a datetime with a zone), or offsets: {'topic': {0: 17, 1: 20}}"
        )
    if found.utcoffset() is None:
        raise ConfigurationError(
            f"starting={starting!r} has no time zone, so it may be any of many moments: say "
            f"'{found.isoformat()}+00:00', or datetime(..., tzinfo=UTC)"
        )
    return found


def _at(moment: datetime, topics: Collection[str], pattern: str, cluster: Cluster) -> str:
    """The first record of each partition that is not older; where there is none, where the partition ends now."""
    if copies.current() is not None:
        return "earliest"  # a copy begins with its savepoint, and has no topics yet
    since = max(0, (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))
    with closing(Wire(cluster)) as wire:
        names = list(topics)
        if pattern:
            names = [name for name in topic_names(wire) if matches(pattern, name)]
        ends = offsets(wire, names, LATEST)  # before the moment is looked for: what comes later is read
        found = offsets(wire, names, since)
    if missing := sorted(set(names) - {place.topic for place in ends}):
        raise TopicUnusable(
            f"source topic {missing[0]!r} does not exist at {cluster.bootstrap}, so where it stood at "
            f"{moment.isoformat()} cannot be told; make it first, or correct topics="
        )
    told: dict[str, dict[str, int]] = {}
    for place, end in sorted(ends.items()):
        at = found.get(place, LATEST)
        told.setdefault(place.topic, {})[str(place.partition)] = at if at >= 0 else end
    return json.dumps(told) if told else "earliest"  # a topic that joins later is read from its beginning


def _by_topic(starting: Any) -> dict[str, dict[int, int]]:
    """Both ways to write offsets, as one; whatever is no offset is refused."""
    found: dict[str, dict[int, int]] = {}
    for key, value in starting.items():
        if isinstance(key, tuple) and len(key) == 2:
            entries = {key: value}
        elif isinstance(key, str) and isinstance(value, Mapping):
            entries = {(key, partition): offset for partition, offset in value.items()}
        else:
            raise ConfigurationError(
                f"starting= has {key!r}: {value!r}; offsets are {{'topic': {{0: 17, 1: 20}}}} or {{('topic', 0): 17}}"
            )
        for (topic, partition), offset in entries.items():
            found.setdefault(topic, {})[_number(topic, partition)] = _offset(topic, partition, offset)
    return found


def _number(topic: str, partition: Any) -> int:
    if isinstance(partition, str) and partition.isdecimal():  # as in JSON
        return int(partition)
    if type(partition) is not int or partition < 0:
        raise ConfigurationError(f"starting= names partition {partition!r} of topic {topic!r}; partitions are numbers")
    return partition


def _offset(topic: str, partition: Any, offset: Any) -> int:
    if type(offset) is not int or offset < LOWEST:
        raise ConfigurationError(
            f"starting= has offset {offset!r} for partition {partition} of topic {topic!r}; an offset is a number from "
            "0 on, or -2 for the beginning, or -1 for the end"
        )
    return offset


def _json(told: dict[str, dict[int, int]], topics: Collection[str], pattern: str) -> str:
    strange = sorted(it for it in told if not (matches(pattern, in_copy(it)) if pattern else it in topics))
    if strange:
        read = f"pattern {said(pattern)!r} does not fit" if pattern else f"topics= ({', '.join(topics)}) does not have"
        raise ConfigurationError(f"starting= names topic {strange[0]!r}, which {read}")
    if silent := sorted(set(topics) - told.keys()):
        raise ConfigurationError(
            f"starting= says nothing of topic {silent[0]!r}; name all partitions of all topics (-2: from the "
            "beginning, -1: from the end)"
        )
    for topic, partitions in told.items():
        if gaps := sorted(set(range(max(partitions, default=0) + 1)) - partitions.keys()):
            raise ConfigurationError(silent_about(topic, gaps))
    ordered = {in_copy(topic): {str(it): told[topic][it] for it in sorted(told[topic])} for topic in sorted(told)}
    return json.dumps(ordered)


def silent_about(topic: str, partitions: Collection[int]) -> str:
    """What is wrong with offsets that leave partitions out."""
    which = ", ".join(map(str, sorted(partitions)))
    return (
        f"starting= says nothing of partition {which} of topic {topic!r}; name all partitions (-2: from the "
        "beginning, -1: from the end)"
    )
