"""The run that textbooks show, step by step."""

from collections.abc import Iterator

from onceward.snapshot_algorithms.chandy_lamport.checker import clocks_at_the_cut, violations
from onceward.snapshot_algorithms.chandy_lamport.messages import Channel
from onceward.snapshot_algorithms.chandy_lamport.recorder import LocalSnapshot
from onceward.snapshot_algorithms.chandy_lamport.worked_run import (
    C12,
    C13,
    C21,
    C23,
    C31,
    C32,
    SNAPSHOT,
    STEPS,
    ThreeProcesses,
    three_processes,
)


class Run:
    """The run, and what each process has recorded so far."""

    def __init__(self) -> None:
        self.network: ThreeProcesses = three_processes()
        self._steps = iter(STEPS)

    def until(self, beginning: str) -> None:
        """Up to and with the step whose text begins so."""
        for step in self._steps:
            step.do(self.network)
            if step.says.startswith(beginning):
                return
        raise AssertionError(f"no step begins with {beginning!r}")

    def part(self, process: str) -> LocalSnapshot[tuple[str, ...], str]:
        return self.network.processes[process].recorder.snapshots[SNAPSHOT]

    def has_recorded(self, process: str) -> bool:
        return SNAPSHOT in self.network.processes[process].recorder.snapshots

    def stored(self, process: str, channel: Channel) -> list[str]:
        return [message.body for message in self.part(process).channels[channel]]

    def markers_on(self) -> Iterator[Channel]:
        return (
            channel for channel, queue in self.network.queues.items() if any(hasattr(it, "snapshot") for it in queue)
        )


def test_the_worked_run_step_by_step() -> None:
    """D2, D1: each sentence of the classic run is one of these steps."""
    run = Run()

    run.until("P1 starts")
    assert run.part("P1").state == ("A", "B")
    assert set(run.markers_on()) == {C12, C13}
    assert run.part("P1").open == {C21, C31}
    assert not run.has_recorded("P2")
    assert not run.has_recorded("P3")

    run.until("P3 gets P1's marker")
    assert run.part("P3").state == ("I", "J")
    assert run.stored("P3", C13) == []
    assert run.part("P3").open == {C23}
    assert set(run.markers_on()) == {C12, C31, C32}

    run.until("P1 gets P3's marker")
    assert run.stored("P1", C31) == []
    assert run.part("P1").open == {C21}

    run.until("P2 gets P3's marker")
    assert run.part("P2").state == ("E", "F", "G", "H")
    assert run.stored("P2", C32) == []
    assert run.part("P2").open == {C12}
    assert set(run.markers_on()) == {C12, C21, C23}

    run.until("P2 gets P1's marker")
    assert run.stored("P2", C12) == []
    assert run.part("P2").complete

    run.until("P1 receives H->D")
    assert run.network.processes["P1"].state == ("A", "B", "C", "D")  # it went on working
    assert run.part("P1").state == ("A", "B")
    run.until("P1 gets P2's marker")
    assert run.stored("P1", C21) == ["H->D"]
    assert run.part("P1").complete
    assert run.network.snapshot(SNAPSHOT) is None

    run.until("P3 gets P2's marker")
    assert run.stored("P3", C23) == []
    taken = run.network.snapshot(SNAPSHOT)
    assert taken is not None
    assert taken.states == {"P1": ("A", "B"), "P2": ("E", "F", "G", "H"), "P3": ("I", "J")}
    assert {channel: [it.body for it in found] for channel, found in taken.channels.items() if found} == {C21: ["H->D"]}


def test_the_worked_runs_cut_is_consistent_and_its_clocks_are_these() -> None:
    """D2, D3."""
    network = three_processes()
    for step in STEPS:
        step.do(network)
    taken = network.snapshot(SNAPSHOT)
    assert taken is not None
    assert violations(network.history, SNAPSHOT, taken) == []
    # A, B; E, F, G, H; I, J. P1 knows E and F, P2 knows P3's I and J and so P1's A, P3 knows A.
    cut = clocks_at_the_cut(network.history, ["P1", "P2", "P3"], SNAPSHOT)
    assert cut == {"P1": [2, 2, 0], "P2": [1, 4, 2], "P3": [1, 0, 2]}
