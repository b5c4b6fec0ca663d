"""What a Kafka cluster's own words mean for the guarantee. Pure.

A transaction is as durable as its topics, the coordinator's log and the group's offsets are; and what Kafka forgets by
time (offsets, transactional ids, records) must be kept for longer than a pipeline may be down.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from onceward.doctor.durations import in_words
from onceward.doctor.finding import Finding, note, ok, risk
from onceward.kafka.cluster_facts import DESCRIBE, READ, WRITE, ClusterFacts, TopicFacts
from onceward.kafka.wire import TRANSACTION_VERSION
from onceward.pipeline.printing import counted_as

INTERNAL: Final = ("__transaction_state", "__consumer_offsets")  # what the coordinators know is as safe as these
OFFSETS: Final = ("offsets.retention.minutes", 60.0, "the pipeline's marker, which rides on its group's offsets")
IDS: Final = ("transactional.id.expiration.ms", 0.001, "the pipeline's transactional id")
RIGHTS: Final = {READ: "READ", WRITE: "WRITE", DESCRIBE: "DESCRIBE"}


def judge_brokers(facts: ClusterFacts, where: str, downtime_s: float, transaction_timeout_ms: int = 0) -> list[Finding]:
    """The cluster that a pipeline writes to."""
    about = f"Kafka at {where}"
    found = [_transactions(facts, about)]
    if facts.brokers == 1:
        found.append(
            note(about, "one broker: what its disk loses is lost", "fine for development; else three brokers or more")
        )
    for name in INTERNAL:
        if (topic := facts.topics.get(name)) is not None:
            found.extend(_replication(facts, topic))
    if not facts.settings:
        fix = "allow DESCRIBE_CONFIGS on the cluster, or check transaction.max.timeout.ms and retention times yourself"
        return [*found, note(about, "the brokers' settings may not be looked at", fix)]
    found.extend(_kept(facts, about, downtime_s))
    found.append(_longest(facts, about, transaction_timeout_ms))
    if facts.settings.get("unclean.leader.election.enable") == "true":
        found.append(
            risk(
                about,
                "unclean.leader.election.enable=true: a replica that is behind may become leader and lose records",
                "set it to false on the brokers",
            )
        )
    return found


def judge_source(facts: ClusterFacts, name: str, downtime_s: float) -> list[Finding]:
    """A topic that a pipeline reads."""
    topic, found = _found(facts, name, "source topic")
    if topic is None:
        return found
    found = [*found, *_rights(topic, "source topic", (READ, DESCRIBE)), *_replication(facts, topic)]
    kept_ms = int(topic.settings.get("retention.ms", "-1"))
    about = f"source topic {name}"
    if "compact" in topic.settings.get("cleanup.policy", "delete"):
        found.append(
            note(
                about,
                "cleanup.policy has compact: of events with the same key only the last may be left to read",
                "use cleanup.policy=delete where every event counts",
            )
        )
    if 0 <= kept_ms < downtime_s * 1000:
        found.append(
            risk(
                about,
                f"events are kept for {in_words(kept_ms / 1000)} (retention.ms), the pipeline may be down for "
                f"{in_words(downtime_s)}: what is deleted before it is read is lost",
                f"raise retention.ms to {int(downtime_s * 2000)}, or say the longest downtime with --downtime",
            )
        )
    if "retention.bytes" in topic.settings and int(topic.settings["retention.bytes"]) >= 0:
        found.append(
            note(
                about,
                f"events are also deleted by size (retention.bytes={topic.settings['retention.bytes']})",
                f"make sure that {in_words(downtime_s)} of events fit in, or set it to -1",
            )
        )
    return found


def judge_target(facts: ClusterFacts, name: str) -> list[Finding]:
    """A topic that a pipeline writes."""
    topic, found = _found(facts, name, "output topic")
    if topic is None:
        return found
    found = [*found, *_rights(topic, "output topic", (WRITE, DESCRIBE)), *_replication(facts, topic)]
    if topic.settings.get("unclean.leader.election.enable") == "true":
        found.append(
            risk(
                f"output topic {name}",
                "unclean.leader.election.enable=true: committed records may be lost when a leader is",
                "set it to false for the topic",
            )
        )
    return found


def _transactions(facts: ClusterFacts, about: str) -> Finding:
    if facts.transaction_version >= TRANSACTION_VERSION:
        return ok(about, f"{counted_as(facts.brokers, 'broker')}, transaction.version {facts.transaction_version}")
    return risk(
        about,
        f"transaction.version {facts.transaction_version}: the old protocol can lose and tear transactions",
        "brokers 4.0 or newer, then: kafka-features.sh upgrade --feature transaction.version=2",
    )


def _found(facts: ClusterFacts, name: str, kind: str) -> tuple[TopicFacts | None, list[Finding]]:
    about = f"{kind} {name}"
    if name not in facts.topics:
        return None, [risk(about, "it does not exist", f"make it: onceward kafka topic create {name}")]
    topic = facts.topics[name]
    if topic is None:
        return None, [risk(about, "we may not look at it", "allow DESCRIBE on the topic")]
    if topic.leaderless:
        says = f"{topic.leaderless} of {topic.partitions} partitions have no leader"
        return topic, [risk(about, says, "bring the brokers back that hold them")]
    size = f"{counted_as(topic.partitions, 'partition')}, {counted_as(topic.replicas, 'replica')}"
    return topic, [ok(about, f"{size}, {topic.in_sync} in sync")]


def _rights(topic: TopicFacts, kind: str, needed: Iterable[int]) -> Iterator[Finding]:
    if topic.allowed is None:
        return
    missing = [RIGHTS[number] for number in needed if number not in topic.allowed]
    if missing:
        says = f"we may not {' or '.join(missing)}"
        yield risk(f"{kind} {topic.name}", says, f"allow {', '.join(missing)} on the topic for this user")


def _replication(facts: ClusterFacts, topic: TopicFacts) -> Iterator[Finding]:
    about, in_sync = f"topic {topic.name}", int(topic.settings.get("min.insync.replicas", "1"))
    if facts.brokers == 1:
        return  # told of the cluster, once
    if topic.replicas == 1:
        says = f"one replica, although there are {facts.brokers} brokers: the loss of one loses records"
        yield risk(about, says, "give it three replicas (kafka-reassign-partitions.sh)")
    elif topic.settings and in_sync < 2:
        says = f"min.insync.replicas={in_sync}: what only one replica has counts as written"
        yield risk(about, says, "set min.insync.replicas to 2")
    elif topic.settings and in_sync >= topic.replicas:
        says = f"min.insync.replicas={in_sync} of {topic.replicas} replicas: no broker may be away"
        yield note(about, says, "one replica more than min.insync.replicas")
    if topic.in_sync < topic.replicas:
        says = f"{topic.in_sync} of {topic.replicas} replicas are in sync"
        yield note(about, says, "bring the other brokers back")


def _kept(facts: ClusterFacts, about: str, downtime_s: float) -> Iterator[Finding]:
    for setting, in_seconds, what in (OFFSETS, IDS):
        if setting not in facts.settings:
            continue
        kept_s = int(facts.settings[setting]) * in_seconds
        if kept_s < downtime_s:
            yield risk(
                about,
                f"{setting}={facts.settings[setting]} ({in_words(kept_s)}): Kafka forgets {what} when the pipeline is "
                f"down for {in_words(downtime_s)}, and its next start stops with MarkerMissing",
                f"raise {setting}, or say the longest downtime with --downtime",
            )
        else:
            yield ok(about, f"{setting}: {in_words(kept_s)}, for {what}")


def _longest(facts: ClusterFacts, about: str, transaction_timeout_ms: int) -> Finding:
    longest_ms = int(facts.settings.get("transaction.max.timeout.ms", "900000"))
    if transaction_timeout_ms > longest_ms:
        return risk(
            about,
            f"transaction_timeout_ms={transaction_timeout_ms} is over transaction.max.timeout.ms={longest_ms}",
            "lower KafkaSink(transaction_timeout_ms=...), or raise the brokers' setting",
        )
    return ok(about, f"an epoch may write for up to {in_words(longest_ms / 1000)} (transaction.max.timeout.ms)")
