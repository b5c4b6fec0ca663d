"""Readers under a real quota: a broker that throttles them answers without any topic, and without an error."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.fetching import part_of
from onceward.kafka.ranges import Range, RangeReader
from onceward.kafka.reading import Reader
from onceward.kafka.walking import headers
from onceward.kafka.wire import Cluster, Wire

BYTES_A_SECOND = 200_000  # as much is given at once
EPOCHS, SIZE, PARTITIONS = 5, 9_999, 3
EACH = 4  # records of an epoch in each partition


@pytest.fixture(scope="module")
def topic(counting: Any) -> str:
    """600 KB."""
    name: str = counting.topic(PARTITIONS)
    transactor = counting.transactor()
    for epoch in range(EPOCHS):
        rows = {TopicPartition(name, at): [b"%09d" % epoch * (SIZE // 9)] * EACH for at in range(PARTITIONS)}
        counting.epoch(transactor, epoch, rows)
    return name


def set_quota(wire: Wire, client: str, rate: float | None) -> None:
    entry = AlterClientQuotasRequest.EntryData
    asked = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=client)],
                ops=[entry.OpData(key="consumer_byte_rate", value=rate or 0.0, remove=rate is None)],
            )
        ],
        validate_only=False,
    )
    (answer,) = wire.call(wire.any_node(), asked).entries
    assert answer.error_code == 0, answer


@pytest.fixture
def throttled(counting: Any) -> Iterator[Wire]:
    """A connection of a client that may read only so much."""
    client = counting.name("client")
    set_quota(counting.wire, client, BYTES_A_SECOND)
    wire = Wire(Cluster(counting.cluster.bootstrap, {"client.id": client}))
    yield wire
    wire.close()
    set_quota(counting.wire, client, None)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many topics each throttled answer had."""
    seen: list[int] = []

    def watched(answer: Any, *rest: Any) -> Any:
        if answer.throttle_time_ms:
            seen.append(len(answer.responses))
        return part_of(answer, *rest)

    monkeypatch.setattr("onceward.kafka.cursor.part_of", watched)
    return seen


WAYS = {
    "ranges": lambda wire, ends: [
        value for _, found in RangeReader(wire).read(Range(it, 0, end) for it, end in ends.items())
        for value in found.value.to_pylist()
    ],
    "records": lambda wire, ends: [
        it.value for it in Reader(wire, dict.fromkeys(ends, 0), committed=True).until(ends)
    ],
}  # fmt: skip


@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_a_reader_that_is_throttled_reads_all(
    counting: Any, topic: str, throttled: Wire, answers: list[int], read: Callable[[Wire, Any], list[bytes]]
) -> None:
    """A1."""
    found = read(throttled, counting.wire.ends([topic]))
    assert Counter(it[:9] for it in found) == {b"%09d" % it: EACH * PARTITIONS for it in range(EPOCHS)}
    assert answers
    assert set(answers) == {0}  # this is how brokers say it


def test_so_does_one_that_looks_at_headers(counting: Any, topic: str, throttled: Wire, answers: list[int]) -> None:
    """D5."""
    ends = counting.wire.ends([topic])
    assert sum(it.record_count for place, end in ends.items() for it in headers(throttled, place, 0, end)) == sum(
        ends.values()
    )
    assert answers
