"""A small job without an engine: reads orders, writes a charge for each, and notes how far it has read.

Run as a process of its own (`Child`). Which of its two steps comes first is its guarantee; between the two it waits to
be told to go on, and can be killed there.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Final

from onceward.epoch.contract import Guarantee
from onceward.epoch.outcome import TopicPartition
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Cluster, Wire
from onceward.textbook.kafka.child import Announcer, Child
from onceward.textbook.kafka.ground import batch, position
from onceward.textbook.kafka.reader import reader

TIMEOUT_MS: Final = 60_000  # of a transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Which orders to read, where to write, and under which name: consumer group and transactional id."""

    name: str
    source: TopicPartition
    target: TopicPartition
    bootstrap: str
    at_once: int  # orders

    def start(self, guarantee: Guarantee) -> Child:
        return self.child("onceward.textbook.kafka.worker", guarantee=guarantee)

    def child(self, module: str, **more: object) -> Child:
        """Another process that does this job."""
        return Child(module, {**asdict(self), **more})


def charge(order: str) -> str:
    return f"charge for {order}"


class Worker:
    """One life of the job, from where the last one left its position."""

    def __init__(self, job: Job, wire: Wire) -> None:
        self._job, self._wire = job, wire
        self._producer = IdempotentProducer(wire, job.name)
        self._transactor = Transactor(wire, job.name, TIMEOUT_MS)

    def run(self, guarantee: Guarantee) -> None:
        job, steps = self._job, STEPS[guarantee]
        if guarantee is Guarantee.EXACTLY_ONCE:
            self._transactor.fence()
        start = position(self._wire, job.name, job.source)
        with closing(reader(job.bootstrap, "read_committed")) as source:
            orders = source.read(job.source, start)
        for done in range(0, len(orders), job.at_once):
            some = orders[done : done + job.at_once]
            steps(self, (start + done) // job.at_once, some, {job.source: start + done + len(some)})

    def note_first(self, number: int, orders: list[str], following: Mapping[TopicPartition, int]) -> None:
        """At most once: what is noted as read and not written yet is lost by a crash."""
        self._producer.commit_positions(following)
        self._between(number)
        self._write_plainly(orders)

    def write_first(self, number: int, orders: list[str], following: Mapping[TopicPartition, int]) -> None:
        """At least once: what is written and not noted as read yet is written again after a crash."""
        self._write_plainly(orders)
        self._between(number)
        self._producer.commit_positions(following)

    def both_at_once(self, number: int, orders: list[str], following: Mapping[TopicPartition, int]) -> None:
        """Exactly once: charges and position are in one transaction, which counts as a whole or not at all."""
        transaction = self._transactor.begin(number)
        self._write(orders, Sender(self._wire, transaction.identity, self._job.name))
        self._between(number)
        ended = self._transactor.commit(transaction, positions=following, lineage="textbook", term=1, outcome=None)
        assert ended.state is State.COMMITTED

    def _write_plainly(self, orders: list[str]) -> None:
        self._producer.begin()
        self._write(orders, Sender(self._wire, self._producer.identity, None))

    def _write(self, orders: list[str], sender: Sender) -> None:
        sender.send(self._job.target, batch(*map(charge, orders)), len(orders))
        sender.flush()

    @staticmethod
    def _between(number: int) -> None:
        Announcer.wait(at="between", batch=number)


Steps = Callable[[Worker, int, list[str], Mapping[TopicPartition, int]], None]
STEPS: Final[Mapping[Guarantee, Steps]] = {
    Guarantee.AT_MOST_ONCE: Worker.note_first,
    Guarantee.AT_LEAST_ONCE: Worker.write_first,
    Guarantee.EXACTLY_ONCE: Worker.both_at_once,
}


def main() -> None:
    order = Announcer.order()
    guarantee = Guarantee(order.pop("guarantee"))
    source, target = (TopicPartition(*order.pop(key)) for key in ("source", "target"))
    job = Job(**order, source=source, target=target)
    with closing(Wire(Cluster(job.bootstrap))) as wire:
        Worker(job, wire).run(guarantee)
    Announcer.say(at="end")


if __name__ == "__main__":
    main()
