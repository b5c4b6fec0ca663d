"""Random networks and random orders of events, from dice that the caller has seeded.

The applications' choices and the markers' come from different dice. So the same work can be run with many snapshots,
with slow ones and with none, and must come out the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from onceward.snapshot_algorithms.chandy_lamport.bank import Purse, pay
from onceward.snapshot_algorithms.chandy_lamport.messages import Channel, Marker
from onceward.snapshot_algorithms.chandy_lamport.network import Network

Bank = Network[Purse, Purse]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Who starts which snapshot at which step, and how often (0 to 1) a marker is delivered without need.

    With 0 a marker waits until a message behind it has to pass.
    """

    starts: Mapping[int, tuple[tuple[str, str], ...]]
    eagerness: float

    @property
    def names(self) -> set[str]:
        return {snapshot for starts in self.starts.values() for _, snapshot in starts}


NO_SNAPSHOT = Snapshots({}, 0)


def random_channels(dice: Random, processes: list[str]) -> list[Channel]:
    """A ring through all processes in some order, so that everybody reaches everybody, and more channels across it."""
    ring = dice.sample(processes, len(processes))
    channels = {Channel(source, target) for source, target in zip(ring, ring[1:] + ring[:1], strict=True)}
    for _ in range(int(dice.random() * 2 * len(processes))):
        source, target = dice.sample(processes, 2)
        channels.add(Channel(source, target))
    return sorted(channels)


def random_purses(dice: Random, processes: list[str]) -> dict[str, Purse]:
    return {name: Purse(int(dice.random() * 100), (2 * i, 2 * i + 1)) for i, name in enumerate(processes)}


def random_snapshots(dice: Random, processes: list[str], steps: int) -> Snapshots:
    """One to three snapshots, each started by one to three processes, which may not know of each other."""
    starts: dict[int, tuple[tuple[str, str], ...]] = {}
    for number in range(1 + int(dice.random() * 3)):
        for process in dice.sample(processes, 1 + int(dice.random() * min(3, len(processes)))):
            step = int(dice.random() * steps)
            starts[step] = (*starts.get(step, ()), (process, f"S{number}"))
    return Snapshots(starts, dice.choice((0.0, 0.3, 1.0)))


def run(bank: Bank, steps: int, work: Random, snapshots: Snapshots, markers: Random) -> None:
    """Payments and deliveries in any order that the channels allow; at the end everything is delivered."""
    outgoing = {name: process.recorder.outgoing for name, process in bank.processes.items()}
    names = list(outgoing)
    for step in range(steps):
        for process, snapshot in snapshots.starts.get(step, ()):
            bank.start_snapshot(process, snapshot)
        if markers.random() < snapshots.eagerness:
            _deliver_a_marker(bank, markers)
        waiting = [channel for channel, count in bank.in_flight.items() if count]
        if waiting and work.random() < 0.5:
            deliver_next_message(bank, waiting[int(work.random() * len(waiting))])
        else:
            process = names[int(work.random() * len(names))]
            stays, goes = pay(work, bank.processes[process].state)
            channels = outgoing[process]
            bank.act(process, stays, {channels[int(work.random() * len(channels))]: goes})
    while waiting := [channel for channel, count in bank.in_flight.items() if count]:
        deliver_next_message(bank, waiting[int(work.random() * len(waiting))])
    while _deliver_a_marker(bank, markers):
        pass


def deliver_next_message(bank: Bank, channel: Channel) -> None:
    """Markers that stand before the message go first: a channel has one order."""
    before = bank.in_flight[channel]
    while bank.in_flight[channel] == before:
        bank.deliver(channel)


def _deliver_a_marker(bank: Bank, dice: Random) -> bool:
    """Some channel's, if it comes first there."""
    first = [channel for channel, queue in bank.queues.items() if queue and isinstance(queue[0], Marker)]
    if first:
        bank.deliver(first[int(dice.random() * len(first))])
    return bool(first)
