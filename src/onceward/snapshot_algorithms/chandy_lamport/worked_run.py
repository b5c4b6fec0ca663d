"""The run with three processes that textbooks show, as a list of steps that can be run and looked at one by one.

Events are letters, and a process's state is the letters that it has seen. A message is named by both its ends: H->D is
sent by P2's event H and received as P1's event D. The drawing is in docs/snapshots-explained.md.
"""

from collections.abc import Callable
from itertools import permutations
from typing import Final, NamedTuple

from onceward.snapshot_algorithms.chandy_lamport.messages import Channel
from onceward.snapshot_algorithms.chandy_lamport.network import Network

Events = tuple[str, ...]
ThreeProcesses = Network[Events, str]

SNAPSHOT: Final = "the snapshot"
C12, C13, C21, C23, C31, C32 = (Channel(source, target) for source, target in permutations(("P1", "P2", "P3"), 2))


class Step(NamedTuple):
    says: str
    do: Callable[[ThreeProcesses], None]


def three_processes() -> ThreeProcesses:
    """Nothing has happened yet, and everybody has a channel to everybody."""
    return Network({"P1": (), "P2": (), "P3": ()}, (C12, C13, C21, C23, C31, C32), _receive)


def _receive(seen: Events, message: str) -> Events:
    return (*seen, message.partition("->")[2])


def _happens(process: str, event: str) -> Step:
    def do(network: ThreeProcesses) -> None:
        network.act(process, (*network.processes[process].state, event), {})

    return Step(f"{process}: event {event}", do)


def _sends(channel: Channel, message: str) -> Step:
    def do(network: ThreeProcesses) -> None:
        event = message.partition("->")[0]
        network.act(channel.source, (*network.processes[channel.source].state, event), {channel: message})

    return Step(f"{channel.source} sends {message} to {channel.target}", do)


def _arrives(channel: Channel, says: str) -> Step:
    return Step(says, lambda network: network.deliver(channel))


STEPS: Final = (
    _happens("P2", "E"),
    _sends(C13, "A->I"),
    _arrives(C13, "P3 receives A->I"),
    _sends(C21, "F->B"),
    _sends(C32, "J->G"),
    _arrives(C21, "P1 receives F->B"),
    Step(
        "P1 starts: it records its state just after B, sends markers to P2 and P3, and records C21 and C31",
        lambda network: network.start_snapshot("P1", SNAPSHOT),
    ),
    _arrives(C32, "P2 receives J->G"),
    _sends(C13, "C->K"),
    _arrives(C13, "P3 gets P1's marker, its first: it records its state, C13 is empty, and it sends markers"),
    _sends(C21, "H->D"),
    _arrives(C31, "P1 gets P3's marker: C31 is closed, and empty"),
    _arrives(C32, "P2 gets P3's marker, its first: it records its state, C32 is empty, and it sends markers"),
    _arrives(C12, "P2 gets P1's marker: C12 is closed, and empty; P2 is done"),
    _arrives(C13, "P3 receives C->K, which was sent after P1's marker and is none of the snapshot's"),
    _arrives(C21, "P1 receives H->D, and notes it in C21"),
    _arrives(C21, "P1 gets P2's marker: C21 is closed, and holds exactly H->D; P1 is done"),
    _arrives(C23, "P3 gets P2's marker: C23 is closed, and empty; P3 is done, and so is the snapshot"),
)


def diagram() -> str:
    """Processes as lines, steps as columns: letters are events, # a state that is recorded, o any other marker."""
    network = three_processes()
    lines = {"step": "", "P1": "", "P2": "", "P3": ""}
    for number, step in enumerate(STEPS, 1):
        before = _seen(network)
        step.do(network)
        lines["step"] += f"{number:>3}"
        for name, (events, recorded, arrived) in _seen(network).items():
            old_events, old_recorded, old_arrived = before[name]
            sign = "-"
            if recorded != old_recorded:
                sign = "#"
            elif arrived != old_arrived:
                sign = "o"
            elif events != old_events:
                sign = events[-1]
            lines[name] += f"--{sign}"
    return "\n".join(f"{name:<5}{line}" for name, line in lines.items())


def _seen(network: ThreeProcesses) -> dict[str, tuple[Events, bool, int]]:
    """Of each process: its events, whether its state is recorded, and how many markers have arrived."""
    seen = {}
    for name, process in network.processes.items():
        part = process.recorder.snapshots.get(SNAPSHOT)
        arrived = len(process.recorder.incoming) - len(part.open) if part is not None else 0
        seen[name] = process.state, part is not None, arrived
    return seen
