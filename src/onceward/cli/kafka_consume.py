"""`onceward kafka consume`: what a reader of a topic sees."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.clusters import DirOption, KafkaOption, SettingOption, connected
from onceward.cli.kafka_lines import SEPARATOR, as_json, shown
from onceward.cli.output import progress

if TYPE_CHECKING:
    from onceward.epoch.outcome import TopicPartition
    from onceward.kafka.reading import Record
    from onceward.kafka.wire import Wire

EARLIEST, LATEST = "earliest", "latest"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    *,
    committed: Annotated[
        bool,
        typer.Option(
            "--committed/--uncommitted", help="Committed records only, or also those of open and aborted transactions."
        ),
    ] = True,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="earliest, latest, an offset, or a time such as 2026-11-15T12:00."
        ),
    ] = EARLIEST,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more, until Ctrl-C.")] = False,
    at_most: Annotated[int | None, typer.Option("--max", min=1, help="End after so many records.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="This one only.")] = None,
    offsets: Annotated[bool, typer.Option("--offsets", help="Print partition@offset before each record.")] = False,
    separator: Annotated[str, typer.Option(help="Between key and value; \\t is a tab.")] = SEPARATOR,
    kafka: KafkaOption = None,
    setting: SettingOption = None,
    folder: DirOption = None,
    json_lines: Annotated[bool, typer.Option("--json", help="Print each record as a JSON object.")] = False,
) -> None:
    """Print records, one on each line, up to the end of the topic as it was at the start."""
    from_time = _checked(start)
    between = separator.replace("\\t", "\t")
    with _interrupted() if follow else nullcontext(_never) as is_over, connected(kafka, setting, folder) as wire:
        ends = _ends(wire, topic, partition, committed=committed)
        starts = _starts(wire, topic, start, from_time, ends)
        found = _records(wire, starts, None if follow else ends, is_over, committed=committed)
        count = 0
        try:
            for record in islice(found, at_most):
                count += 1
                line = as_json(record) if json_lines else shown(record, where=offsets, separator=between)
                sys.stdout.write(f"{line}\n")
                if follow:
                    sys.stdout.flush()
        except KeyboardInterrupt:
            if not follow:
                raise
        sys.stdout.flush()
        progress(f"{count} {'record' if count == 1 else 'records'}{'' if committed else ', committed or not'}")
        if committed and not follow and count != at_most:
            _tell_what_is_open(wire, topic, ends)


@contextmanager
def _interrupted() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed. A second one ends at once.

    kafka-python takes an interrupt that comes while it works for an error of that work, and goes on.
    """
    pressed = threading.Event()

    def note(*_: object) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _never() -> bool:
    return False


def _checked(start: str) -> int | None:
    """The time in milliseconds, if it is one."""
    if start in (EARLIEST, LATEST) or start.isdecimal():
        return None
    try:
        return int(datetime.fromisoformat(start).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(
            f"--from {start} is neither earliest, latest, an offset nor a time such as 2026-11-15T12:00"
        ) from None


def _ends(wire: "Wire", topic: str, partition: int | None, *, committed: bool) -> "dict[TopicPartition, int]":
    from onceward.kafka.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets
    from onceward.kafka.topics import require, require_partition

    count = require(wire, [topic])[topic]
    if partition is not None:
        require_partition(topic, count, partition)
    found = offsets(wire, [topic], LATEST, READ_COMMITTED if committed else READ_UNCOMMITTED)
    return {place: end for place, end in found.items() if partition in (None, place.partition)}


def _starts(
    wire: "Wire", topic: str, start: str, time_ms: int | None, ends: "dict[TopicPartition, int]"
) -> "dict[TopicPartition, int]":
    """An offset that is not there any more, or not yet, stands for the nearest that is."""
    from onceward.kafka import offsets as kafka_offsets

    if start == LATEST:
        return dict(ends)
    at = kafka_offsets.EARLIEST if time_ms is None else time_ms
    first = kafka_offsets.offsets(wire, [topic], at)
    if start.isdecimal():
        return {place: min(max(first[place], int(start)), end) for place, end in ends.items()}
    return {place: end if first[place] < 0 else first[place] for place, end in ends.items()}  # none is that late


def _records(
    wire: "Wire",
    starts: "dict[TopicPartition, int]",
    ends: "dict[TopicPartition, int] | None",
    is_over: Callable[[], bool],
    *,
    committed: bool,
) -> "Iterator[Record]":
    from onceward.kafka.reading import Reader
    from onceward.kafka.topics import compacted

    reader = Reader(wire, starts, committed=committed, compacted=compacted(wire, {it.topic for it in starts}))
    return reader.follow(is_over) if ends is None else reader.until(ends)


def _tell_what_is_open(wire: "Wire", topic: str, ends: "dict[TopicPartition, int]") -> None:
    """A transaction that nobody ends holds up every reader of committed records behind it."""
    held_up = {place for place, end in wire.ends([topic]).items() if place in ends and ends[place] < end}
    if held_up:
        many = "1 partition has" if len(held_up) == 1 else f"{len(held_up)} partitions have"
        progress(f"{many} more behind the beginning of a transaction that was open (--uncommitted shows it)")
