"""Snapshots of any network, in any order of events; and bugs on purpose, each of which is found."""

from collections import deque
from random import Random

import pytest

from onceward.snapshot_algorithms.chandy_lamport.bank import Purse
from onceward.snapshot_algorithms.chandy_lamport.messages import Channel, Marker, Message
from onceward.snapshot_algorithms.chandy_lamport.network import Network
from onceward.snapshot_algorithms.chandy_lamport.recorder import Recorder
from onceward.snapshot_algorithms.chandy_lamport.schedule import random_channels
from snapshot_algorithms.chandy_lamport_runs import Bank, BankRun

RUNS = 10_000


def test_every_snapshot_of_ten_thousand_runs_is_consistent_and_conserves_money_and_tokens() -> None:
    """D1, D3: random networks, orders and initiators, up to three snapshots at once and three initiators of each."""
    wrong = {seed: found for seed in range(RUNS) if (found := list(BankRun(seed).wrong_snapshots()))}
    assert wrong == {}


def test_no_snapshot_holds_up_the_work_however_slow_it_is() -> None:
    """D1: the same events in the same order with snapshots, with markers that nobody delivers in time, and without."""
    assert [seed for seed in range(1500) if BankRun(seed).hindered()] == []


def test_the_runs_are_of_every_kind() -> None:
    """D1: else the tests above would show less than they say."""
    runs = [BankRun(seed) for seed in range(300)]
    assert {len(run.names) for run in runs} == {2, 3, 4, 5, 6}
    assert {len(run.snapshots.names) for run in runs} == {1, 2, 3}
    starts = [sum(map(len, run.snapshots.starts.values())) / len(run.snapshots.names) for run in runs]
    assert min(starts) == 1
    assert max(starts) > 2
    taken = [run.ends(run.snapshots).snapshot(name) for run in runs for name in run.snapshots.names]
    in_flight = [sum(map(len, it.channels.values())) for it in taken if it is not None]
    assert min(in_flight) == 0
    assert max(in_flight) > 5


def test_everybody_reaches_everybody_in_the_random_networks() -> None:
    """D1."""
    for seed in range(100):
        names = [f"P{number}" for number in range(5)]
        channels = random_channels(Random(seed), names)
        for start in names:
            reached = {start}
            while more := {it.target for it in channels if it.source in reached} - reached:
                reached |= more
            assert reached == set(names)


def test_a_process_that_nobody_sends_to_is_done_when_it_starts() -> None:
    """D1: the initiator has to reach everybody; nobody has to reach the initiator."""
    network: Network[int, int] = Network({"root": 5, "leaf": 0}, [Channel("root", "leaf")], int.__add__)
    network.act("root", 3, {Channel("root", "leaf"): 2})
    network.start_snapshot("root", "S")
    assert network.processes["root"].recorder.snapshots["S"].complete
    network.deliver(Channel("root", "leaf"))
    network.deliver(Channel("root", "leaf"))
    taken = network.snapshot("S")
    assert taken is not None
    assert taken.states == {"root": 3, "leaf": 2}


class MarkersOvertake(Network[Purse, Purse]):
    """A channel is not first in, first out for markers."""

    def put_marker(self, channel: Channel, marker: Marker) -> None:
        self.queues[channel].appendleft(marker)


class NeverCloses(Recorder[Purse, Purse]):
    """A channel is recorded after its marker too."""

    def message_arrived(self, channel: Channel, message: Message[Purse]) -> None:
        for snapshot in self.snapshots.values():
            snapshot.channels[channel].append(message)


class ChannelsForgotten(Recorder[Purse, Purse]):
    """Only states are recorded."""

    def message_arrived(self, channel: Channel, message: Message[Purse]) -> None:
        pass


class SnapshotsMixedUp(Recorder[Purse, Purse]):
    """A marker closes its channel for every snapshot."""

    def marker_arrived(self, channel: Channel, marker: Marker, state: Purse) -> list[tuple[Channel, Marker]]:
        markers = self.start(marker.snapshot, state)
        for snapshot in self.snapshots.values():
            snapshot.open.discard(channel)
        return markers


class MarkersNotPassedOn(Recorder[Purse, Purse]):
    """Who joins a snapshot tells nobody."""

    def marker_arrived(self, channel: Channel, marker: Marker, state: Purse) -> list[tuple[Channel, Marker]]:
        super().marker_arrived(channel, marker, state)
        return []


class RecordsAtItsLastMarker(Recorder[Purse, Purse]):
    """The state is taken when the last marker is there, not the first."""

    def marker_arrived(self, channel: Channel, marker: Marker, state: Purse) -> list[tuple[Channel, Marker]]:
        markers = super().marker_arrived(channel, marker, state)
        if self.snapshots[marker.snapshot].complete:
            self.snapshots[marker.snapshot].state = state
        return markers


@pytest.mark.parametrize(
    ("network", "recorder", "finding"),
    [
        (MarkersOvertake, Recorder, "cross the cut"),
        (Bank, NeverCloses, "cross the cut"),
        (Bank, ChannelsForgotten, "cross the cut"),
        (Bank, SnapshotsMixedUp, "cross the cut"),
        (Bank, MarkersNotPassedOn, "incomplete"),
        (Bank, RecordsAtItsLastMarker, "not conserved"),
    ],
)
def test_a_bug_on_purpose_is_found(network: type[Bank], recorder: type[Recorder[Purse, Purse]], finding: str) -> None:
    """D3: the checkers can fail, within a hundred runs."""
    found = [text for seed in range(100) for text in BankRun(seed, network, recorder).wrong_snapshots()]
    assert any(finding in text for text in found)
    assert not any("the bank itself" in text for text in found)


class MarkersThatAreOvertaken(Network[Purse, Purse]):
    """Messages pass markers that stand before them: they arrive inside the cut, and were sent outside it."""

    def deliver(self, channel: Channel) -> None:
        queue = self.queues[channel]
        if self.in_flight[channel] and isinstance(queue[0], Marker):
            at = next(place for place, it in enumerate(queue) if not isinstance(it, Marker))
            message = queue[at]
            del queue[at]
            queue.appendleft(message)
        super().deliver(channel)


def test_a_message_that_overtakes_a_marker_is_an_effect_without_its_cause() -> None:
    """D3: what the vector clocks say, whatever the channels hold."""
    found = [text for seed in range(100) for text in BankRun(seed, MarkersThatAreOvertaken).wrong_snapshots()]
    assert any("has seen event" in text for text in found)


class WaitsForTheSnapshot(Network[Purse, Purse]):
    """Messages are put aside while the receiver's snapshot is open."""

    def deliver(self, channel: Channel) -> None:
        queue = self.queues[channel]
        snapshots = self.processes[channel.target].recorder.snapshots.values()
        if not isinstance(queue[0], Marker) and not all(it.complete for it in snapshots):
            self._aside.setdefault(channel, deque()).append(queue.popleft())
            self.in_flight[channel] -= 1
            return
        super().deliver(channel)

    @property
    def _aside(self) -> dict[Channel, deque[Message[Purse] | Marker]]:
        return self.__dict__.setdefault("aside", {})


def test_a_process_that_waits_for_its_snapshot_is_found() -> None:
    """D1: the check of progress can fail."""
    assert any(BankRun(seed, WaitsForTheSnapshot).hindered() for seed in range(50))
