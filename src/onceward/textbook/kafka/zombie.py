"""A driver that sleeps in the middle of a transaction and, when it wakes, goes on as if nothing had happened.

Run as a process of its own (`Child`). It reports the name of each answer that it gets.
"""

from contextlib import closing

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.requests import Requests
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Cluster, Wire
from onceward.textbook.kafka.child import Announcer
from onceward.textbook.kafka.ground import batch, produce
from onceward.textbook.kafka.worker import TIMEOUT_MS, charge


def main() -> None:
    order = Announcer.order()
    name, source, target = order["name"], TopicPartition(*order["source"]), TopicPartition(*order["target"])
    with closing(Wire(Cluster(order["bootstrap"]))) as wire:
        driver = Transactor(wire, name, TIMEOUT_MS)
        identity = driver.fence()
        transaction = driver.begin(0)

        def write(index: int) -> str:
            made = batch(charge(order["orders"][index]), producer=identity, sequence=index, transactional=True)
            return produce(wire, target, made, transactional_id=name).error

        first = write(0)
        Announcer.wait(at="written", answer=first)
        second = write(1)
        end, _ = Requests(wire, name).end(identity, commit=True)
        # The same through Onceward's own code, which finds out what these names mean for the transaction.
        ended = driver.commit(transaction, positions={source: 2}, lineage="textbook", term=1, outcome=None)
        Announcer.say(at="end", write=second, commit=end.name, transaction=ended.state.name)


if __name__ == "__main__":
    main()
