"""The worked run of Chandy and Lamport's algorithm: a picture of three processes that never stand still."""

from dataclasses import dataclass
from typing import Final

from onceward.snapshot_algorithms.chandy_lamport.checker import violations
from onceward.snapshot_algorithms.chandy_lamport.messages import Channel, Marker
from onceward.snapshot_algorithms.chandy_lamport.worked_run import SNAPSHOT, STEPS, ThreeProcesses, three_processes
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.pictures.space_time import Arrow, Event, SpaceTime
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Story

PROCESSES: Final = ("P1", "P2", "P3")


@dataclass(frozen=True, slots=True)
class Last:
    """The snapshot: each process's events, the messages in each channel that has some, and what the checker found."""

    states: dict[str, tuple[str, ...]]
    channels: dict[str, tuple[str, ...]]
    violations: tuple[str, ...]


def tell(stage: Stage) -> Ending:
    stage.say(
        "Three processes send each other messages; C21 is the channel from P2 to P1. Letters are events, and a message "
        "is named by its two ends: H->D is sent by event H and received as event D."
    )
    stage.say(
        "P1 wants a snapshot of all three. It may stop nobody, and nobody has a clock that the others trust. So it "
        "records its own state and sends a marker along each channel; whoever gets a first marker does the same."
    )
    network = three_processes()
    watch = _Watch(network)
    for number, step in enumerate(STEPS, 1):
        step.do(network)
        watch.look(number)
        stage.count(number, f"{step.says}.")
    stage.draw(watch.picture())
    return _end(stage, network)


def _end(stage: Stage, network: ThreeProcesses) -> Ending:
    taken = network.snapshot(SNAPSHOT)
    assert taken is not None, "the last step completes the snapshot"
    channels = {_name(it): tuple(m.body for m in messages) for it, messages in taken.channels.items() if messages}
    found = tuple(violations(network.history, SNAPSHOT, taken))
    stage.heading("The snapshot")
    stage.show(
        "part",
        "what it holds",
        rows=[
            *((name, f"after {', '.join(events)}") for name, events in taken.states.items()),
            *((name, f"on the way: {', '.join(messages)}") for name, messages in channels.items()),
            ("every other channel", "empty"),
        ],
    )
    stage.say(
        "H is inside and D is not, so the message was on its way: it belongs to the channel. The states were recorded "
        "at steps 7, 13 and 10. At no step was the system in this state, yet it could have been, and it can go on "
        "from it."
    )
    stage.say(
        f"A checker that knows only the history, not the algorithm, looks for an effect inside whose cause is outside. "
        f"It finds {len(found) or 'none'}."
    )
    return Ending(
        last=Last(dict(taken.states), channels, found),
        takeaways=(
            "A snapshot is right if whatever happened before something inside it is inside it too: a consistent cut.",
            "Nobody pauses, nobody is the master, and anyone may start.",
            "Messages on their way are part of the state. Markers are not.",
        ),
        lives_in=(
            "src/onceward/snapshot_algorithms/chandy_lamport/recorder.py",
            "src/onceward/snapshot_algorithms/chandy_lamport/checker.py",
            "docs/snapshots-explained.md",
        ),
    )


class _Watch:
    """Looks at the network after each step, and notes what there is to draw."""

    def __init__(self, network: ThreeProcesses) -> None:
        self._network = network
        self._events: list[Event] = []
        self._arrows: list[Arrow] = []
        self._cut: dict[str, int] = {}
        self._queues: dict[Channel, list[tuple[int, bool]]] = {it: [] for it in network.queues}  # sent when; a marker?
        self._seen = dict.fromkeys(PROCESSES, 0)

    def look(self, step: int) -> None:
        for channel, queue in self._network.queues.items():
            known = self._queues[channel]
            if known and len(queue) < len(known):  # one step delivers or sends on a channel, never both
                sent, marker = known.pop(0)
                self._arrows.append(Arrow(channel.source, sent, channel.target, step, _tone(marker=marker)))
                if marker:
                    self._events.append(Event(channel.target, step, "o", Tone.MARK))
            known += [(step, isinstance(it, Marker)) for it in list(queue)[len(known) :]]
        for name, process in self._network.processes.items():
            if len(process.state) > self._seen[name]:
                self._seen[name] = len(process.state)
                self._events.append(Event(name, step, process.state[-1]))
            if name not in self._cut and SNAPSHOT in process.recorder.snapshots:
                self._cut[name] = step
                self._events.append(Event(name, step, "#", Tone.GOOD))

    def picture(self) -> SpaceTime:
        taken = {
            (it.lane, it.step) for it in self._events if it.sign == "#"
        }  # a first marker is where a state is taken
        return SpaceTime(
            title="Letters are events, # is a recorded state, o another marker; dotted: the way of a marker.",
            lanes=PROCESSES,
            events=tuple(it for it in self._events if it.sign != "o" or (it.lane, it.step) not in taken),
            arrows=tuple(self._arrows),
            cut=tuple((name, self._cut[name]) for name in PROCESSES),
        )


def _tone(*, marker: bool) -> Tone:
    return Tone.MARK if marker else Tone.PLAIN


def _name(channel: Channel) -> str:
    return f"C{channel.source[1:]}{channel.target[1:]}"


STORY: Final = Story(
    name="chandy-lamport",
    title="Chandy and Lamport's worked run",
    question="How do you photograph a system that never stands still?",
    tell=tell,
)
