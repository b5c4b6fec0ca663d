"""A schedule: which pipeline runs, and which fault happens at which step. Everything else follows from it.

A seed makes a schedule, and a schedule without some of its faults is a schedule again: that is what shrinking needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from onceward.epoch.contract import Guarantee
from onceward.savepoint.retaining import Retain

Dice = Callable[[], float]

# The driver that runs is killed or paused, and the next one is started in another way: with a savepoint, fresh or old
# (of four, one resets the home instead), over other sinks, with another query, or to skip a record.
OTHERWISE: Final = ("restore", "sinks", "query", "skip")
# Who runs: kill (the process), power (the machine: unsynced writes go), pause (a zombie), resume, switch, start, stop
# (as asked, to make a savepoint or not), saver (a process that makes a savepoint beside the drivers).
CONTROL: Final = ("kill", "power", "pause", "resume", "switch", "start", "stop", "saver", *OTHERWISE)
# An error of the home's file system, without or with the effect; an answer that it lost, and asked for again.
DISK: Final = ("disk-before", "disk-after", "disk-echo")
SINK: Final = ("sink-before", "sink-after", "task")  # an error of a store; a task that dies and lives on as a zombie
NETWORK: Final = ("lose-request", "lose-answer", "delay", "duplicate", "hold", "timeout")
# Those who forget and those who lie: a store set back by its newest epoch, the group's offsets expired, a stranger's
# commit over them, positions altered in the engine's log. A person puts it right once a driver has said so.
DAMAGE: Final = ("forget", "expire", "stranger", "alter")
# Somebody takes a savepoint; or begins a copy of the pipeline with one, under another name and in a home of its own.
SAVE: Final = ("save", "copy")
FAULTS: Final = (*CONTROL, *DISK, *SINK, *NETWORK, *DAMAGE, *SAVE)

_WEIGHTS: Final[Mapping[str, int]] = {
    "kill": 8, "power": 4, "pause": 7, "resume": 7, "switch": 5, "start": 2, "disk-before": 1, "disk-after": 2,
    "sink-before": 2, "sink-after": 3, "task": 3, "lose-request": 2, "lose-answer": 4, "delay": 6, "duplicate": 3,
    "hold": 4, "timeout": 4, "forget": 2, "expire": 2, "stranger": 1, "alter": 2, "restore": 5, "save": 2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of pipeline. `span`: about how many steps a run without faults takes."""

    name: str
    stores: int
    kafka: bool
    span: int


SHAPES: Final = (
    Shape("kafka", 0, kafka=True, span=122),
    Shape("kafka+store", 1, kafka=True, span=154),
    Shape("kafka+2 stores", 2, kafka=True, span=180),
    Shape("store", 1, kafka=False, span=113),
    Shape("2 stores", 2, kafka=False, span=139),
)
BY_NAME: Final = {shape.name: shape for shape in SHAPES}


# Steps that others can notice; the rest only look. And those around a decision, where most harm can be done.
HEAVY: Final = frozenset(
    {"write", "claim", "sync", "log", "send", "answer", "send-end", "answer-end", "publish", "drop", "stage", "task",
     "vote"}
)  # fmt: skip
BEFORE: Final = frozenset({"claim", "send-end"})
AFTER: Final = frozenset({"answer-end", "publish"})
_AROUND: Final = (BEFORE | AFTER, BEFORE | AFTER, BEFORE, AFTER)
DECIDING: Final = 11  # the argument of a fault at the request of a decision
DECIDED: Final = 15  # and at its answer
RESET_ASIDE: Final = 59  # of a restore: a reset, at the request of a decision, whose driver is paused
RESCALES, RESETS = 2, 3  # of a restore, the argument's sixteenth: with another number of partitions; a reset instead
PATIENCE: Final = 60  # steps that a fault waits for one that suits it


class Fault(NamedTuple):
    """What goes wrong once the world has made `step` steps. `argument`: whose turn, how long, or which half is lost.

    It also says where: of four, two happen at any step, one at a step that changes something, one around a decision (at
    its request, at its answer, or at either).
    """

    step: int
    kind: str
    argument: int = 0

    def fits(self, what: str, now: int) -> bool:
        """Whether it happens at this step."""
        where = self.argument % 4
        return where < 2 or what in (HEAVY if where == 2 else _AROUND[self.argument // 4 % 4]) or self._waited(now)

    def _waited(self, now: int) -> bool:
        return now - self.step > PATIENCE


@dataclass(frozen=True, slots=True)
class Schedule:
    """All there is to know about a run."""

    seed: int  # makes the plan of the input, and whether ledger writes lag
    shape: Shape
    faults: tuple[Fault, ...] = ()
    epochs: int = 3
    max_producer_epoch: int = 32_767
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    sources: int = 1  # 2: each reads a topic of the same name, in a cluster of its own
    retain: Retain = "always"
    waits: bool = False  # odd drivers wait until nobody drives the home; else every start fences whoever does

    @property
    def traits(self) -> frozenset[str]:
        """What happens in it, and how it differs from the others."""
        rescales = any(fault.kind == "restore" and fault.argument // 16 == RESCALES for fault in self.faults)
        differs = {"two clusters": self.sources > 1, "not retained": self.retain != "always", "waits": self.waits}
        differs["rescaled"] = rescales
        others = {trait for trait, does in differs.items() if does}
        return frozenset({*(fault.kind for fault in self.faults), self.guarantee.value, *others})


def scheduled(seed: int) -> Schedule:
    """The schedule of a seed."""
    random = Random(seed)  # noqa: S311 - a seed replays a failure
    dice = random.random
    shape = SHAPES[int(dice() * len(SHAPES))]
    kinds, weights = _CHOICES[shape]
    faults, step = list[Fault](), 0
    for kind in random.choices(kinds, weights, k=1 + int(dice() * 5)):
        # Half of them come in bursts: races need several events within a few steps.
        near = dice()
        step = step + 1 + int(near * 16) if near < 0.5 else int(dice() * shape.span * 1.2)
        faults.append(Fault(step, kind, int(dice() * 64)))
        if kind == "pause" and dice() < 0.8:  # it wakes while its successor starts, or later
            gap = 15 + int(dice() * 30) if dice() < 0.5 else 20 + int(dice() * 130)
            faults.append(Fault(step + gap, "resume", int(dice() * 64)))
        if kind == "kill" and dice() < 0.3:  # and again, in the recovery or soon after it
            faults.append(Fault(step + 1 + int(dice() * 110), "kill", int(dice() * 64)))
    if dice() < 0.08:  # paused at its decision, awake during its successor's start
        step = int(dice() * shape.span)
        faults += [Fault(step, "pause", 3), Fault(step + 12 + int(dice() * 45), "resume")]
    if dice() < 0.1:  # a duel: two drivers take turns, every few steps
        step = int(dice() * shape.span)
        faults.append(Fault(step, "pause" if dice() < 0.5 else "start", 1 + 2 * int(dice() * 8)))
        step += 1 + int(dice() * 60)
        faults.append(Fault(step, "resume"))
        for _ in range(4 + int(dice() * 12)):
            step += 1 + int(dice() * 4)
            faults.append(Fault(step, "switch"))
    if dice() < 0.05:  # dead at its decision, and its successor dead at its own: whose votes count?
        step = int(dice() * shape.span)
        faults += [Fault(step, "kill", DECIDING), Fault(step + 60 + int(dice() * 40), "kill", DECIDED)]
    small = dice() < 0.25
    if dice() < 0.06:  # the home is reset while a driver sleeps before its decision, and wakes meanwhile or soon after
        step = int(dice() * shape.span)
        faults += [Fault(step, "restore", RESET_ASIDE), Fault(step + 20 + int(dice() * 60), "resume")]
    schedule = Schedule(seed, shape, tuple(sorted(faults)), max_producer_epoch=5 if small else 32_767)
    while dice() < 0.2:
        schedule = _THEMES[int(dice() * len(_THEMES))](schedule, dice)
    return schedule


# What most schedules do not have: each theme makes a schedule another one.


def _weaker(schedule: Schedule, dice: Dice) -> Schedule:
    """At-least-once or at-most-once. Whoever forgets or lies is noticed under exactly-once alone."""
    guarantee = Guarantee.AT_MOST_ONCE if dice() < 0.7 else Guarantee.AT_LEAST_ONCE
    faults = tuple(fault for fault in schedule.faults if fault.kind not in DAMAGE)
    return _more(replace(schedule, guarantee=guarantee, faults=faults), dice, "restore", 1)


def _other_sinks(schedule: Schedule, dice: Dice) -> Schedule:
    return _more(schedule, dice, "sinks", 1 + int(dice() * 3))


def _other_query(schedule: Schedule, dice: Dice) -> Schedule:
    return _more(schedule, dice, "query", 1 + int(dice() * 2))


def _not_retained(schedule: Schedule, dice: Dice) -> Schedule:
    """A checkpoint is dropped when its driver ends, while others wait for that."""
    schedule = replace(schedule, retain="never" if dice() < 0.7 else "on-failure", waits=dice() < 0.7)
    return _more(_more(schedule, dice, "start", 1), dice, "stop", int(dice() * 3))


def _waiting(schedule: Schedule, dice: Dice) -> Schedule:
    return _more(replace(schedule, waits=True), dice, "start", 1 + int(dice() * 2))


def _two_clusters(schedule: Schedule, dice: Dice) -> Schedule:
    return _more(_skipping(replace(schedule, sources=2), dice), dice, "restore", 1, 48)


def _skipping(schedule: Schedule, dice: Dice) -> Schedule:
    return _more(schedule, dice, "skip", 1 + int(dice() * 2))


def _savers(schedule: Schedule, dice: Dice) -> Schedule:
    """Several at once, which take turns with the driver and each other; or one begins while another one copies."""
    if dice() < 0.5:
        schedule = _more(schedule, dice, "saver", 1 + int(dice() * 3))
        return _more(schedule, dice, "switch", 4 + int(dice() * 12))
    step = int((0.4 + 0.6 * dice()) * schedule.shape.span)  # once an epoch is finished
    found = [Fault(step, "saver")]
    step += 30 + int(dice() * 30)
    found.append(Fault(step, "saver"))
    for _ in range(3 + int(dice() * 6)):
        step += 1 + int(dice() * 16)
        found.append(Fault(step, "switch", int(dice() * 64)))
    return replace(schedule, faults=tuple(sorted((*schedule.faults, *found))))


def _all_forget(schedule: Schedule, dice: Dice) -> Schedule:
    """Kafka forgets, and while a person starts a driver that goes on without its word, a store does."""
    if not schedule.shape.kafka or not schedule.shape.stores:
        return schedule
    step = int(dice() * schedule.shape.span)
    second = step + 40 + int(dice() * 100)
    found = [Fault(step, "expire"), Fault(step + 1 + int(dice() * 9), "kill"), Fault(second, "forget")]
    return replace(schedule, faults=tuple(sorted((*schedule.faults, *found))))


def _copied(schedule: Schedule, dice: Dice) -> Schedule:
    return _more(schedule, dice, "copy", 1, 1)


def _bad_disk(schedule: Schedule, dice: Dice) -> Schedule:
    """Errors of the home's file system while savepoints are made and restored."""
    for kind in ("disk-before", "disk-after", "restore" if dice() < 0.5 else "saver"):
        schedule = _more(schedule, dice, kind, 1 + int(dice() * 2))
    return schedule


def _lost_answers(schedule: Schedule, dice: Dice) -> Schedule:
    return _more(schedule, dice, "disk-echo", 1 + int(dice() * 2))


def _more(schedule: Schedule, dice: Dice, kind: str, count: int, least: int = 0) -> Schedule:
    """More faults of a kind, whose arguments are from `least` on."""
    span = schedule.shape.span * 1.2
    found = [Fault(int(dice() * span), kind, least + int(dice() * (64 - least))) for _ in range(count)]
    return replace(schedule, faults=tuple(sorted((*schedule.faults, *found))))


_THEMES: Final = (
    _weaker, _weaker, _other_sinks, _other_sinks, _other_query, _not_retained, _waiting, _two_clusters, _skipping,
    _savers, _savers, _lost_answers, _all_forget, _copied, _copied,
    _bad_disk,
)  # fmt: skip


def _applies(kind: str, shape: Shape) -> bool:
    if kind in NETWORK or kind in {"expire", "stranger"}:
        return shape.kafka
    return shape.stores > 0 if kind in {"sink-before", "sink-after", "forget"} else True


def _choices(shape: Shape) -> tuple[list[str], list[int]]:
    kinds = [kind for kind in FAULTS if kind in _WEIGHTS and _applies(kind, shape)]
    return kinds, [_WEIGHTS[kind] for kind in kinds]


_CHOICES: Final = {shape: _choices(shape) for shape in SHAPES}
