"""What happened in a run, and what could be read at its end: the vocabulary that every checker reads.

It knows neither the simulation nor the chaos runner. Both record these values, and the same checkers judge them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.epoch.contract import Guarantee

Place = tuple[str, int]  # topic and partition; a sink without partitions has one place of its own name


class Row(NamedTuple):
    """One row that a reader found. `number` is the running number of its key: the query's state, made visible."""

    id: int
    key: int
    number: int
    epoch: int
    term: int
    attempt: int


class Part(NamedTuple):
    """The rows of one try at one epoch that were visible in one place."""

    epoch: int
    term: int
    attempt: int
    rows: int


class LogBatch(NamedTuple):
    """One entry of a partition's raw log. `kind`: data, commit or abort (the end markers)."""

    kind: str
    producer_id: int
    producer_epoch: int
    sequence: int = -1
    rows: int = 0
    epoch: int = -1  # of data: which epoch of ours it belongs to
    offset: int = -1  # of data: where it begins


class LedgerLine(NamedTuple):
    """One valid entry of the ledger: what it says each sink received."""

    epoch: int
    term: int
    phase: str
    rows: Mapping[str, int]
    boundaries: Mapping[Place, tuple[int, ...]] = {}  # where the output stood after it, as far as readers are told
    skipped: frozenset[tuple[Place, int]] = frozenset()  # records that it passed over, as a person has said


@dataclass(frozen=True, slots=True)
class Began:
    """A driver has recovered: what it goes on after. From here on every older term is fenced."""

    driver: int
    term: int
    after_epoch: int
    sinks: frozenset[str] = frozenset()  # that it writes to; none: all there are


@dataclass(frozen=True, slots=True)
class Ended:
    """A driver is no more. `how`: finished, killed, or the name of the error it stopped with."""

    driver: int
    how: str
    says: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """A look from outside, with the eyes of a read_committed reader.

    `settled`: nothing was on its way. Kafka writes end markers partition by partition, so that a look in between may
    find half an epoch in another partition's past; only settled looks have to be whole.
    """

    at: int
    settled: bool
    decided: frozenset[int]  # epochs whose decision was durable
    visible: Mapping[str, Mapping[Place, tuple[Part, ...]]]  # by sink
    group: Mapping[Place, int] | None = None
    marker: int | None = None  # the epoch that the group's marker names


@dataclass(frozen=True, slots=True)
class Damaged:
    """Somebody outside forgot or altered something: from here on a driver may say so."""

    kind: str
    forgot: tuple[str, int] | None = None  # the sink, and the epoch that it has lost


Event = Began | Ended | Observed | Damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A whole run, with everything a reader could find out after it had healed."""

    events: tuple[Event, ...]
    input: Mapping[Place, tuple[tuple[int, int], ...]]  # (id, key), in order
    planned: Mapping[int, Mapping[Place, int]]  # for each epoch, where its input ends
    sinks: Mapping[str, Mapping[Place, tuple[Row, ...]]]
    log: Mapping[Place, tuple[LogBatch, ...]] = field(default_factory=dict)
    group: Mapping[Place, int] | None = None
    ledger: tuple[LedgerLine, ...] = ()
    decisions: tuple[tuple[int, int], ...] = ()  # epoch and term of each that the ledger has made
    state: Mapping[int, int] | None = None  # the query's state: how often each key came
    left_behind: tuple[str, ...] = ()
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    expected: frozenset[str] = frozenset()  # errors that what people do in this run may lead to
    savepoints: tuple[str, ...] = ()  # what is wrong with savepoints that are called whole
