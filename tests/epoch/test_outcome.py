"""Counts and digests: what a replay is compared with."""

from random import Random

import pytest

from onceward.epoch.outcome import MODULUS, Outcome, PartitionOutcome, Span, TopicPartition

ORDERS_0, ORDERS_1, AUDIT_0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("audit", 0)


def test_the_order_in_which_parts_arrive_does_not_matter() -> None:
    """A4: tasks finish in any order, and a replay finishes in another."""
    random = Random(7)
    places = [ORDERS_0, ORDERS_1, AUDIT_0]
    parts = [(random.choice(places), PartitionOutcome(random.randrange(9), random.getrandbits(64))) for _ in range(99)]
    first = Outcome.of(parts)
    for _ in range(20):
        random.shuffle(parts)
        again = Outcome.of(parts)
        assert again == first
        assert first.differences(again) == []


def test_a_digest_stays_within_64_bits() -> None:
    summed = Outcome.of([(ORDERS_0, PartitionOutcome(1, MODULUS - 1)), (ORDERS_0, PartitionOutcome(1, 3))])
    assert summed.partitions[ORDERS_0] == PartitionOutcome(2, 2)
    assert (summed.rows, summed.digest) == (2, 2)


def test_nothing_put_out_is_an_outcome_of_its_own() -> None:
    assert Outcome.of([]) == Outcome()
    assert Outcome().differences(Outcome.of([])) == []


def test_differences_name_each_partition_and_only_those_that_differ() -> None:
    was = Outcome.of([(ORDERS_0, PartitionOutcome(3, 0xA)), (ORDERS_1, PartitionOutcome(1, 0xB))])
    now = Outcome.of([(ORDERS_0, PartitionOutcome(3, 0xA)), (AUDIT_0, PartitionOutcome(2, 0xC))])
    assert was.differences(now) == [
        "audit-0: 0 rows (digest 0), now 2 (c)",
        "orders-1: 1 rows (digest b), now 0 (0)",
    ]


def test_a_changed_value_with_an_equal_count_is_a_difference() -> None:
    was = Outcome.of([(ORDERS_0, PartitionOutcome(3, 0xA))])
    now = Outcome.of([(ORDERS_0, PartitionOutcome(3, 0xB))])
    assert was.differences(now) == ["orders-0: 3 rows (digest a), now 3 (b)"]


def test_where_only_the_sum_is_known_the_sum_is_compared() -> None:
    """The marker drops details that do not fit (see test_marker)."""
    whole = Outcome.of([(ORDERS_0, PartitionOutcome(3, 0xA)), (ORDERS_1, PartitionOutcome(1, 0xB))])
    summary = Outcome(rows=whole.rows, digest=whole.digest)
    assert summary.differences(whole) == []
    assert whole.differences(summary) == []
    assert summary.differences(Outcome(rows=5, digest=0x15)) == ["4 rows with digest 15, now 5 rows with digest 15"]


def test_rows_that_moved_because_a_topic_gained_partitions_are_no_difference() -> None:
    """A row's hash covers all its columns, so equal sums are equal rows; where they lie may change."""
    was = Outcome.of([(ORDERS_0, PartitionOutcome(2, 0x15))])
    now = Outcome.of([(ORDERS_0, PartitionOutcome(1, 0xA)), (ORDERS_1, PartitionOutcome(1, 0xB))])
    assert was.differences(now) == []


@pytest.mark.parametrize(
    ("known", "other", "both"), [(Span(5, 9), Span(9, 12), Span(5, 12)), (Span(5, 9), None, Span(5, 9))]
)
def test_the_parts_of_a_partition_span_what_each_of_them_spans(known: Span, other: Span | None, both: Span) -> None:
    """D5: and where they lie is no part of what is compared with a replay."""
    added = PartitionOutcome(1, 2, known) + PartitionOutcome(3, 4, other)
    assert added.span == both
    assert added == PartitionOutcome(4, 6)
