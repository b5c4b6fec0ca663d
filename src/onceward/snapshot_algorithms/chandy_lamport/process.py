"""A process: an application's state, and beside it the recorder."""

from collections.abc import Callable
from typing import Generic, TypeVar

from onceward.snapshot_algorithms.chandy_lamport.messages import Channel, Marker, Message
from onceward.snapshot_algorithms.chandy_lamport.recorder import Recorder

State = TypeVar("State")
Body = TypeVar("Body")
Markers = list[tuple[Channel, Marker]]


class Process(Generic[State, Body]):
    """`absorb` is the application: the state after a message. States are values; a new one replaces the old."""

    def __init__(
        self, name: str, state: State, absorb: Callable[[State, Body], State], recorder: Recorder[State, Body]
    ) -> None:
        self.name, self.state, self.recorder = name, state, recorder
        self._absorb = absorb

    def start_snapshot(self, snapshot: str) -> Markers:
        return self.recorder.start(snapshot, self.state)

    def receive_marker(self, channel: Channel, marker: Marker) -> Markers:
        return self.recorder.marker_arrived(channel, marker, self.state)

    def receive(self, channel: Channel, message: Message[Body]) -> None:
        self.recorder.message_arrived(channel, message)
        self.state = self._absorb(self.state, message.body)
