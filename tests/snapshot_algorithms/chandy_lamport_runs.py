"""Seeded runs of a bank with snapshots, and everything that can be wrong with them."""

from collections.abc import Iterable
from random import Random

from onceward.snapshot_algorithms.chandy_lamport.bank import Purse, total, total_of
from onceward.snapshot_algorithms.chandy_lamport.checker import violations
from onceward.snapshot_algorithms.chandy_lamport.network import Happened, Network, Recorded
from onceward.snapshot_algorithms.chandy_lamport.recorder import Recorder
from onceward.snapshot_algorithms.chandy_lamport.schedule import (
    NO_SNAPSHOT,
    Snapshots,
    random_channels,
    random_purses,
    random_snapshots,
    run,
)

Bank = Network[Purse, Purse]


class BankRun:
    """One seed: a network, its work, and its snapshots, which can be exchanged for others."""

    def __init__(self, seed: int, kind: type[Bank] = Bank, recorder: type[Recorder[Purse, Purse]] = Recorder) -> None:
        dice = Random(seed)
        self.names = [f"P{number}" for number in range(1, 3 + int(dice.random() * 5))]
        self.channels = random_channels(dice, self.names)
        self.purses = random_purses(dice, self.names)
        self.steps = 10 + int(dice.random() * 40)
        self.snapshots = random_snapshots(dice, self.names, self.steps)
        self._seed, self._kind, self._recorder = seed, kind, recorder

    def ends(self, snapshots: Snapshots) -> Bank:
        bank = self._kind(self.purses, self.channels, Purse.plus, self._recorder)
        run(bank, self.steps, Random(self._seed + 1), snapshots, Random(self._seed + 2))
        return bank

    def wrong_snapshots(self) -> Iterable[str]:
        """Of one run: incomplete, inconsistent, or money or tokens that came from nowhere or went there."""
        bank = self.ends(self.snapshots)
        expected = total(self.purses.values())
        if total(process.state for process in bank.processes.values()) != expected:
            yield "the bank itself is wrong"
        for name in self.snapshots.names:
            taken = bank.snapshot(name)
            if taken is None:
                yield f"{name}: incomplete"
                continue
            yield from violations(bank.history, name, taken)
            if total_of(taken) != expected:
                yield f"{name}: not conserved, {total_of(taken)} instead of {expected}"

    def hindered(self) -> bool:
        """Whether the work comes out another way, or in another order, than without any snapshot."""
        alone = self.ends(NO_SNAPSHOT)
        for eagerness in (0.0, 0.5):
            beside = self.ends(Snapshots(self.snapshots.starts, eagerness))
            if work_of(beside.history) != work_of(alone.history) or states_of(beside) != states_of(alone):
                return True
        return False


def work_of(history: list[Happened]) -> list[Happened]:
    return [event for event in history if not isinstance(event, Recorded)]


def states_of(bank: Bank) -> dict[str, Purse]:
    return {name: process.state for name, process in bank.processes.items()}
