"""Topics as a person looks at them: which there are, how each was made, where its partitions are, how far they go."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from onceward.epoch.outcome import TopicPartition
from onceward.errors import TopicUnusable
from onceward.kafka.offsets import EARLIEST, LATEST, offsets
from onceward.kafka.wire import Wire

BROKERS_CHOICE = -1  # CreateTopics: num.partitions and default.replication.factor of the brokers


class Listed(NamedTuple):
    """One topic in a list."""

    name: str
    partitions: int
    replicas: int
    internal: bool  # Kafka's own: group offsets, transactions


class Partition(NamedTuple):
    """Where a partition is, and which offsets it has."""

    number: int
    leader: int  # -1 while it has none
    replicas: list[int]
    in_sync: list[int]
    first: int
    end: int


class Described(NamedTuple):
    """One topic; `settings`: those that differ from the brokers' defaults."""

    name: str
    partitions: list[Partition]
    settings: Mapping[str, str]


def listed(wire: Wire) -> list[Listed]:
    """Every topic that we may see."""
    found = (topic for topic in wire.metadata(None).topics if topic.error_code == 0)
    return sorted(
        Listed(it.name, len(it.partitions), max(len(one.replica_nodes) for one in it.partitions), it.is_internal)
        for it in found
    )


def described(wire: Wire, name: str) -> Described:
    """`TopicUnusable` if it is not there."""
    require(wire, [name])
    (topic,) = wire.metadata([name]).topics
    first, end = offsets(wire, [name], EARLIEST), offsets(wire, [name], LATEST)
    partitions = [
        Partition(
            number=it.partition_index,
            leader=it.leader_id,
            replicas=list(it.replica_nodes),
            in_sync=list(it.isr_nodes),
            first=first[TopicPartition(name, it.partition_index)],
            end=end[TopicPartition(name, it.partition_index)],
        )
        for it in sorted(topic.partitions, key=lambda it: it.partition_index)
    ]
    return Described(name, partitions, wire.layouts([name])[name].settings)


def create(wire: Wire, names: Iterable[str], partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
    """New topics only: one that exists is left as it is, and none of the others is made."""
    names = sorted(set(names))
    there = wire.topics(names)
    if there:
        told = ", ".join(f"{name!r} ({len(leaders)} partitions)" for name, leaders in sorted(there.items()))
        raise TopicUnusable(
            f"at {wire.cluster.bootstrap} there is a topic {told} already; nothing was made. Choose another name, or "
            "look at it: onceward kafka topic describe NAME"
        )
    wire.create_topics(names, partitions, replicas, settings)


def require(wire: Wire, names: Iterable[str]) -> dict[str, int]:
    """How many partitions each has; a missing topic is an error that says what to do."""
    names = sorted(set(names))
    there = wire.topics(names)
    for name in names:
        if name not in there:
            raise TopicUnusable(
                f"topic {name!r} does not exist at {wire.cluster.bootstrap}; make it with `onceward kafka topic create "
                f"{name}`, or look for its name with `onceward kafka topic list`"
            )
    return {name: len(leaders) for name, leaders in there.items()}


def compacted(wire: Wire, names: Iterable[str]) -> frozenset[str]:
    """Those that are known to be: in them offsets may be missing between any two batches."""
    found = wire.topic_settings(names)
    return frozenset(
        name for name, settings in found.items() if "compact" in (settings.get("cleanup.policy") or "").split(",")
    )


def require_partition(topic: str, count: int, partition: int) -> None:
    if partition >= count:
        raise TopicUnusable(f"topic {topic!r} has partitions 0 to {count - 1}, so there is no partition {partition}")
