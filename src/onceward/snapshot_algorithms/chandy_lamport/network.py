"""Processes joined by channels, and the history of what happened. Whoever drives it decides what happens next."""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Generic, NamedTuple, TypeVar

from onceward.snapshot_algorithms.chandy_lamport.messages import Channel, Marker, Message
from onceward.snapshot_algorithms.chandy_lamport.process import Markers, Process
from onceward.snapshot_algorithms.chandy_lamport.recorder import Recorder

State = TypeVar("State")
Body = TypeVar("Body")


class Acted(NamedTuple):
    """A process changed its state, and told nobody."""

    process: str


class Sent(NamedTuple):
    process: str
    channel: Channel
    number: int


class Received(NamedTuple):
    process: str
    channel: Channel
    number: int


class Recorded(NamedTuple):
    """A process recorded its state: here the cut goes through it."""

    process: str
    snapshot: str


Happened = Acted | Sent | Received | Recorded


class GlobalSnapshot(NamedTuple, Generic[State, Body]):
    states: Mapping[str, State]
    channels: Mapping[Channel, tuple[Message[Body], ...]]


class Network(Generic[State, Body]):
    """`initial` names the processes. A channel is a queue; only its first element can be delivered."""

    def __init__(
        self,
        initial: Mapping[str, State],
        channels: Collection[Channel],
        absorb: Callable[[State, Body], State],
        recorder: type[Recorder[State, Body]] = Recorder,
    ) -> None:
        self.queues: dict[Channel, deque[Message[Body] | Marker]] = {it: deque() for it in channels}
        self.in_flight: dict[Channel, int] = dict.fromkeys(channels, 0)  # messages, without markers
        self.history: list[Happened] = []
        self.processes: dict[str, Process[State, Body]] = {}
        for name, state in initial.items():
            incoming = [it for it in channels if it.target == name]
            outgoing = [it for it in channels if it.source == name]
            self.processes[name] = Process(name, state, absorb, recorder(incoming, outgoing))
        self._messages = 0

    def act(self, process: str, state: State, sends: Mapping[Channel, Body]) -> None:
        """A process goes over to another state, and sends what belongs to that step."""
        self.processes[process].state = state
        if not sends:
            self.history.append(Acted(process))
        for channel, body in sends.items():
            assert channel.source == process, f"{process} cannot send on {channel}"
            self._messages += 1
            self.queues[channel].append(Message(self._messages, body))
            self.in_flight[channel] += 1
            self.history.append(Sent(process, channel, self._messages))

    def start_snapshot(self, process: str, snapshot: str) -> None:
        """Any process may, at any time, and several may start the same one."""
        known = snapshot in self.processes[process].recorder.snapshots
        self._recorded(process, snapshot, self.processes[process].start_snapshot(snapshot), known=known)

    def deliver(self, channel: Channel) -> None:
        """The first message or marker of a channel reaches its target."""
        process, first = self.processes[channel.target], self.queues[channel].popleft()
        if isinstance(first, Marker):
            known = first.snapshot in process.recorder.snapshots
            self._recorded(process.name, first.snapshot, process.receive_marker(channel, first), known=known)
        else:
            self.in_flight[channel] -= 1
            self.history.append(Received(process.name, channel, first.number))
            process.receive(channel, first)

    def put_marker(self, channel: Channel, marker: Marker) -> None:
        self.queues[channel].append(marker)

    def snapshot(self, snapshot: str) -> GlobalSnapshot[State, Body] | None:
        """Every process's part put together, once all are complete."""
        parts = {name: it.recorder.snapshots.get(snapshot) for name, it in self.processes.items()}
        found = {name: part for name, part in parts.items() if part is not None and part.complete}
        if len(found) < len(parts):
            return None
        states = {name: part.state for name, part in found.items()}
        return GlobalSnapshot(states, {it: tuple(m) for part in found.values() for it, m in part.channels.items()})

    def _recorded(self, process: str, snapshot: str, markers: Markers, *, known: bool) -> None:
        if not known:
            self.history.append(Recorded(process, snapshot))
        for channel, marker in markers:
            self.put_marker(channel, marker)
