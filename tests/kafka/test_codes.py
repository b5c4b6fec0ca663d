"""What each of Kafka's error codes means for the data, written down a second time and apart from `kafka/codes.py`.

Kafka's own client says which codes may be repeated (`tests/golden/error-codes.csv`, made by ErrorCodes.java beside it);
what a code means for records and transactions is said here, from what brokers do when they answer it.
"""

from pathlib import Path
from typing import Final

import pytest

from onceward.kafka import codes
from onceward.kafka.codes import Meaning, code

KAFKA: Final = Path(__file__).parents[1] / "golden" / "error-codes.csv"

# Every code that we act on, and how: the request is done; may be sent again as it is; may be sent again to whoever is
# in charge now; the transaction is not ours any more; or repeating it will not help.
DONE: Final = {
    0: "NONE",
    46: "DUPLICATE_SEQUENCE_NUMBER",
}
AGAIN: Final = {
    2: "CORRUPT_MESSAGE",
    7: "REQUEST_TIMED_OUT",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    51: "CONCURRENT_TRANSACTIONS",
    78: "OFFSET_NOT_AVAILABLE",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
}
AGAIN_ELSEWHERE: Final = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    41: "NOT_CONTROLLER",
    56: "KAFKA_STORAGE_ERROR",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    100: "UNKNOWN_TOPIC_ID",
}
NOT_OURS: Final = {
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    59: "UNKNOWN_PRODUCER_ID",
    90: "PRODUCER_FENCED",
    120: "TRANSACTION_ABORTABLE",
}
NEVER: Final = {
    -1: "UNKNOWN_SERVER_ERROR",
    1: "OFFSET_OUT_OF_RANGE",
    10: "MESSAGE_TOO_LARGE",
    12: "OFFSET_METADATA_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    25: "UNKNOWN_MEMBER_ID",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    50: "INVALID_TRANSACTION_TIMEOUT",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    87: "INVALID_RECORD",
    105: "TRANSACTIONAL_ID_NOT_FOUND",
}
MEANT: Final = {
    **dict.fromkeys(DONE.items(), Meaning.ACCEPTED),
    **dict.fromkeys(AGAIN.items(), Meaning.RETRY),
    **dict.fromkeys(AGAIN_ELSEWHERE.items(), Meaning.MOVED),
    **dict.fromkeys(NOT_OURS.items(), Meaning.IDENTITY_LOST),
    **dict.fromkeys(NEVER.items(), Meaning.REFUSED),
}
# Where Kafka's client says otherwise about repeating, or what we do surprises: why that is right for the data.
SURPRISING: Final = {
    8: "no answer to any request of ours; a broker that comes back will answer, so it is looked for again",
    45: "an echo: an earlier batch of the partition is missing. The sender sends that one again first, with the same "
    "sequence numbers; Kafka's client does so too, by a rule beside its table. Taken for done, rows would be lost",
    46: "the broker has these sequence numbers already, and with these bytes, for only what was sent is sent again: "
    "done. Under other numbers they would be doubled",
    48: "after a time-out of the broker's, EndTxn finds no open transaction: how it ended, only the marker tells",
    59: "the partition has forgotten our sequence numbers, so nothing protects a repetition any more",
    78: "a new leader does not know yet what is committed, so that an end may seem lower than it is: later tells",
    87: "a compacted topic takes no record without a key, however often it is sent",
    120: "this transaction can only be aborted (KIP-890): a commit would tear it",
}


def kafkas() -> dict[int, tuple[str, bool, bool]]:
    """Number: name, retriable, and whether metadata is looked up first."""
    lines = (line.split(",") for line in KAFKA.read_text().splitlines())
    return {int(number): (name, again == "true", moved == "true") for number, name, again, moved in lines}


@pytest.mark.parametrize(("number", "name"), MEANT)
def test_a_code_means_for_the_data_what_is_written_here(number: int, name: str) -> None:
    """C1, C9."""
    found = code(number)
    assert (found.number, found.name) == (number, name)
    assert found.meaning is MEANT[number, name], SURPRISING.get(number, "")
    assert found.says


def test_no_code_is_in_the_table_that_is_not_written_here() -> None:
    assert [it.number for it in codes._TABLE] == sorted(number for number, _ in MEANT)


@pytest.mark.parametrize("number", [number for number, _ in MEANT])
def test_a_code_has_the_name_and_the_sense_that_kafkas_own_client_gives_it(number: int) -> None:
    """Whoever repeats what Kafka's client would not, or gives up what that would repeat, has said why."""
    name, again, _ = kafkas()[number]
    found = code(number)
    assert found.name == name
    if again != (found.meaning in (Meaning.RETRY, Meaning.MOVED)):
        assert number in SURPRISING


@pytest.mark.parametrize("number", [number for number, _ in MEANT if kafkas()[number][2] and number != 13])
def test_where_kafkas_client_looks_who_is_in_charge_so_do_we(number: int) -> None:
    """Else the same broker would be asked for ever. (13 is never in an answer: a client makes it up.)"""
    assert code(number).meaning is Meaning.MOVED


@pytest.mark.parametrize("number", sorted({-2, 4, 11, 999} | kafkas().keys() - {it for it, _ in MEANT}))
def test_a_code_that_is_not_in_the_table_is_refused_and_named(number: int) -> None:
    """C1: what is not known is neither done nor repeated."""
    found = code(number)
    assert (found.number, found.name, found.meaning) == (number, f"ERROR_{number}", Meaning.REFUSED)
