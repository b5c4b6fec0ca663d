"""Whether a snapshot is a consistent cut: what happened before something inside it is inside it too.

Knows the history and nothing of the algorithm. Happened-before is told by vector clocks, which only the checker has.
"""

from collections.abc import Sequence
from typing import TypeVar

from onceward.snapshot_algorithms.chandy_lamport.messages import Channel
from onceward.snapshot_algorithms.chandy_lamport.network import GlobalSnapshot, Happened, Received, Recorded, Sent

State = TypeVar("State")
Body = TypeVar("Body")
Clock = list[int]  # how many events of each process happened before, in the order of `processes`


def clocks_at_the_cut(history: Sequence[Happened], processes: Sequence[str], snapshot: str) -> dict[str, Clock]:
    """Each process's vector clock at the moment when it recorded its state."""
    place = {name: index for index, name in enumerate(processes)}
    clocks: list[Clock] = [[0] * len(place) for _ in place]
    on_the_way: dict[int, Clock] = {}
    cut: dict[str, Clock] = {}
    for event in history:
        index = place[event.process]
        if isinstance(event, Recorded):
            if event.snapshot == snapshot:
                cut[event.process] = list(clocks[index])
            continue
        clock = clocks[index]
        if isinstance(event, Received):
            clocks[index] = clock = [max(pair) for pair in zip(clock, on_the_way[event.number], strict=True)]
        clock[index] += 1
        if isinstance(event, Sent):
            on_the_way[event.number] = list(clock)
    return cut


def effects_without_cause(history: Sequence[Happened], processes: Sequence[str], snapshot: str) -> list[str]:
    """What a process inside the cut knows of another that is outside the cut."""
    cut = clocks_at_the_cut(history, processes, snapshot)
    return [
        f"{snapshot}: {knows} has seen event {cut[knows][index]} of {name}, whose state is of event {cut[name][index]}"
        for index, name in enumerate(processes)
        for knows in processes
        if cut[knows][index] > cut[name][index]
    ]


def crossing(history: Sequence[Happened], snapshot: str) -> dict[Channel, list[int]]:
    """For each channel the messages that cross the cut: sent inside it, and received outside or never."""
    inside: dict[Channel, list[int]] = {}
    recorded: set[str] = set()
    for event in history:
        if isinstance(event, Recorded):
            if event.snapshot == snapshot:
                recorded.add(event.process)
        elif event.process not in recorded:
            if isinstance(event, Sent):
                inside.setdefault(event.channel, []).append(event.number)
            elif isinstance(event, Received) and event.number in inside.get(event.channel, ()):
                inside[event.channel].remove(event.number)
    return inside


def violations(history: Sequence[Happened], snapshot: str, taken: GlobalSnapshot[State, Body]) -> list[str]:
    """Everything that is wrong with a snapshot, in words. A right one has none."""
    found = effects_without_cause(history, list(taken.states), snapshot)
    expected = crossing(history, snapshot)
    for channel, messages in taken.channels.items():
        stored = [it.number for it in messages]
        if stored != expected.get(channel, []):
            found.append(f"{snapshot}: {channel} holds {stored}, and {expected.get(channel, [])} cross the cut")
    return found
