"""Kafka's error codes as Onceward reads them: what each one means for the data, in one table.

Everything that matches on an answer matches on these codes, never on message text.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Meaning(Enum):
    """What an answer says about the request it answers."""

    ACCEPTED = auto()
    RETRY = auto()  # not done, and the same request may be sent again as it is
    MOVED = auto()  # as RETRY, but another broker is in charge now: look it up first
    IDENTITY_LOST = auto()  # the transaction is no longer ours: timed out, or fenced by a newer driver
    REFUSED = auto()  # not done, and repeating will not help


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the table."""

    number: int
    name: str
    meaning: Meaning
    says: str


_TABLE: Final = (
    Code(-1, "UNKNOWN_SERVER_ERROR", Meaning.REFUSED, "the broker failed at it, as a remote storage may; see its log"),
    Code(0, "NONE", Meaning.ACCEPTED, "done"),
    Code(1, "OFFSET_OUT_OF_RANGE", Meaning.REFUSED, "the partition has no such offset any more, or not yet"),
    Code(2, "CORRUPT_MESSAGE", Meaning.RETRY, "bytes damaged on the way"),
    Code(3, "UNKNOWN_TOPIC_OR_PARTITION", Meaning.MOVED, "no such topic or partition on that broker"),
    Code(5, "LEADER_NOT_AVAILABLE", Meaning.MOVED, "the partition is electing a leader"),
    Code(6, "NOT_LEADER_OR_FOLLOWER", Meaning.MOVED, "the partition's leader is another broker"),
    Code(7, "REQUEST_TIMED_OUT", Meaning.RETRY, "replication took too long; sequence numbers make a repeat safe"),
    Code(8, "BROKER_NOT_AVAILABLE", Meaning.MOVED, "the broker is going or coming"),
    Code(9, "REPLICA_NOT_AVAILABLE", Meaning.MOVED, "the replica is going or coming"),
    Code(
        10,
        "MESSAGE_TOO_LARGE",
        Meaning.REFUSED,
        "a record batch is over the topic's max.message.bytes: raise that; or, if we may not ask for it, allow "
        "DescribeConfigs on the topic, so that batches are made to fit",
    ),
    Code(12, "OFFSET_METADATA_TOO_LARGE", Meaning.REFUSED, "the marker is over offset.metadata.max.bytes"),
    Code(13, "NETWORK_EXCEPTION", Meaning.RETRY, "the connection broke"),
    Code(14, "COORDINATOR_LOAD_IN_PROGRESS", Meaning.RETRY, "the coordinator is reading its log"),
    Code(15, "COORDINATOR_NOT_AVAILABLE", Meaning.MOVED, "the coordinator is being made or elected"),
    Code(16, "NOT_COORDINATOR", Meaning.MOVED, "the coordinator is another broker"),
    Code(17, "INVALID_TOPIC_EXCEPTION", Meaning.REFUSED, "that is no valid topic name"),
    Code(19, "NOT_ENOUGH_REPLICAS", Meaning.RETRY, "too few replicas in sync, or the partition is still enrolling"),
    Code(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Meaning.RETRY, "written, but too few replicas have it yet"),
    Code(25, "UNKNOWN_MEMBER_ID", Meaning.REFUSED, "live consumers use the pipeline's name as their group"),
    Code(29, "TOPIC_AUTHORIZATION_FAILED", Meaning.REFUSED, "not allowed to use the topic"),
    Code(30, "GROUP_AUTHORIZATION_FAILED", Meaning.REFUSED, "not allowed to use the group"),
    Code(31, "CLUSTER_AUTHORIZATION_FAILED", Meaning.REFUSED, "not allowed on the cluster"),
    Code(
        32,
        "INVALID_TIMESTAMP",
        Meaning.REFUSED,
        "a record's time is too far from the broker's clock (message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms, an hour ahead by default): correct the timestamp column, drop it, or raise "
        "the topic's setting",
    ),
    Code(41, "NOT_CONTROLLER", Meaning.MOVED, "the controller is another broker"),
    # 45 is the echo of an earlier batch that failed; the sender sends that one again first.
    Code(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", Meaning.RETRY, "an earlier batch of the partition is missing"),
    Code(46, "DUPLICATE_SEQUENCE_NUMBER", Meaning.ACCEPTED, "these bytes are in the log already"),
    Code(47, "INVALID_PRODUCER_EPOCH", Meaning.IDENTITY_LOST, "a newer producer epoch exists"),
    Code(48, "INVALID_TXN_STATE", Meaning.IDENTITY_LOST, "the transaction is not open: it timed out or has ended"),
    Code(49, "INVALID_PRODUCER_ID_MAPPING", Meaning.IDENTITY_LOST, "the producer id is not the current one"),
    Code(50, "INVALID_TRANSACTION_TIMEOUT", Meaning.REFUSED, "over the broker's transaction.max.timeout.ms"),
    Code(51, "CONCURRENT_TRANSACTIONS", Meaning.RETRY, "the previous step of the transaction is completing"),
    Code(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Meaning.REFUSED, "not allowed to use the transactional id"),
    Code(56, "KAFKA_STORAGE_ERROR", Meaning.MOVED, "the broker's disk failed for that partition"),
    Code(59, "UNKNOWN_PRODUCER_ID", Meaning.IDENTITY_LOST, "the partition has forgotten the producer"),
    Code(74, "FENCED_LEADER_EPOCH", Meaning.MOVED, "the leader has changed"),
    Code(75, "UNKNOWN_LEADER_EPOCH", Meaning.MOVED, "the leader has changed"),
    Code(78, "OFFSET_NOT_AVAILABLE", Meaning.RETRY, "the partition's new leader does not know yet what is committed"),
    Code(87, "INVALID_RECORD", Meaning.REFUSED, "the topic refuses the record (a compacted topic needs keys)"),
    Code(88, "UNSTABLE_OFFSET_COMMIT", Meaning.RETRY, "a transaction over these offsets is still completing"),
    Code(89, "THROTTLING_QUOTA_EXCEEDED", Meaning.RETRY, "over the quota"),
    Code(90, "PRODUCER_FENCED", Meaning.IDENTITY_LOST, "a newer producer with this transactional id exists"),
    Code(100, "UNKNOWN_TOPIC_ID", Meaning.MOVED, "no topic of that id on that broker"),
    Code(105, "TRANSACTIONAL_ID_NOT_FOUND", Meaning.REFUSED, "no transaction of that id is known"),
    Code(120, "TRANSACTION_ABORTABLE", Meaning.IDENTITY_LOST, "the transaction can only be aborted"),
)
_BY_NUMBER: Final = {code.number: code for code in _TABLE}


def code(number: int) -> Code:
    """The row for a number; one that is not in the table is refused, not guessed."""
    return _BY_NUMBER.get(number) or Code(number, f"ERROR_{number}", Meaning.REFUSED, "not known to Onceward")
