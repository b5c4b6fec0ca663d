"""The marker of a new lineage replaces every older one in the group, wherever it stands."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest

from onceward.epoch.contract import EpochContext, Guarantee, LastCommit, Owner
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.proof.simulation.broker import Broker
from onceward.proof.simulation.wire import Answer, carry_out
from onceward.sinks.kafka.transactional import TransactionalKafka

if TYPE_CHECKING:
    from onceward.kafka.wire import Wire

OLD, NEW, GONE = TopicPartition("clikcs", 0), TopicPartition("clicks", 0), TopicPartition("gone", 0)


class MemoryWire:
    """A broker in memory that always answers. Topic `gone` was deleted."""

    def __init__(self) -> None:
        self.broker = Broker()

    def call_coordinator(self, key: str, kind: int, request: Callable[[], Any]) -> Answer:  # noqa: ARG002
        return carry_out(self.broker, request())

    def topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        return {name: [0] for name in names if name != GONE.topic}

    def forget_coordinator(self, key: str, kind: int) -> None:
        pass


class MarkerSink(TransactionalKafka):
    """Writes markers and no rows."""

    def write(self, context: EpochContext, rows: Any) -> Outcome | None:
        raise AssertionError(f"{context}: {rows}")


def opened(wire: MemoryWire, lineage: str, term: int) -> TransactionalKafka:
    sink = MarkerSink(cast("Wire", wire), None, 60_000)
    sink.open(Owner(pipeline="p", lineage=lineage, term=term, guarantee=Guarantee.EXACTLY_ONCE, sink="kafka"))
    return sink


def marker(lineage: str, epoch: int, term: int, **places: int) -> LastCommit:
    positions = {TopicPartition(topic, 0): offset for topic, offset in places.items()}
    return LastCommit(lineage=lineage, epoch=epoch, term=term, positions=positions)


def test_a_lineage_that_reads_another_topic_is_not_taken_for_the_old_one() -> None:
    """I3: the old lineage's epochs have higher numbers, and its marker stands on a topic that nobody reads now."""
    wire = MemoryWire()
    old = opened(wire, "old", 7)
    old.write_marker(marker("old", 41, 7, clikcs=120))
    new = opened(wire, "new", 1)  # the home was lost, so terms begin anew as well
    new.write_marker(marker("new", -1, 1, clicks=0))
    last = new.last_commit()
    assert last is not None
    assert (last.lineage, last.epoch) == ("new", -1)
    new.write_marker(marker("new", 0, 1, clicks=5))
    found = new.peek("p")
    assert found is not None
    assert (found.lineage, found.epoch, found.positions) == ("new", 0, {NEW: 5})


def test_a_marker_on_a_topic_that_was_deleted_is_left_to_the_broker() -> None:
    wire = MemoryWire()
    old = opened(wire, "old", 1)
    old._present["gone"] = 1
    old.write_marker(marker("old", 41, 1, gone=3, clikcs=9))
    new = opened(wire, "new", 2)
    new.write_marker(marker("new", -1, 2, clicks=0))
    assert set(new._of_older_lineages("another")) == {NEW, OLD}


def test_whoever_waits_for_a_marker_that_another_lineage_has_replaced_waits_no_longer() -> None:
    """The other one may have begun with a lower epoch, which would never reach what is waited for."""
    wire, slept = MemoryWire(), []
    old = MarkerSink(cast("Wire", wire), None, 60_000, sleep=slept.append)
    old.open(Owner(pipeline="p", lineage="old", term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="kafka"))
    opened(wire, "new", 2).write_marker(marker("new", -1, 2, clicks=0))
    old._await_marker(marker("old", 41, 1, clicks=0))
    assert slept == []


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, 0), (1, 1), (41, 41)])
def test_a_marker_without_a_source_here_stands_at_its_epochs_number(epoch: int, offset: int) -> None:
    """Kafka takes no offset below 0, and the marker that says "nothing yet" is of epoch -1."""
    sink = MarkerSink(cast("Wire", MemoryWire()), "out", 60_000)
    assert sink.marker_places({}, epoch) == {TopicPartition("out", 0): offset}
    assert sink.marker_places({NEW: 0}, epoch) == {NEW: 0}
