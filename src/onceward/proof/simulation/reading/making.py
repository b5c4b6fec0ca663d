"""Logs by a seed: several producers at once, aborted and committed, old formats, compacted or not, open at the end."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from onceward.proof.simulation.reading import kept
from onceward.proof.simulation.reading.kept import KeyValue, Writer
from onceward.proof.simulation.reading.log import Gone, Log, Stored

PRODUCERS: Final = (7, 8)  # with transactions; anybody else writes without
LARGE: Final = 800
OLD: Final = 0.1  # of logs begin with messages from before Kafka 0.11


@dataclass(slots=True)
class _Making:
    dice: Random
    name: int  # of the partition: no two records of a run are alike
    codec: int
    times: int  # that a value repeats itself: some topics have large records
    at: int
    stored: list[Stored] = field(default_factory=list)
    aborted: list[Gone] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)  # of a producer: where its transaction begins
    sequences: dict[int, int] = field(default_factory=dict)

    def records(self) -> list[KeyValue]:
        """One batch's."""
        return [self._record(self.at + number) for number in range(1 + int(self.dice.random() * 4))]

    def _record(self, offset: int) -> KeyValue:
        chance, unique = self.dice.random(), b"%d:%d" % (self.name, offset)
        if chance < 0.1:
            return unique, None
        return (None if chance < 0.3 else b"k%d" % (offset % 3)), unique * self.times

    def write(self, producer: int) -> None:
        """A batch, in a transaction if the producer has such."""
        pairs = self.records()
        sequence = self.sequences.get(producer, 0)
        writer = Writer(producer, 0, sequence, producer in PRODUCERS) if producer >= 0 else Writer()
        last = self.at + len(pairs) - 1
        records = dict(enumerate(pairs, self.at))
        data = kept.batch(self.at, last, records, writer, codec=self.codec)
        fate = None if producer in PRODUCERS else True
        self.stored.append(Stored(self.at, last, data, records, producer, fate))
        self.sequences[producer] = sequence + len(pairs)
        if producer in PRODUCERS:
            self.open.setdefault(producer, self.at)
        self.at = last + 1

    def finish(self, producer: int, *, commits: bool) -> None:
        """The broker's marker behind a transaction."""
        begun = self.open.pop(producer)
        for it in self.stored:
            if it.producer_id == producer and it.first >= begun and it.records:
                it.fate = commits
        if not commits:
            self.aborted.append(Gone(producer, begun, self.at))
        data = kept.end(self.at, Writer(producer, 0), commits=commits)
        self.stored.append(Stored(self.at, self.at, data, {}, producer, aborts=not commits))
        self.at += 1

    def write_old(self) -> None:
        """As clients of those days did."""
        for magic in (0, 1):
            for codec in (0, kept.GZIP):
                pairs = self.records()
                data = kept.old(magic, self.at, pairs, codec=codec)
                last = self.at + len(pairs) - 1
                self.stored.append(Stored(self.at, last, data, dict(enumerate(pairs, self.at)), is_old=True))
                self.at = last + 1


def made(dice: Random, name: int, *, is_compacted: bool) -> Log:
    """One partition."""
    making = _Making(
        dice,
        name,
        codec=kept.GZIP if dice.random() < 0.2 else 0,
        times=LARGE if dice.random() < 0.1 else 1,
        at=int(dice.random() * 30),
    )
    start = making.at
    if dice.random() < OLD:
        making.write_old()
    for _ in range(4 + int(dice.random() * 12)):
        producer = (*PRODUCERS, -1, 9)[int(dice.random() * 4)]
        if producer in making.open and dice.random() < 0.5:
            making.finish(producer, commits=dice.random() < 0.5)
        else:
            making.write(producer)
    for producer in list(making.open):
        if dice.random() < 0.8:
            making.finish(producer, commits=dice.random() < 0.7)
    stable = min([making.at, *making.open.values()])
    log = Log(making.stored, making.aborted, start, stable, making.at, is_compacted)
    if is_compacted:
        _compact(dice, log, making.codec)
    return log


def _compact(dice: Random, log: Log, codec: int) -> None:
    """Records go, then batches, or they stay without records. What lies last is not cleaned, nor what is undecided."""
    clean, dirty = log.stored[:-2], log.stored[-2:]
    kept_of = dict.fromkeys(log.aborted, False)
    stored = list[Stored]()
    for it in clean:
        if it.first >= log.stable or it.is_old:
            stored.append(it)
        elif it.records:
            left = {at: pair for at, pair in it.records.items() if dice.random() < (0.6 if it.fate else 0.2)}
            if left or dice.random() < 0.4:
                writer = Writer(it.producer_id, 0, 0, it.producer_id in PRODUCERS) if it.producer_id >= 0 else Writer()
                data = kept.batch(it.first, it.last, left, writer, codec=codec)
                stored.append(Stored(it.first, it.last, data, left, it.producer_id, it.fate))
        elif dice.random() < 0.7 or _has_data(log, it, stored):
            stored.append(it)
    log.stored = [*stored, *dirty]
    for gone in log.aborted:
        kept_of[gone] = any(
            it.producer_id == gone.producer_id and gone.first <= it.first <= gone.last and it.records
            for it in log.stored
        )
    log.aborted = [gone for gone in log.aborted if kept_of[gone]]


def _has_data(log: Log, end: Stored, stored: list[Stored]) -> bool:
    """Whether something of the transaction is left: its end stays as long."""
    begun = next((it.first for it in log.aborted if it.last == end.first), None)
    if begun is None:
        return True
    return any(it.producer_id == end.producer_id and it.first >= begun and it.records for it in stored)
