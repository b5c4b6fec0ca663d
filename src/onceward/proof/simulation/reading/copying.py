"""A topic that is copied, epoch by epoch: production copies, sizes, encoder, sender and turns, on simulated leaders.

An epoch's try is a transaction of its own producer epoch. What a try cannot copy the next one is given by Spark, which
reads as it should here, or says that the records are gone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from kafka.protocol.producer import ProduceResponse
from kafka.record.default_records import DefaultRecordBatch
from pyspark import cloudpickle

from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import Span, TopicPartition
from onceward.errors import OncewardError
from onceward.kafka.batch import BatchHeader
from onceward.kafka.ranges import PATIENCE_S, RangeReader
from onceward.kafka.records import Compression
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import Identity
from onceward.proof.simulation.partition import PartitionLog
from onceward.proof.simulation.reading.checking import Broken, Excuses, Seen, compared, judged, together
from onceward.proof.simulation.reading.schedule import Trouble
from onceward.proof.simulation.reading.wire import MOVED, Net, Stuck, places
from onceward.proof.simulation.reading.world import World
from onceward.sinks.kafka.copying import Copied, Copies, Copy, Origin
from onceward.sinks.kafka.encoding import HASH, Catalog, Encoder, Topic
from onceward.sinks.kafka.functions import Function, Kind
from onceward.sinks.kafka.sink import LARGER
from onceward.sinks.kafka.tasks import send_in_turn
from onceward.sinks.kafka.turns import Turns, turns
from onceward.sinks.rows import Size

OUT: Final = "out"
OUTPUTS: Final = 2
PRODUCER: Final = 100
SIZES: Final = (200, 2_000, 20_000)
MOST_TRIES: Final = 6
LATER: Final = (19, 51, MOVED, 3, 5)  # what a leader may say to a batch that it has not taken
KeyValue = tuple[bytes | None, bytes | None]


class InputGone(Exception):
    """Spark says so: Kafka has deleted records that were not read yet."""


def _as_it_is(column: pa.BinaryArray) -> pa.BinaryArray:
    if not len(column):
        raise Broken("no-empty-call", "a function was called with nothing")
    return column


FUNCTION: Final = Function(Kind.ARROW, False, False, cloudpickle.dumps((_as_it_is, None)))  # type: ignore[no-untyped-call]  # noqa: FBT003


@dataclass(slots=True)
class Output:
    """The topic that is written to."""

    logs: dict[TopicPartition, PartitionLog] = field(
        default_factory=lambda: {it: PartitionLog() for it in places(OUT, OUTPUTS)}
    )

    def produce(self, net: Net, request: Any, trouble: Trouble | None) -> ProduceResponse:
        """As leaders take batches: sequences are compared, bytes are not."""
        topic = ProduceResponse.TopicProduceResponse
        kind, argument = (trouble.kind, trouble.argument) if trouble is not None else ("", 0)
        answers = []
        for data in request.topic_data:
            parts = []
            for part in data.partition_data:
                code, offset = LATER[argument % len(LATER)], -1
                if kind == "moved":
                    code = MOVED
                elif kind != "error":
                    code, offset = self._take(TopicPartition(data.name, part.index), bytes(part.records))
                net.tell(f"{data.name}-{part.index}: code {code}, offset {offset}")
                parts.append(topic.PartitionProduceResponse(index=part.index, error_code=code, base_offset=offset))
            answers.append(topic(name=data.name, partition_responses=parts))
        return ProduceResponse(responses=answers, throttle_time_ms=argument * 50 if kind == "throttle" else 0)

    def _take(self, place: TopicPartition, data: bytes) -> tuple[int, int]:
        header = BatchHeader.of(data)
        rows = [(it.key, it.value) for it in DefaultRecordBatch(data)]
        return self.logs[place].append(
            header.producer_id, header.producer_epoch, header.base_sequence, header.record_count, rows
        )

    def finish(self, identity: Identity, *, commit: bool) -> None:
        """Where it has written."""
        for log in self.logs.values():
            if log.has_open(identity.producer_id, identity.producer_epoch):
                log.finish(identity.producer_id, identity.producer_epoch, commit=commit)

    def visible(self, identity: Identity) -> dict[TopicPartition, list[KeyValue]]:
        """What readers see of one transaction."""
        return {
            place: [row for it in log.visible() if it.producer_epoch == identity.producer_epoch for row in it.rows]
            for place, log in self.logs.items()
        }


@dataclass(slots=True)
class Copying:
    """A sink that copies, and the engine that plans its epochs."""

    world: World
    output: Output
    size: Size
    copies: Copies
    origin: Origin
    catalog: Catalog
    tries: int = 0

    @property
    def identity(self) -> Identity:
        """Each try has an epoch of its own."""
        return Identity(PRODUCER, self.tries)

    @classmethod
    def of(cls, world: World) -> "Copying":
        dice, net, output = world.dice, world.net, Output()
        fetch = net.answer
        net.answer = lambda net, request, trouble: (output.produce if hasattr(request, "topic_data") else fetch)(
            net, request, trouble
        )
        net.partitions = {**net.partitions, OUT: OUTPUTS}
        copied = Copied(net.cluster, with_partition=False, function=FUNCTION if dice.random() < 0.4 else None)
        return cls(
            world,
            output,
            Size(SIZES[int(dice.random() * len(SIZES))], clock=net.clock),
            Copies(net.cluster, world.wire, net.clock),
            Origin(copied, lambda _: None),
            Catalog({OUT: Topic(OUTPUTS, 1 << 20)}),
        )

    def run(self) -> tuple[dict[str, list[str]], str]:
        """All epochs, to the end of what is stable."""
        epochs, begins, broken = 1 + int(self.world.dice.random() * 3), dict[TopicPartition, int](), []
        for place, log in self.world.logs.items():
            begins[place] = log.start
        for epoch in range(epochs):
            ends = {
                place: log.stable
                if epoch == epochs - 1
                else max(begins[place], self.world.range_of(log, log.stable)[1])
                for place, log in self.world.logs.items()
            }
            wanted = {place: self._rows(place, begins[place], end) for place, end in ends.items()}
            rows = sum(end - begins[place] for place, end in ends.items())
            context = EpochContext(epoch=epoch, positions=ends, input_rows=rows, begins=dict(begins))
            try:
                broken.append(self._epoch(context))
            except InputGone:
                return together(broken), "InputGone"
            except Stuck as stuck:
                return {"progress": [str(stuck)]}, "Stuck"
            except Exception as error:  # noqa: BLE001 - whatever it is, it is judged
                return together([*broken, judged(error, self._excuses(context))]), type(error).__name__
            broken.append(self._judged(epoch, wanted))
            begins = dict(ends)
        return together(broken), "whole"

    def _epoch(self, context: EpochContext) -> dict[str, list[str]]:
        """Tries, until one is committed; an error that nothing excuses is told."""
        broken = []
        for attempt in range(1, MOST_TRIES + 1):
            self.tries += 1
            this = EpochContext(
                epoch=context.epoch,
                attempt=attempt,
                positions=context.positions,
                input_rows=context.input_rows,
                begins=context.begins,
            )
            try:
                self._write(this)
            except OncewardError as error:
                self.world.net.tell(f"try {attempt}: {type(error).__name__} {error}")
                self.output.finish(self.identity, commit=False)
                broken.append(judged(error, self._excuses(context)))
                continue
            self.output.finish(self.identity, commit=True)
            return together(broken)
        return {"progress": [f"epoch {context.epoch} was tried {MOST_TRIES} times"]}

    def _write(self, context: EpochContext) -> None:
        """As the sink does (sink.py): copied here, or over tasks, or given by Spark."""
        copy, small = self.copies.of(self.origin, context), self.size.is_small(context)
        if copy is None or (small and copy.function is not None):
            self._write_here(self._of_spark(context))
            return
        with self.copies.tried():
            most = self.size.small_epoch_bytes * LARGER
            read = partial(copy.table, self.copies.reader(copy), most)
            if small and (table := self.size.read_here(context, read)) is not None:
                if table.nbytes > most:
                    raise Broken("small-is-small", f"the driver holds {table.nbytes} bytes, and may hold {most}")
                self._write_here(table)
            else:
                self.size.learn_rows(context, self._over_tasks(copy))

    def _over_tasks(self, copy: Copy) -> int:
        """One task for each range; which of them gets on next is up to the dice."""
        rows = 0
        with turns(self.catalog) as shared:
            tasks = [self._task(copy, number, shared) for number in range(len(copy.ranges))]
            while tasks:
                task = tasks[int(self.world.dice.random() * len(tasks))]
                if (written := next(task, None)) is None:
                    tasks.remove(task)
                rows += written or 0
        return rows

    def _task(self, copy: Copy, number: int, shared: Turns) -> Iterator[int]:
        encoder, sender = self._encoder(), self._sender()
        for batch in copy.read(RangeReader(self.world.wire, self.world.net.clock), [number]):
            encoded = list(encoder.encode(pa.Table.from_batches([batch])))
            send_in_turn(shared, sender, encoded, 0)
            yield batch.num_rows

    def _write_here(self, table: pa.Table) -> None:
        sender = self._sender()
        for place, batch in self._encoder().encode(table):
            sender.send(place, batch.payload, batch.count)
        for place, span in sender.flush().items():
            if span != self._span(place):
                raise Broken("spans", f"{place}: {span} is told, and {self._span(place)} is so")

    def _span(self, place: TopicPartition) -> Span:
        mine = [
            it
            for it in self.output.logs[place].batches
            if it.kind == "data" and it.producer_epoch == self.identity.producer_epoch
        ]
        return Span(mine[0].offset, mine[-1].offset + mine[-1].count)

    def _encoder(self) -> Encoder:
        return Encoder(OUT, Compression.NONE, self.catalog, self.world.wire)

    def _sender(self) -> Sender:
        return Sender(self.world.wire, self.identity, "p", clock=self.world.net.clock)

    def _of_spark(self, context: EpochContext) -> pa.Table:
        assert context.begins is not None
        rows = list[KeyValue]()
        for place, end in context.positions.items():
            if self.world.logs[place].start > context.begins[place] and end > context.begins[place]:
                raise InputGone
            rows += self._rows(place, context.begins[place], end)
        keys, values = ([row[number] for row in rows] for number in (0, 1))
        columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
        return pa.table({**columns, HASH: pa.array(np.zeros(len(rows), np.uint64))})

    def _rows(self, place: TopicPartition, start: int, end: int) -> list[KeyValue]:
        return [(it.key, it.value) for it in self.world.logs[place].rows(start, end)]

    def _excuses(self, context: EpochContext) -> list[Excuses]:
        begins = context.begins or {}
        return [
            self.world.excuses(place, begins[place], end, takes_old=False, patience_s=PATIENCE_S)
            for place, end in context.positions.items()
            if end > begins[place]
        ]

    def _judged(self, epoch: int, wanted: Mapping[TopicPartition, list[KeyValue]]) -> dict[str, list[str]]:
        """Each record once, and those of one partition in order wherever they went."""
        found = self.output.visible(self.identity)
        everything = [row for rows in found.values() for row in rows]
        all_wanted = sorted((row for rows in wanted.values() for row in rows), key=repr)
        broken = [compared(Seen(f"epoch {epoch}", all_wanted, sorted(everything, key=repr)))]
        for source, rows in wanted.items():
            mine = set(rows)
            for target, written in found.items():
                got = [row for row in written if row in mine]
                there = set(got)
                broken.append(
                    compared(Seen(f"epoch {epoch}, {source} in {target}", [it for it in rows if it in there], got))
                )
        return together(broken)
