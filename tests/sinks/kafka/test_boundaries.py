"""Where a pipeline's output stands after each epoch: what the Kafka sink puts into its votes."""

import json
from collections.abc import Iterable
from typing import Any, cast

from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.epoch.outcome import Outcome, PartitionOutcome, Span, TopicPartition
from onceward.kafka.transaction import EpochTransaction, Identity
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Wire
from onceward.sinks.kafka.boundaries import Boundaries, boundaries_in, topic_ids_in, written_in
from onceward.sinks.kafka.transactional import TransactionalKafka

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def wrote(**spans: tuple[int, int] | None) -> Outcome:
    """`t0=(5, 9)`: topic t, partition 0; None: a broker did not say where."""
    parts = {
        TopicPartition(name[0], int(name[1])): PartitionOutcome(4, 1, Span(*span) if span is not None else None)
        for name, span in spans.items()
    }
    return Outcome.of(parts.items())


class TestAVote:
    def test_puts_the_boundary_behind_the_transactions_end_marker(self) -> None:
        """D5: where a reader that has caught up stands."""
        vote = Boundaries().vote(wrote(t0=(5, 9)))
        assert boundaries_in(vote) == {T0: 10}
        assert written_in(vote) == {T0: Span(5, 9)}

    def test_keeps_where_other_partitions_stand(self) -> None:
        """D5."""
        known = Boundaries()
        known.learn({"t": "id"}, {T0: 3, T1: 8})
        assert boundaries_in(known.vote(wrote(t0=(5, 9)))) == {T0: 10, T1: 8}
        assert boundaries_in(known.vote(wrote())) == {T0: 10, T1: 8}

    def test_leaves_out_a_partition_whose_broker_did_not_say(self) -> None:
        """D5: a boundary that is too low would cut records off. Asked again, it is known."""
        known = Boundaries()
        known.learn({"t": "id"}, {T0: 3, T1: 8})
        vote = known.vote(wrote(t0=None))
        assert (boundaries_in(vote), written_in(vote), topic_ids_in(vote)) == ({T1: 8}, {}, {"t": "id"})
        assert known.to_ask(wrote()) == {"t"}
        known.learn({"t": "id"}, {T0: 12, T1: 99})
        assert known.to_ask(wrote()) == set()
        assert boundaries_in(known.vote(wrote())) == {T0: 12, T1: 8}

    def test_moves_on_if_it_is_aborted(self) -> None:
        """D5: what it wrote takes offsets, and what comes next is behind them."""
        known = Boundaries()
        known.vote(wrote(t0=(5, 9)))
        assert boundaries_in(known.vote(wrote(u0=(0, 1)))) == {T0: 10, U0: 2}

    def test_is_read_as_it_was_written(self) -> None:
        """D5: by way of the ledger's JSON; one of an older release says nothing."""
        known = Boundaries()
        known.learn({"t": "id", "u": "other"}, {T1: 8})
        vote = json.loads(json.dumps(known.vote(wrote(t0=(5, 9), u0=(1, 2)))))
        assert boundaries_in(vote) == {T0: 10, T1: 8, U0: 3}
        assert written_in(vote) == {T0: Span(5, 9), U0: Span(1, 2)}
        assert topic_ids_in(vote) == {"t": "id", "u": "other"}
        old = {"version": 1, "producer_id": 1}
        assert (boundaries_in(old), written_in(old), topic_ids_in(old)) == ({}, {}, {})

    def test_does_not_change_with_later_ones(self) -> None:
        """It is kept until the ledger has it."""
        known = Boundaries()
        known.learn({"t": "id"}, {T0: 3})
        vote = known.vote(wrote(t0=(5, 9)))
        known.learn({"u": "other"}, {U0: 3})
        known.vote(wrote(t0=(11, 12)))
        assert boundaries_in(vote) == {T0: 10}
        assert topic_ids_in(vote) == {"t": "id"}


class Topics:
    """Where the wire is: topics with their ends, and who was asked what."""

    def __init__(self, **ends: int) -> None:
        self.found = {TopicPartition(name[0], int(name[1])): end for name, end in ends.items()}
        self.did: list[str] = []

    def topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        return {name: [0] for name in names}

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        return {name: f"id-of-{name}" for name in names}

    def ends(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        wanted = sorted(names)
        self.did.append(f"asked {', '.join(wanted)}")
        return {place: end for place, end in self.found.items() if place.topic in wanted}


class Noting(Transactor):
    def __init__(self, wire: Wire, *_: Any, **__: Any) -> None:
        self.wire = wire

    def fence(self) -> Identity:
        cast("Topics", self.wire).did.append("fenced")
        return Identity(7, 1)

    def begin(self, epoch: int) -> EpochTransaction:
        return EpochTransaction(epoch=epoch, identity=Identity(7, 1))


class Sink(TransactionalKafka):
    transactor_kind = Noting

    def write(self, _: EpochContext, __: Any) -> Outcome:
        raise AssertionError("not here")

    def digest(self, _: EpochContext, __: Any) -> Outcome | None:
        raise AssertionError("not here")


def opened(topics: Topics, topic: str | None = "t") -> Sink:
    sink = Sink(cast("Wire", topics), topic, 1)
    sink.open(Owner(pipeline="p", lineage="L", term=1, guarantee=Guarantee.EXACTLY_ONCE))
    return sink


def voted(sink: Sink, outcome: Outcome) -> dict[str, Any]:
    context = EpochContext(epoch=0, positions={TopicPartition("events", 0): 1})
    sink.begin(context)
    return dict(sink.pre_commit(context, outcome))


class TestTheSink:
    def test_asks_where_its_topic_ends_once_older_drivers_are_fenced(self) -> None:
        """D5: asked before, an older driver could write behind what was answered."""
        topics = Topics(t0=5, t1=3)
        sink = opened(topics)
        assert topics.did == ["fenced", "asked t"]
        vote = voted(sink, wrote())
        assert (boundaries_in(vote), topic_ids_in(vote)) == ({T0: 5, T1: 3}, {"t": "id-of-t"})
        assert topics.did == ["fenced", "asked t"]

    def test_says_which_topic_it_writes_before_it_has_written_there(self) -> None:
        """D5: a reader of it is joined to this pipeline, whatever lies in the topic."""
        assert topic_ids_in(voted(opened(Topics(t0=0)), wrote())) == {"t": "id-of-t"}

    def test_asks_of_another_topic_when_it_first_writes_there(self) -> None:
        """D5: what it has not written to stands where it stands."""
        topics = Topics(u0=9, u1=4)
        sink = opened(topics, None)
        assert topics.did == ["fenced"]
        vote = voted(sink, wrote(u0=(5, 9)))
        assert boundaries_in(vote) == {U0: 10, TopicPartition("u", 1): 4}
        voted(sink, wrote(u0=(10, 12)))
        assert topics.did == ["fenced", "asked u"]

    def test_asks_again_when_a_broker_did_not_say_even_if_it_writes_nothing(self) -> None:
        """D5: or an idle pipeline would be in the way of every snapshot."""
        topics = Topics(t0=5)
        sink = opened(topics)
        assert boundaries_in(voted(sink, wrote(t0=None))) == {}
        topics.found = {T0: 11}
        assert boundaries_in(voted(sink, wrote())) == {T0: 11}

    def test_asks_again_when_a_topic_has_more_partitions(self) -> None:
        """D5: what it knows it keeps."""
        topics = Topics(t0=5)
        sink = opened(topics)
        voted(sink, wrote(t0=(5, 9)))
        topics.found = {T0: 99, T1: 0}
        sink.boundaries.forget("t")
        assert boundaries_in(voted(sink, wrote())) == {T0: 10, T1: 0}

    def test_forgets_at_the_next_start(self) -> None:
        """D5: another driver may have written since."""
        topics = Topics(t0=5)
        sink = opened(topics)
        voted(sink, wrote(t0=(5, 9), u0=(0, 1)))
        topics.found = {T0: 50}
        sink.open(Owner(pipeline="p", lineage="L", term=2, guarantee=Guarantee.EXACTLY_ONCE))
        assert boundaries_in(voted(sink, wrote())) == {T0: 50}
