"""Chaos runs as they could have been, each from a seed, for those who report them."""

from collections import Counter
from random import Random

from onceward.crashpoints import POINTS
from onceward.proof.chaos import report_lanes
from onceward.proof.chaos.record import Happening, Result, Target
from onceward.proof.checkers import CHECKERS

NETWORK = {
    "network, connection cut": "network: connections to broker 1 cut",
    "network, answer lost": "network: the next answer to EndTxn is lost (broker 2)",
    "network, answers late": "network: PostgreSQL answers 3 s late",
}


class Chaos:
    """A run as it could have been, from a seed."""

    def __init__(self, seed: int, seconds: float, faults: int, epochs: int) -> None:
        self.dice = Random(seed)
        self.seed, self.seconds, self.wanted, self.epochs_wanted = seed, seconds, faults, epochs
        self.happenings: list[Happening] = []
        self.points = dict.fromkeys(POINTS, 0)
        self.faults: Counter[str] = Counter()
        self.recoveries: list[float] = []
        self.drivers = 0

    def run(self) -> Result:
        self.start(0.0)
        gap = self.seconds / (self.wanted + 1)
        for number in range(self.wanted):
            at = (number + 1) * gap + self.dice.uniform(-0.3, 0.3) * gap
            target: Target = self.dice.choices(report_lanes.TARGETS, (60, 14, 8, 8, 4, 6))[0]
            self.strike(target, at, gap)
        self.commit()
        self.happenings.append(Happening(self.seconds, "end", "the job ended cleanly", "driver"))
        kills = sum(happening.kill for happening in self.happenings)
        records = self.epochs_wanted * 541
        return Result(
            subject="built-in",
            command=f"onceward prove --minutes {self.seconds / 60:g} --seed {self.seed}",
            seed=self.seed,
            guarantee="exactly-once",
            sinks=("kafka", "postgres", "files"),
            brokers=3,
            began="2026-03-14T09:26:53+00:00",
            seconds=self.seconds,
            machine="Linux, 2 cores, 8 GB, Python 3.11, Java 17, PySpark 4.2.0, Kafka 4.1",
            records_in=records,
            records_out={"kafka": records, "postgres": records, "files": records},
            epochs=self.epochs_wanted,
            kills=kills,
            faults=dict(self.faults),
            points=self.points,
            recoveries_s=tuple(self.recoveries),
            resolved=kills // 9,
            watched={"committed": records, "uncommitted": records + 611 * kills, "aborted": 611 * kills},
            checked=tuple(CHECKERS),
            broken={},
            happenings=tuple(sorted(self.happenings, key=lambda happening: happening.at_s)),
        )

    def start(self, at: float) -> None:
        self.drivers += 1
        self.happenings.append(Happening(at, "start", f"driver {self.drivers} started", "driver"))

    def strike(self, target: Target, at: float, gap: float) -> None:
        dice = self.dice
        if target == "driver" and dice.random() < 0.93:
            took = min(max(2.2, dice.gauss(3.1, 0.5) + dice.expovariate(2)), 9.7)
            point = dice.choice([point for point in POINTS if point not in {"task-writing", "replaying"}])
            self.fault(
                "driver killed", f"driver {self.drivers} killed at '{point}'", at, target, point=point, kill=True
            )
            self.start(at + min(0.2, gap / 20))
            self.happenings.append(
                Happening(at + took, "back", f"an epoch is committed {took:.1f} s later", "driver", seconds=took)
            )
            self.recoveries.append(took)
        elif target == "driver":
            zombie = f"driver {self.drivers}"
            self.fault("driver paused", f"{zombie} paused", at, target, point="prepared")
            self.start(at + gap / 10)
            self.heal(f"{zombie} wakes, 3 epochs later", at + gap / 3, target)
            self.happenings.append(Happening(at + gap / 2, "end", f"{zombie} ended: fenced", "driver"))
        elif target in {"worker", "executor"}:
            self.fault(
                f"{target} killed", f"{target} killed at task-writing", at, target, point="task-writing", kill=True
            )
        elif target == "network":
            name = dice.choice(list(NETWORK))
            self.fault(name, NETWORK[name], at, target)
            if name.endswith("late"):
                self.heal("network is back", at + dice.uniform(0.5, 8), target)
        else:
            kill = dice.random() < 0.6
            did = "killed" if kill else "paused"
            which = f"broker {dice.randint(1, 3)}" if target == "broker" else target
            self.fault(f"{target} {did}", f"{which} {did}", at, target, kill=kill)
            self.heal(f"{which} is back", at + dice.uniform(1, 12), target)

    def fault(self, name: str, what: str, at: float, target: Target, *, point: str = "", kill: bool = False) -> None:
        self.faults[name] += 1
        if point:
            self.points[point] += 1
        self.happenings.append(Happening(at, "fault", what, target, point=point, kill=kill))

    def heal(self, what: str, at: float, target: Target) -> None:
        self.happenings.append(Happening(min(at, self.seconds), "heal", what, target))

    def commit(self) -> None:
        down = [(back.at_s - (back.seconds or 0), back.at_s) for back in self.happenings if back.kind == "back"]
        step = self.seconds / self.epochs_wanted
        for number in range(self.epochs_wanted):
            at = number * step
            at = next((end for begin, end in down if begin < at < end), at)
            if number % 7 != 3:  # it was committed between two looks
                self.happenings.append(Happening(at, "epoch", f"epoch {number}", number=number))


def small_run() -> Result:
    return Chaos(7, 180, 24, 220).run()


def large_run() -> Result:
    """An hour, more than a thousand faults, twenty thousand epochs."""
    return Chaos(11, 3_600, 1_100, 20_000).run()
