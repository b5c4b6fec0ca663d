"""What is copied, and which records those are; no broker and no Spark."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.decoding import Records
from onceward.kafka.ranges import Range
from onceward.kafka.wire import Cluster
from onceward.sinks.kafka.copying import MAY_FAIL, SPARK_READS, Copied, Copies, Copy, Origin
from onceward.sinks.kafka.encoding import HASH
from onceward.sinks.kafka.functions import CopyFailed, Function, Kind

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
HERE = Cluster("b:1")


class Reader:
    """Gives these keys and values for each range."""

    def __init__(self, *rows: tuple[bytes | None, bytes | None], refuses: Exception | None = None) -> None:
        keys, values = zip(*rows, strict=True)
        columns = (pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array([b""] * len(rows), pa.binary()))
        self._records = Records(np.arange(len(rows)), *columns, begins=np.arange(len(rows) + 1))
        self._refuses = refuses

    def read(self, wanted: Iterator[Range]) -> Iterator[tuple[Range, Records]]:
        for it in wanted:
            if self._refuses is not None:
                raise self._refuses
            yield it, self._records


def read(reader: Reader, *, with_partition: bool = False, function: Function | None = None) -> pa.Table:
    copy = Copy(HERE, (Range(T1, 0, 9),), with_partition, function)
    table = copy.table(reader, 1 << 20)  # type: ignore[arg-type]
    assert table is not None
    return table


def test_ranges_that_do_not_add_up_are_left_to_spark() -> None:
    """An entry of the checkpoint that is missing, or positions that went back: Spark reads, or says what is wrong."""
    origin = Origin(Copied(Cluster("b:1"), False), lambda _: None)
    planned = EpochContext(epoch=1, positions={T0: 9, T1: 3}, input_rows=7, begins={T0: 5})
    fine = origin.copy(planned)
    assert fine is not None
    assert fine.ranges == (Range(T0, 5, 9), Range(T1, 0, 3))
    for changed in ({"begins": None}, {"input_rows": None}, {"input_rows": 12}, {"positions": {T0: 4}}):
        assert origin.copy(replace(planned, **changed)) is None, changed


def test_a_null_and_a_value_never_hash_as_a_value_and_a_null() -> None:
    """G4: nor does a missing column look like an empty one."""
    rows = [(None, b"a"), (b"a", None), (b"", b"a"), (b"a", b""), (None, None), (b"", b"")]
    assert len(set(read(Reader(*rows)).column(HASH).to_pylist())) == len(rows)


def test_a_partition_counts_where_it_is_kept() -> None:
    with_it = read(Reader((b"k", b"v")), with_partition=True)
    assert with_it.column("partition").to_pylist() == [1]
    assert with_it.column(HASH).to_pylist() != read(Reader((b"k", b"v"))).column(HASH).to_pylist()


def test_the_driver_holds_no_more_than_it_says() -> None:
    copy = Copy(HERE, (Range(T0, 0, 9), Range(T1, 0, 9)), with_partition=False)
    assert copy.table(Reader((b"k", b"v")), 1) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [BrokerRefused, PartitionSilent])
def test_what_a_broker_refuses_or_does_not_give_is_redone_and_does_not_end_the_pipeline(kind: type[Exception]) -> None:
    with pytest.raises(CopyFailed, match="no; the epoch is redone"):
        read(Reader((b"k", b"v"), refuses=kind("no")))


class Topics:
    """A wire that tells topics' policies, and who was asked about."""

    def __init__(self) -> None:
        self.policies = {"t": "compact", "other": "delete"}
        self.asked: list[set[str]] = []

    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        self.asked.append(set(names))
        return {name: {"cleanup.policy": self.policies[name]} for name in names if name in self.policies}


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def copies(topics: Topics) -> Copies:
    return Copies(HERE, topics)  # type: ignore[arg-type]


ORIGIN = Origin(Copied(HERE, with_partition=False), lambda _: None)
PLANNED = EpochContext(epoch=1, positions={T0: 9}, input_rows=9, begins={})


def fail(copies: Copies) -> None:
    assert copies.of(ORIGIN, PLANNED) is not None
    with pytest.raises(CopyFailed), copies.tried():
        raise CopyFailed("no such thing")


def test_whether_a_topic_is_compacted_is_asked_once_and_travels_with_its_ranges(copies: Copies, topics: Topics) -> None:
    """A1: a topic that the brokers do not tell of is taken for one that is not."""
    other, hidden = TopicPartition("other", 0), TopicPartition("hidden", 0)
    planned = replace(PLANNED, positions={T0: 3, T1: 3, other: 3, hidden: 3}, input_rows=12)
    for _ in range(2):
        copy = copies.of(ORIGIN, planned)
        assert copy is not None
        assert [it.is_compacted for it in copy.ranges] == [False, False, True, True]
    assert topics.asked == [{"t", "other", "hidden"}]
    topics.policies["t"] = "delete"
    with pytest.raises(CopyFailed), copies.tried():
        raise CopyFailed
    copy = copies.of(ORIGIN, PLANNED)
    assert copy is not None
    assert [it.is_compacted for it in copy.ranges] == [False]


def test_a_second_try_goes_through_spark(copies: Copies) -> None:
    assert copies.of(ORIGIN, PLANNED) is not None
    assert copies.of(ORIGIN, replace(PLANNED, attempt=2)) is None
    assert copies.of(ORIGIN, replace(PLANNED, begins=None)) is None
    assert copies.of(None, PLANNED) is None


def test_copies_that_keep_failing_are_left_to_spark_for_a_while_and_it_is_said_why(
    copies: Copies, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(MAY_FAIL):
        fail(copies)
    (said,) = caplog.records
    assert said.__dict__["event"] == "copying_paused"
    assert (said.__dict__["epochs"], said.__dict__["reason"]) == (SPARK_READS, "no such thing")
    assert "no such thing" in said.getMessage()
    assert [copies.of(ORIGIN, PLANNED) for _ in range(SPARK_READS)] == [None] * SPARK_READS
    assert copies.of(ORIGIN, replace(PLANNED, attempt=2)) is None
    fail(copies)  # tried again
    assert len(caplog.records) == 2
    assert [copies.of(ORIGIN, PLANNED) for _ in range(SPARK_READS)] == [None] * SPARK_READS
    with copies.tried():
        pass
    fail(copies)
    assert len(caplog.records) == 2
    assert copies.of(ORIGIN, PLANNED) is not None


def test_one_that_goes_well_makes_up_for_those_before(copies: Copies) -> None:
    fail(copies)
    with copies.tried():
        pass
    assert copies.failed == 0


def function(kind: Kind, called: Callable[[Any], Any], *, takes_text: bool = True, gives_text: bool = True) -> Function:
    return Function(kind, takes_text, gives_text, cloudpickle.dumps((called, None)))


FUNCTIONS = {
    "plain": function(Kind.PLAIN, lambda it: it and it.upper()),
    "pandas": function(Kind.PANDAS, lambda it: it.str.upper()),
    "arrow": function(Kind.ARROW, pc.utf8_upper),
    "bytes": function(Kind.PLAIN, lambda it: it and it.upper(), takes_text=False, gives_text=False),
}


@pytest.mark.parametrize("called", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_of_each_value(called: Function) -> None:
    found = read(Reader((b"k", b"a"), (b"k", None), (None, b"")), function=called)
    assert found.column("value").to_pylist() == [b"A", None, b""]
    assert found.column("value").type == pa.binary()


UNUSUAL = {
    "a number": function(Kind.PLAIN, len),
    "bytes for a text": function(Kind.PLAIN, str.encode),
    "numbers from pandas": function(Kind.PANDAS, lambda it: it.str.len()),
    "numbers from Arrow": function(Kind.ARROW, pc.utf8_length),
    "another kind of text": function(Kind.ARROW, lambda it: it.cast(pa.large_string())),
    "no array": function(Kind.ARROW, lambda it: it.to_pylist()),
    "fewer": function(Kind.ARROW, lambda it: it[1:]),
}


@pytest.mark.parametrize("called", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_not_exactly_a_text_for_each_is_left_to_spark(called: Function) -> None:
    with pytest.raises(CopyFailed):
        read(Reader((b"k", b"a"), (b"k", b"b")), function=called)


def test_bytes_that_are_no_text_are_left_to_spark() -> None:
    with pytest.raises(CopyFailed, match="cannot be taken over"):
        read(Reader((b"k", b"\xff")), function=FUNCTIONS["arrow"])


def test_a_functions_own_errors_are_its_own() -> None:
    """I3."""
    with pytest.raises(ZeroDivisionError):
        read(Reader((b"k", b"a")), function=function(Kind.PLAIN, lambda it: it and str(1 / 0)))
