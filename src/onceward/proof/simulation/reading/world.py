"""The topic that is read in a run, the way to it, and what of it excuses an error."""

from dataclasses import dataclass
from random import Random
from typing import Final, cast

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.wire import Wire
from onceward.proof.simulation.reading.checking import Excuses
from onceward.proof.simulation.reading.leader import Leaders
from onceward.proof.simulation.reading.log import Log
from onceward.proof.simulation.reading.making import made
from onceward.proof.simulation.reading.schedule import Schedule
from onceward.proof.simulation.reading.wire import Net, places
from onceward.proof.simulation.world import BEGAN

TOPIC: Final = "in"
COMPACTED: Final = 0.3  # of topics
TELLING: Final = 0.8  # of those: brokers say so
WHOLE: Final = 0.4  # of ranges go to the end


@dataclass(slots=True)
class World:
    """The topic that is read, and the way to it."""

    schedule: Schedule
    dice: Random
    logs: dict[TopicPartition, Log]
    leaders: Leaders
    net: Net
    is_told: bool  # that the topic is compacted, if it is

    @classmethod
    def of(cls, schedule: Schedule, story: list[str] | None) -> "World":
        """By its seed."""
        dice = Random(f"logs {schedule.seed}")  # noqa: S311 - a seed replays a failure
        is_compacted, is_told = dice.random() < COMPACTED, dice.random() < TELLING
        count = 1 + int(dice.random() * 3)
        if dice.random() < 0.05:
            count = 20  # more than a connection takes requests
        logs = {it: made(dice, it.partition, is_compacted=is_compacted) for it in places(TOPIC, count)}
        leaders = Leaders(logs)
        net = Net(schedule.troubles, leaders.fetch, story)
        net.partitions = {TOPIC: count}
        net.policies = {TOPIC: "compact" if is_compacted else "delete"} if is_told else {}
        return cls(schedule, dice, logs, leaders, net, is_told)

    @property
    def wire(self) -> Wire:
        return cast("Wire", self.net)

    @property
    def may_miss(self) -> bool:
        """Whether readers know that offsets may be missing."""
        return self.is_told and any(log.is_compacted for log in self.logs.values())

    def range_of(self, log: Log, end: int) -> tuple[int, int]:
        """Some of a partition, up to a bound."""
        upto = end if self.dice.random() < WHOLE else log.start + int(self.dice.random() * (end - log.start + 1))
        return log.start + int(self.dice.random() * (upto - log.start + 1)), upto

    def excuses(self, place: TopicPartition, at: int, end: int, *, takes_old: bool, patience_s: float) -> Excuses:
        """Of a reader that has read a partition up to `at`."""
        log, net = self.logs[place], self.net
        since = self.leaders.useful.get(place, BEGAN)
        return Excuses(
            refused=log.start > at or (not takes_old and log.has_old(at, end)),
            missing=place in self.leaders.holes or (not self.may_miss and log.holes(at, end)),
            silent_s=net.now - since,
            throttled_s=max(net.free_at - since, 0.0),
            patience_s=patience_s,
        )
