"""What is done to a run, by a seed: how each driver dies, and what else breaks while it lives. Pure."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from onceward import crashpoints

Network = Literal["cut", "half-close", "delay", "lose-answer", "lose-request", "late-request"]
# Kafka's numbers of the requests an epoch hangs on: Produce, InitProducerId, EndTxn, TxnOffsetCommit.
APIS: Final = {0: "Produce", 22: "InitProducerId", 26: "EndTxn", 28: "TxnOffsetCommit"}
# Points that only a start after a certain death comes to: how the life before has to end.
NEEDS: Final = {"resolving": "decided", "replaying": "decided"}
IN_A_WORKER: Final = "task-writing"
STRIKES: Final = (0, 2, 3, 4, 6, 8)  # in one life: starts take longest, so there is time for more than one
FEW: Final = (0, 0, 1, 2)  # what promises less is to die soon, and often


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault while a driver lives."""

    target: Literal["worker", "executor", "broker", "postgres", "network"]
    how: Literal["kill", "pause"] | Network
    seconds: float = 0.0  # until it is repaired
    node: int = 1  # of the brokers
    api: int = 0  # whose answer or request is lost
    direction: Literal["answers", "requests"] = "answers"  # which half is closed
    database: bool = False  # the network between the job and PostgreSQL, not Kafka


@dataclass(frozen=True, slots=True)
class Life:
    """One driver: what happens while it lives, and how it ends."""

    strikes: tuple[Strike, ...] = ()
    # kill: at `point`, else so many seconds after it is back; sleep: it stops, a successor takes over, it wakes.
    end: Literal["kill", "sleep", "stop"] = "kill"
    point: str = ""
    nth: int = 1
    after_s: float = 0.0
    orphans: bool = False  # the driver alone is killed: its JVM has to notice by itself
    over_tasks: bool = False
    cluster: bool = False  # executors are processes of their own


@dataclass(frozen=True, slots=True)
class World:
    """What can break in this run."""

    brokers: int
    postgres: bool
    sinks: int
    guarantee: str = "exactly-once"

    @property
    def points(self) -> list[str]:
        """The named points that a job comes to."""
        if self.guarantee == "exactly-once":
            return [
                it for it in crashpoints.POINTS if self.sinks > 1 or it not in ("resolving", "prepared", "committed")
            ]
        return ["begun", "writing", "written"] if self.guarantee.startswith("at-") else []


def lives(seed: int, world: World) -> Iterator[Life]:
    """Without end: every named point in turn, in an order of the seed's, mixed with random moments and pauses."""
    dice = random.Random(seed)  # noqa: S311 - the same seed, the same faults
    while True:
        deck = [_at(dice, world, point) for point in world.points]
        deck += [[_life(dice, world, after_s=dice.uniform(0.0, 3.0))] for _ in range(4)]
        if world.guarantee == "exactly-once":
            deck += [[_life(dice, world, end="sleep", point=dice.choice(("", "marked", "prepared", "written")))]]
        dice.shuffle(deck)
        for some in deck:
            yield from some


def _at(dice: random.Random, world: World, point: str) -> list[Life]:
    """The lives that lead to a death at a point."""
    needs = [_life(dice, world, point=NEEDS[point])] if point in NEEDS else []
    # After a death at these the next start finds work to do; then the driver dies before it has gone on.
    nth = 1 if point in ("fenced", "recovered", *NEEDS) else dice.randint(1, 6)
    over = {"over_tasks": True} if point == IN_A_WORKER else {"over_tasks": False} if point == "writing" else {}
    return [*needs, _life(dice, world, point=point, nth=nth, **over)]


def _life(dice: random.Random, world: World, **chosen: object) -> Life:
    cluster = dice.random() < 0.08
    point = chosen.get("point", "")
    early = point in ("fenced", "recovered", *NEEDS)  # it dies before anything else can happen to it
    some = dice.choice(STRIKES if world.guarantee == "exactly-once" else FEW)
    strikes = () if early else tuple(_strike(dice, world, cluster=cluster) for _ in range(some))
    facts = {"over_tasks": cluster or dice.random() < 0.4, "cluster": cluster, "orphans": dice.random() < 0.3}
    return Life(strikes=strikes, **{**facts, **chosen})  # type: ignore[arg-type]


def _strike(dice: random.Random, world: World, *, cluster: bool) -> Strike:
    kinds = ["worker"] * 8 + ["network"] * 4 + ["broker"] * (2 if world.brokers == 1 else 4)
    kinds += ["postgres"] * 2 if world.postgres else []
    kinds += ["executor"] * 8 if cluster else []
    target = dice.choice(kinds)
    seconds = round(dice.uniform(0.2, 4.0), 2)
    if target == "worker":
        return Strike("worker", dice.choice(("kill", "kill", "kill", "pause")), seconds)
    if target == "executor":
        return Strike("executor", dice.choice(("kill", "kill", "pause")), seconds)
    if target == "broker":
        return Strike("broker", dice.choice(("kill", "kill", "pause")), seconds, node=dice.randint(1, world.brokers))
    if target == "postgres":
        return Strike("postgres", dice.choice(("kill", "kill", "pause")), seconds)
    database = world.postgres and dice.random() < 0.3
    how: Network = dice.choice(
        ("cut", "half-close", "delay", "lose-answer", "lose-answer", "lose-request", "late-request")
    )
    node, api = dice.randint(1, world.brokers), dice.choice(list(APIS))
    direction: Literal["answers", "requests"] = dice.choice(("answers", "requests"))
    return Strike("network", how, seconds, node, api, direction, database)
