"""`onceward kafka produce`: write records by hand, or from a file."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from onceward.cli.clusters import DirOption, KafkaOption, SettingOption, connected, named_values
from onceward.cli.kafka_lines import SEPARATOR, JsonLines, Lines, PlainLines, Row, rows
from onceward.cli.output import AsJson, progress, result
from onceward.errors import OncewardError

if TYPE_CHECKING:
    import io

    from onceward.epoch.outcome import Span, TopicPartition
    from onceward.kafka.wire import Wire

AT_ONCE: Final = 1 << 20  # bytes of standard input; what is there already is written without waiting for more


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    records: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY:VALUE", help="Default: the lines of standard input.", show_default=False),
    ] = None,
    *,
    separator: Annotated[
        str | None, typer.Option(help="Between key and value; \\t is a tab. Default: a colon.", show_default=False)
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="The whole line is the value.")] = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Each line is a JSON object as `consume --json` prints it.")
    ] = False,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header of every record.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Of every record. Default: by its key, as Java's producer does.")
    ] = None,
    kafka: KafkaOption = None,
    setting: SettingOption = None,
    folder: DirOption = None,
    as_json: AsJson = False,
) -> None:
    """Write records, each once, and say where they are. Lines are key:value; a line without a colon has no key."""
    form = _form(separator, no_key=no_key, json_lines=json_lines)
    headers = [(name, value.encode()) for name, value in named_values("--header", header).items()]
    with connected(kafka, setting, folder) as wire:
        writer = _Writer(wire, topic, headers, partition)
        number = 1
        for lines in [[os.fsencode(it) for it in records]] if records else _standard_input():
            try:
                writer.write(list(rows(lines, number, form)))
            except OncewardError:
                progress(f"{writer.total} records were written before this:")
                raise
            number += len(lines)
        facts, text = writer.told()
    result(facts, text, as_json=as_json)


def _form(separator: str | None, *, no_key: bool, json_lines: bool) -> PlainLines | JsonLines:
    if (separator is not None) + no_key + json_lines > 1:
        raise typer.BadParameter("--separator, --no-key and --json-lines exclude each other")
    if separator == "":
        raise typer.BadParameter("--separator is empty; --no-key says that lines have no key")
    if json_lines:
        return JsonLines()
    if no_key:
        return PlainLines(separator=None)
    return PlainLines((separator or SEPARATOR).replace("\\t", "\t").encode(), chosen=separator is not None)


def _standard_input() -> Iterator[list[bytes]]:
    """As it comes: a line that was typed is written when it ends. Ctrl-C ends it as Ctrl-D does."""
    if sys.stdin.isatty():
        progress("One record on each line, key:value; Ctrl-D ends.")
    lines = Lines()
    while True:
        try:
            data = cast("io.BufferedReader", sys.stdin.buffer).read1(AT_ONCE)
        except KeyboardInterrupt:
            data = b""
        yield lines.of(data)
        if not data:
            return


class _Writer:
    """One idempotent producer: a repeated request adds nothing."""

    def __init__(self, wire: "Wire", topic: str, headers: list[tuple[str, bytes]], partition: int | None) -> None:
        from onceward.kafka.idempotent import IdempotentProducer
        from onceward.kafka.records import Compression
        from onceward.kafka.sender import Sender
        from onceward.kafka.topics import require
        from onceward.sinks.kafka.encoding import Catalog, Encoder

        self._topic, self._headers, self._partition = topic, headers, partition
        self._count = require(wire, [topic])[topic]
        self._require_there(partition)
        producer = IdempotentProducer(wire, "")
        producer.begin()
        self._encoder = Encoder(topic, Compression.NONE, Catalog(), wire)
        self._sender = Sender(wire, producer.identity, None)
        self._spans: dict[TopicPartition, Span] = {}
        self._counts: Counter[TopicPartition] = Counter()

    @property
    def total(self) -> int:
        """Records that brokers have acknowledged."""
        return self._counts.total()

    def write(self, found: list[Row]) -> None:
        """All of them are acknowledged when it returns."""
        if not found:
            return
        for row in found:
            self._require_there(row.partition)
        counts: Counter[TopicPartition] = Counter()
        for place, batch in self._encoder.encode(self._table(found)):
            self._sender.send(place, batch.payload, batch.count)
            counts[place] += batch.count
        self._spans = self._sender.flush()
        self._counts += counts

    def told(self) -> tuple[dict[str, object], str]:
        """What was written where, for programs and for people."""
        total = self.total
        lines = [f"{self._topic}: {total} {'record' if total == 1 else 'records'} written"]
        facts = []
        for place, count in sorted(self._counts.items()):
            span = self._spans.get(
                place
            )  # None: a repeated request, and the broker does not say where the first one is
            first, last = (None, None) if span is None else (span.first, span.end - 1)
            facts.append({"partition": place.partition, "records": count, "first": first, "last": last})
            lines.append(f"  partition {place.partition}: {count}{_offsets(first, last)}")
        return {"topic": self._topic, "records": total, "partitions": facts}, "\n".join(lines)

    def _require_there(self, partition: int | None) -> None:
        from onceward.kafka.topics import require_partition

        if partition is not None:
            require_partition(self._topic, self._count, partition)

    def _table(self, found: list[Row]) -> object:
        import numpy as np
        import pyarrow as pa

        from onceward.sinks.kafka.encoding import HASH

        before = self.total  # records without a key go round the partitions
        pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        headers = [[{"key": name, "value": value} for name, value in [*self._headers, *it.headers]] for it in found]
        partitions = [self._partition if it.partition is None else it.partition for it in found]
        return pa.table(
            {
                "key": pa.array([it.key for it in found], pa.binary()),
                "value": pa.array([it.value for it in found], pa.binary()),
                "headers": pa.array(headers, pairs),
                "partition": pa.array(partitions, pa.int32()),
                "timestamp": pa.array([it.timestamp_ms for it in found], pa.int64()),
                HASH: pa.array(np.arange(before, before + len(found), dtype=np.int64)),
            }
        )


def _offsets(first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return f" at offset {first}" if first == last else f" at offsets {first} to {last}"
