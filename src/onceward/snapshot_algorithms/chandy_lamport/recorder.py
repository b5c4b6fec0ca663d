"""The algorithm: what one process does about snapshots.

To start a snapshot, record your state and send a marker on every outgoing channel. The first marker of a snapshot that
you did not start is your start: its channel is empty. Every other incoming channel is recorded from your own state on
until its marker arrives. Nothing here can hold the application up: messages are noted in passing.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from onceward.snapshot_algorithms.chandy_lamport.messages import Channel, Marker, Message

State = TypeVar("State")
Body = TypeVar("Body")


@dataclass(slots=True)
class LocalSnapshot(Generic[State, Body]):
    """One process's part of a snapshot: its state, and what arrived after it and before each channel's marker."""

    state: State
    channels: dict[Channel, list[Message[Body]]]
    open: set[Channel]

    @property
    def complete(self) -> bool:
        """Whether a marker has arrived on every incoming channel."""
        return not self.open


class Recorder(Generic[State, Body]):
    def __init__(self, incoming: Collection[Channel], outgoing: Collection[Channel]) -> None:
        self.incoming, self.outgoing = tuple(incoming), tuple(outgoing)
        self.snapshots: dict[str, LocalSnapshot[State, Body]] = {}

    def start(self, snapshot: str, state: State) -> list[tuple[Channel, Marker]]:
        """The state is recorded, and the markers to send are returned. A snapshot that is known has begun already."""
        if snapshot in self.snapshots:
            return []
        self.snapshots[snapshot] = LocalSnapshot(state, {it: [] for it in self.incoming}, set(self.incoming))
        marker = Marker(snapshot)
        return [(channel, marker) for channel in self.outgoing]

    def marker_arrived(self, channel: Channel, marker: Marker, state: State) -> list[tuple[Channel, Marker]]:
        """The channel is closed; if this is the snapshot's first marker here, it is ours to join."""
        markers = self.start(marker.snapshot, state)
        self.snapshots[marker.snapshot].open.remove(channel)
        return markers

    def message_arrived(self, channel: Channel, message: Message[Body]) -> None:
        """Noted in every snapshot whose marker has not come along this channel yet."""
        for snapshot in self.snapshots.values():
            if channel in snapshot.open:
                snapshot.channels[channel].append(message)
