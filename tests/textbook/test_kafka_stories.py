"""The stories about Kafka, on a real broker: each told, and its last state asserted."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from onceward import processes
from onceward.epoch.outcome import TopicPartition
from onceward.servers.broker import DevBroker
from onceward.textbook.kafka.child import ChildFailed
from onceward.textbook.kafka.ground import Answer, Ground
from onceward.textbook.kafka.reader import Isolation, KafkaPython, read
from onceward.textbook.kafka.worker import Job
from onceward.textbook.servers import Servers
from onceward.textbook.stage import Stage
from onceward.textbook.stories import crash_before_commit, delivery_modes, idempotence, lost_acknowledgement, zombie
from support.waiting import eventually
from textbook.told import told

CHARGES = ["charge for order 1", "charge for order 2"]


def test_a_crash_before_the_position_doubles_and_a_transaction_does_not(broker: DevBroker) -> None:
    """Requirements C5, H1."""
    result = crash_before_commit.Result
    assert told("crash-before-commit", Servers(broker=broker)).ending.last == crash_before_commit.Last(
        output_then_position=result(after_kill=CHARGES, at_end=CHARGES * 2, lying_there=CHARGES * 2),
        one_transaction=result(after_kill=[], at_end=CHARGES, lying_there=CHARGES * 2),
    )


def test_a_lost_answer_doubles_unless_the_broker_knows_producer_and_sequence(broker: DevBroker) -> None:
    """Requirements C1, H1."""
    retried, once = lost_acknowledgement.Retried, CHARGES[:1]
    assert told("lost-acknowledgement", Servers(broker=broker)).ending.last == lost_acknowledgement.Last(
        without_producer_id=retried(seen_before=once, answer=Answer("NONE", 1), seen=once * 2),
        with_producer_id=retried(seen_before=once, answer=Answer("NONE", 0), seen=once),
    )


def test_a_driver_that_wakes_after_its_replacement_is_refused_by_name(broker: DevBroker) -> None:
    """Requirements C6, H1."""
    assert told("zombie", Servers(broker=broker)).ending.last == zombie.Last(
        write="INVALID_PRODUCER_EPOCH",
        commit="PRODUCER_FENCED",
        transaction="FENCED",
        seen=[[], CHARGES, CHARGES],
        lying_there=[CHARGES[0], *CHARGES],
    )


def test_the_broker_recognises_five_batches_and_no_restarted_producer(broker: DevBroker) -> None:
    """Requirements C2, H1."""
    assert told("idempotence", Servers(broker=broker)).ending.last == idempotence.Last(
        effects={"x = 18": [18, 18, 18], "x = x + 1": [18, 19, 20]},
        answers=["OUT_OF_ORDER_SEQUENCE_NUMBER", *["NONE"] * 5],
        kept=[f"record {number}" for number in range(6)],
        other_content=(Answer("NONE", 0), ["first text"]),
        restarted=CHARGES[:1] * 2,
        sent_twice=CHARGES[:1] * 2,
    )


def test_the_same_kills_lose_double_or_do_neither(broker: DevBroker) -> None:
    """Requirements A5, H1."""
    count = delivery_modes.Count
    assert told("delivery-modes", Servers(broker=broker)).ending.last == {
        "at-most-once": count(seen=2, lost=4, doubled=0),
        "at-least-once": count(seen=10, lost=0, doubled=4),
        "exactly-once": count(seen=6, lost=0, doubled=0),
    }


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_both_readers_see_the_same(broker: DevBroker, isolation: Isolation) -> None:
    """kafka-python's consumer stands in where confluent-kafka is not installed."""
    with Ground(Stage(Servers(broker=broker))) as ground, closing(KafkaPython(broker.bootstrap, isolation)) as other:
        place = ground.topic("orders", "one", "two", "three")
        assert other.read(place) == read(broker.bootstrap, place, isolation) == ["one", "two", "three"]
        assert other.read(place, 2) == read(broker.bootstrap, place, isolation, 2) == ["three"]


def test_a_child_that_fails_is_told_with_its_own_last_words() -> None:
    nowhere = TopicPartition("nowhere", 0)
    job = Job(name="failing", source=nowhere, target=nowhere, bootstrap="no address", at_once=1)
    with (
        job.child("onceward.textbook.kafka.worker", guarantee="exactly-once") as child,
        pytest.raises(ChildFailed, match=r"ended: .*'no address' is not a list of host:port"),
    ):
        child.heard()


@pytest.mark.parametrize("asleep", [False, True], ids=["waiting", "asleep"])
def test_a_child_does_not_outlive_a_parent_that_is_killed(*, asleep: bool) -> None:
    script = f"""
import sys
from onceward.textbook.kafka.child import Child
with Child("textbook_child", {{}}) as child:
    pid = child.heard()["pid"]
    if {asleep}:
        child.sleep()
    print(pid, flush=True)
    sys.stdin.read()
"""
    paths = os.pathsep.join([str(Path(__file__).parents[1] / "support"), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        started = processes.started(child)
        assert (processes.state(child) == "T") is asleep
        parent.kill()
    eventually(lambda: processes.started(child) != started, "the child is gone", every_s=0.01)
