"""Tasks of one machine take turns at a partition, so that each sends what it has encoded itself.

All records that a transaction writes to a partition carry one run of sequence numbers. Whoever has the turn goes on
where the last one ended, waits until the brokers have acknowledged all of it, and notes how far that came. This needs
a lock and a few bytes that all tasks share: it works on one machine. On a cluster encoded batches are shipped to one
writer for each partition instead.
"""

import fcntl
import os
import struct
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from onceward.epoch.outcome import TopicPartition
from onceward.errors import OncewardError
from onceward.sinks.kafka.encoding import Catalog
from onceward.sinks.parcel import kept_in_memory, open_kept

NUMBER: Final = struct.Struct("<q")
UNFINISHED: Final = -1  # somebody has the turn, or died while having it


class TurnLost(OncewardError):
    """The sequence number to go on with is not known: the epoch is redone, with one writer for each partition."""


@dataclass(frozen=True, slots=True)
class Turns:
    """For one try of an epoch. Each partition has a number, kept where the driver has its memory."""

    path: str
    name: str  # of this try's numbers and no other's
    slots: Mapping[TopicPartition, int]

    @contextmanager
    def at(self, places: Collection[TopicPartition]) -> "Iterator[dict[TopicPartition, int]]":
        """The next sequence number of each partition; the block puts in what comes after those it has used.

        A block that fails, or a process that dies in it, leaves the numbers unknown, and everybody after it stops.
        """
        if unplanned := [place for place in places if place not in self.slots]:
            raise TurnLost(f"{unplanned[0]} was not known when the epoch's job began")
        ordered = sorted(places, key=self.slots.__getitem__)  # all in one order, so that none waits for another in turn
        try:
            descriptor = open_kept(self.path, self.name, os.O_RDWR)
        except OSError as error:
            raise TurnLost(f"the epoch's numbers are gone, so its job is over ({error})") from error
        try:
            for place in ordered:
                fcntl.lockf(descriptor, fcntl.LOCK_EX, NUMBER.size, self._at(place))
            numbers = {place: self._read(descriptor, place) for place in ordered}
            for place in ordered:
                self._write(descriptor, place, UNFINISHED)
            yield numbers
            for place in ordered:
                self._write(descriptor, place, numbers[place])
        finally:
            os.close(descriptor)  # gives up every turn

    def _at(self, place: TopicPartition) -> int:
        return self.slots[place] * NUMBER.size

    def _read(self, descriptor: int, place: TopicPartition) -> int:
        (number,) = NUMBER.unpack(os.pread(descriptor, NUMBER.size, self._at(place)))
        if number == UNFINISHED:
            raise TurnLost(f"{place}: another task failed while it had the turn")
        return int(number)

    def _write(self, descriptor: int, place: TopicPartition, number: int) -> None:
        os.pwrite(descriptor, NUMBER.pack(number), self._at(place))


@contextmanager
def turns(catalog: Catalog) -> Iterator[Turns]:
    """For every partition of the topics that are known; gone when the block is left."""
    places = [
        TopicPartition(name, number) for name, topic in catalog.topics.items() for number in range(topic.partitions)
    ]
    name = f"onceward-turns-{uuid.uuid4().hex}"
    with kept_in_memory(name, NUMBER.pack(0) * len(places)) as path:
        yield Turns(path, name, {place: slot for slot, place in enumerate(places)})
