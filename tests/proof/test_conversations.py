"""The broker in memory answers as a real one does: the same conversations, with the same ends (G2)."""

from collections.abc import Callable

import pytest

from onceward.kafka.wire import Wire
from proof.talking import MemoryTalk, RealTalk, Talk
from support.judge import Kafka

Script = Callable[[Talk], None]


def two_epochs(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a", "b")
    talk.produce(first, 1, 0, "c")
    talk.produce(first, 0, 2, "d")
    talk.look()
    talk.mark(first, 3, "one")
    second = talk.end(first, commit=True)
    talk.marker()
    talk.look()
    talk.produce(second, 0, 0, "e")
    talk.mark(second, 4, "two")
    talk.marker(wait=False)
    talk.end(second, commit=True)
    talk.marker()
    talk.look()


def the_marker_of_an_aborted_epoch_is_gone(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    talk.mark(first, 1, "one")
    talk.marker(wait=False)
    second = talk.end(first, commit=False)
    talk.marker(some=False)
    talk.look()
    talk.produce(second, 0, 0, "b")
    talk.mark(second, 1, "one")
    talk.end(second, commit=True)
    talk.marker()
    talk.look()


def an_end_that_is_repeated(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    talk.mark(first, 1, "one")
    talk.end(first, commit=True)
    talk.marker()
    talk.end(first, commit=True)
    talk.end(first, commit=False)
    talk.look()


def an_abort_that_is_repeated(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    talk.end(first, commit=False)
    talk.end(first, commit=False)
    talk.end(first, commit=True)
    talk.look()


def the_end_of_an_empty_transaction(talk: Talk) -> None:
    first = talk.init()
    talk.end(first, commit=True)
    second = talk.end(first, commit=False)
    talk.end(second, commit=False)
    talk.end(second, commit=True)


def an_end_twice_over_two_epochs(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    second = talk.end(first, commit=True)
    talk.produce(second, 0, 0, "b")
    talk.end(first, commit=True)  # late: of the epoch before, while the next one is open
    talk.end(second, commit=True)
    talk.end(first, commit=True)
    talk.end(first, commit=False)
    talk.look()


def a_zombie_that_writes(talk: Talk) -> None:
    old = talk.init()
    talk.produce(old, 0, 0, "a")
    new = talk.init()
    talk.produce(old, 0, 1, "b")
    talk.produce(old, 1, 0, "c")
    talk.mark(old, 1, "old")
    talk.end(old, commit=True)
    talk.end(old, commit=False)
    talk.produce(new, 0, 0, "d")
    talk.produce(old, 0, 1, "e")
    talk.end(new, commit=True)
    talk.look()


def late_records_of_the_epoch_before(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    second = talk.end(first, commit=True)
    talk.produce(first, 0, 1, "late")
    talk.produce(first, 1, 0, "late")
    talk.produce(second, 0, 0, "b")
    talk.produce(first, 1, 0, "late")
    talk.end(second, commit=True)
    talk.look()


def records_that_are_repeated(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a", "b")
    talk.produce(first, 0, 0, "x", "y")  # other bytes: accepted, and the first ones stay
    talk.produce(first, 0, 0, "a")  # shorter
    talk.produce(first, 0, 2, "c")
    talk.produce(first, 0, 0, "a", "b")
    talk.end(first, commit=True)
    talk.look()


def sequences_out_of_order(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    talk.produce(first, 0, 2, "c")
    talk.produce(first, 0, 1, "b")
    second = talk.end(first, commit=True)
    talk.produce(second, 0, 2, "d")  # a new producer epoch begins at 0
    talk.produce(second, 0, 0, "e")
    talk.end(second, commit=True)
    talk.look()


def more_batches_than_a_partition_remembers(talk: Talk) -> None:
    first = talk.init()
    for sequence, value in enumerate("abcdefg"):
        talk.produce(first, 0, sequence, value)
    talk.produce(first, 0, 2, "c")  # one of the last five
    talk.end(first, commit=True)
    talk.look()


def a_timeout_and_its_owner(talk: Talk) -> None:
    first = talk.init(timeout_ms=1000)
    talk.produce(first, 0, 0, "a")
    talk.mark(first, 1, "one")
    talk.time_out()
    talk.end(first, commit=True)
    talk.produce(first, 0, 1, "b")
    talk.mark(first, 1, "one")
    second = talk.init(expected=first)
    talk.marker(some=False)
    talk.init(expected=first)  # the answer was lost: asked again
    talk.produce(second, 0, 0, "c")
    talk.end(second, commit=True)
    talk.look()


def a_timeout_and_an_heir(talk: Talk) -> None:
    old = talk.init(timeout_ms=1000)
    talk.produce(old, 0, 0, "a")
    talk.time_out()
    new = talk.init()
    talk.init(expected=old)
    talk.produce(new, 0, 0, "b")
    talk.init(expected=old)
    talk.end(new, commit=True)
    talk.look()


def a_take_over_while_a_transaction_is_open(talk: Talk) -> None:
    old = talk.init()
    talk.produce(old, 0, 0, "a")
    talk.init()
    talk.init(expected=old)
    talk.end(old, commit=True)
    talk.look()


def its_own_identity_after_a_commit(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    talk.mark(first, 1, "one")
    second = talk.end(first, commit=True)
    talk.init(expected=first)  # the answer to the end was lost: still the owner
    third = talk.init(expected=second)
    talk.init(expected=second)
    talk.produce(second, 0, 0, "b")
    talk.produce(third, 0, 0, "c")
    talk.init(expected=first)
    talk.end(third, commit=True)
    talk.look()


def an_owner_that_asks_with_a_transaction_open(talk: Talk) -> None:
    first = talk.init()
    talk.produce(first, 0, 0, "a")
    second = talk.init(expected=first)
    talk.produce(first, 0, 1, "b")
    talk.produce(second, 0, 0, "c")
    talk.end(second, commit=True)
    talk.look()


def producers_without_a_transaction(talk: Talk) -> None:
    talk.transactional_id = None
    first = talk.init()
    talk.produce(first, 0, 0, "a", "b")
    talk.look()
    talk.produce(first, 0, 0, "a", "b")
    talk.produce(first, 0, 3, "d")
    talk.produce(first, 0, 2, "c")
    second = talk.init()
    talk.produce(second, 0, 0, "e")
    talk.produce(first, 1, 0, "f")
    talk.commit(4)
    talk.marker()
    talk.commit(6)
    talk.marker()
    talk.look()


SCRIPTS: list[Script] = [
    producers_without_a_transaction,
    two_epochs,
    the_marker_of_an_aborted_epoch_is_gone,
    an_end_that_is_repeated,
    an_abort_that_is_repeated,
    the_end_of_an_empty_transaction,
    an_end_twice_over_two_epochs,
    a_zombie_that_writes,
    late_records_of_the_epoch_before,
    records_that_are_repeated,
    sequences_out_of_order,
    more_batches_than_a_partition_remembers,
    a_timeout_and_its_owner,
    a_timeout_and_an_heir,
    a_take_over_while_a_transaction_is_open,
    its_own_identity_after_a_commit,
    an_owner_that_asks_with_a_transaction_open,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_both_brokers_answer_alike(script: Script, kafka: Kafka, name: str) -> None:
    """G2: what the simulation believes about Kafka is what Kafka does."""
    wire = Wire(kafka.wire.cluster)
    try:
        real = RealTalk(name, kafka.topic(partitions=2), wire, kafka)
        script(real)
    finally:
        wire.close()
    memory = MemoryTalk(name, real.topic)
    script(memory)
    assert memory.lines == real.lines
