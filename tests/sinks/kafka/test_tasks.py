"""What a task does before it writes: production code on partition leaders in memory, in a task of the test's making."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, InvalidRows
from onceward.kafka.records import Compression
from onceward.kafka.transaction import Identity
from onceward.sinks.kafka import tasks
from onceward.sinks.kafka.encoding import HASH, Catalog, Topic
from onceward.sinks.kafka.tasks import SHIPPED_SCHEMA, TaskRepeated, Work
from onceward.sinks.kafka.turns import turns
from onceward.sinks.parcel import Parcel
from support.leaders import Leaders, payload

ROWS = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], HASH: pa.array([1, 2], pa.int64())})


@dataclass
class Task:
    """As Spark tells a task about itself."""

    attempt: int = 0

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's name
        return self.attempt

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return 4


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> Leaders:
    leaders = Leaders({"out": [1]})
    monkeypatch.setitem(tasks._wires, (leaders.cluster.bootstrap, ()), leaders)
    return leaders


@pytest.fixture
def parcel(leaders: Leaders) -> Parcel[Work]:
    work = Work(
        epoch=0,
        cluster=leaders.cluster,
        transactional_id="p",
        identity=Identity(7, 3),
        default_topic="out",
        compression=Compression.NONE,
        catalog=Catalog({"out": Topic(1, 1 << 20)}),
        writers=1,
    )
    return Parcel(None, work)


@pytest.fixture
def at_attempt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda attempt: monkeypatch.setattr(tasks, "_context", lambda: Task(attempt))


def shipped(*rows: tuple[Any, ...]) -> Iterator[pa.RecordBatch]:
    """What the encoders made: (topic, source, number, payload)."""
    filled = [
        {"writer": 0, "topic": topic, "partition": 0, "source": source, "number": number, "count": 1, "digest": 1,
         "payload": made} for topic, source, number, made in rows
    ]  # fmt: skip
    yield pa.RecordBatch.from_pylist(filled, schema=SHIPPED_SCHEMA)


def write_encoded(parcel: Parcel[Work]) -> list[pa.RecordBatch]:
    return list(tasks.write_batches(parcel, shipped(("out", 0, 0, payload(b"a")), ("out", 0, 1, payload(b"b")))))


def encode_and_write(parcel: Parcel[Work]) -> list[pa.RecordBatch]:
    return list(tasks.encode_and_write(parcel, iter([ROWS])))


def encode_and_write_in_turns(parcel: Parcel[Work]) -> list[pa.RecordBatch]:
    work = parcel.open()
    with turns(work.catalog) as shared:
        return list(tasks.encode_and_write_in_turns(Parcel(None, replace(work, turns=shared)), iter([ROWS])))


WAYS = pytest.mark.parametrize("write", [write_encoded, encode_and_write, encode_and_write_in_turns])


@WAYS
def test_a_first_attempt_writes_and_reports_each_partition(
    write: Callable[[Parcel[Work]], list[pa.RecordBatch]],
    parcel: Parcel[Work],
    leaders: Leaders,
    at_attempt: Callable[[int], None],
) -> None:
    at_attempt(0)
    (report,) = write(parcel)
    told = {"task": 4, "topic": "out", "partition": 0, "rows": 2, "error": None, "message": None}
    assert [{name: row[name] for name in told} for row in report.to_pylist()] == [told]
    assert sum(header.record_count for header, _ in leaders.log("out").taken) == 2


@WAYS
@pytest.mark.parametrize("attempt", [1, 3])
def test_a_repeated_task_writes_nothing_and_fails_so_that_the_epoch_is_redone(
    write: Callable[[Parcel[Work]], list[pa.RecordBatch]],
    attempt: int,
    parcel: Parcel[Work],
    leaders: Leaders,
    at_attempt: Callable[[int], None],
) -> None:
    """Trap 1: equal sequences with other bytes are accepted and dropped, so a second attempt must not send any."""
    at_attempt(attempt)
    with pytest.raises(TaskRepeated, match=f"task 4 is at attempt {attempt}: its records may already be in the"):
        write(parcel)
    assert leaders.requests == []


def test_tasks_that_take_turns_go_on_with_each_others_sequence_numbers(
    parcel: Parcel[Work], leaders: Leaders, at_attempt: Callable[[int], None]
) -> None:
    """C1: one run of sequences for each partition, whoever writes."""
    at_attempt(0)
    work = parcel.open()
    with turns(work.catalog) as shared:
        mine = Parcel(None, replace(work, turns=shared))
        for _ in range(3):
            list(tasks.encode_and_write_in_turns(mine, iter([ROWS, ROWS])))
    assert [header.base_sequence for header, _ in leaders.log("out").taken] == [0, 4, 8]


def test_a_repeated_task_may_run_a_replay_which_writes_nothing(
    parcel: Parcel[Work], leaders: Leaders, at_attempt: Callable[[int], None]
) -> None:
    at_attempt(1)
    (report,) = tasks.digest_rows(parcel, iter([ROWS]))
    assert [(row["rows"], row["digest"]) for row in report.to_pylist()] == [(2, 3)]
    assert leaders.requests == []


def test_record_batches_of_one_source_that_arrive_out_of_order_are_refused(
    parcel: Parcel[Work], at_attempt: Callable[[int], None]
) -> None:
    """The guarantee of order hangs on the shuffle."""
    at_attempt(0)
    other = ("out", 1, 0, payload(b"another source has numbers of its own"))
    rows = shipped(("out", 0, 7, payload(b"a")), other, ("out", 0, 6, payload(b"b")))
    with pytest.raises(AssertionError, match="out-0: record batches of task 0 arrived out of order"):
        list(tasks.write_batches(parcel, rows))


def test_an_error_of_ours_travels_as_a_row_from_encoder_to_writer_to_driver_and_keeps_its_type(
    parcel: Parcel[Work], leaders: Leaders, at_attempt: Callable[[int], None]
) -> None:
    at_attempt(0)
    nowhere = Parcel(None, replace(parcel.open(), default_topic=None))
    (made,) = tasks.encode_rows(nowhere, iter([ROWS]))
    (report,) = tasks.write_batches(parcel, iter([made]))
    (row,) = report.to_pylist()
    assert (row["error"], row["topic"]) == (InvalidRows.__name__, "")
    assert "a row has no topic and the sink has none" in row["message"]
    assert leaders.requests == []


def test_a_broker_that_refuses_a_batch_is_reported_with_the_place(
    parcel: Parcel[Work], leaders: Leaders, at_attempt: Callable[[int], None]
) -> None:
    at_attempt(0)
    leaders.log("out").script.append(10)
    (report,) = encode_and_write(parcel)
    (row,) = report.to_pylist()
    assert row["error"] == BrokerRefused.__name__
    assert str(TopicPartition("out", 0)) in row["message"]
