"""A producer without a transactional id: gets a producer id when it starts, sends one record, and waits.

Run as a process of its own (`Child`).
"""

from contextlib import closing

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.sender import Sender
from onceward.kafka.wire import Cluster, Wire
from onceward.textbook.kafka.child import Announcer
from onceward.textbook.kafka.ground import batch


def main() -> None:
    order = Announcer.order()
    with closing(Wire(Cluster(order["bootstrap"]))) as wire:
        producer = IdempotentProducer(wire, "")
        producer.begin()
        sender = Sender(wire, producer.identity, None)
        sender.send(TopicPartition(*order["target"]), batch(order["record"]), 1)
        sender.flush()
        Announcer.wait(producer_id=producer.identity.producer_id)


if __name__ == "__main__":
    main()
