"""What each answer of a partition's leader leads to: the production sender on leaders in memory."""

from typing import Any, cast

import pytest

from onceward.epoch.outcome import Span, TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable, TopicUnusable
from onceward.kafka import sender as sender_module
from onceward.kafka.batch import HEADER
from onceward.kafka.sender import IN_FLIGHT, IdentityLost, Sender, SequenceBroken
from onceward.kafka.transaction import Identity
from support.leaders import Accident, Leaders, payload

PLACE = TopicPartition("out", 0)
BATCHES = [payload(b"%02d" % number) for number in range(12)]
RECORDS = [batch[HEADER.size :] for batch in BATCHES]


@pytest.fixture
def leaders() -> Leaders:
    """Two partitions, led by two brokers, the first one number 0; time passes only while the sender waits."""
    return Leaders({"out": [0, 2]})


def sender_to(leaders: Leaders, transactional_id: str | None = "p") -> Sender:
    return Sender(cast("Any", leaders), Identity(7, 3), transactional_id, clock=leaders.clock)


def send_all(leaders: Leaders, place: TopicPartition = PLACE) -> dict[TopicPartition, Span]:
    sender = sender_to(leaders)
    for batch in BATCHES:
        sender.send(place, batch, 1)
    return sender.flush()


class TestTheFirstBatch:
    """A partition that does not know the producer yet takes whatever sequence comes first."""

    @pytest.mark.parametrize("number", [19, 51, 6], ids=["enrolling", "still ending", "leader moved"])
    def test_goes_alone_until_the_partition_has_taken_it_so_that_none_overtakes_it(
        self, leaders: Leaders, number: int
    ) -> None:
        """Trap 2: with a second one on its way, that one would be taken as the first, and the first refused."""
        leaders.log("out").script.extend([number, number])
        assert send_all(leaders) == {PLACE: Span(0, len(BATCHES))}
        assert leaders.values("out") == RECORDS
        assert leaders.most == {PLACE: 1}

    def test_goes_alone_where_another_task_had_the_turn_and_wrote_nothing(self, leaders: Leaders) -> None:
        """Sequence 0 is not written yet: the partition does not know the producer."""
        sender = sender_to(leaders)
        sender.go_on(PLACE, 0)
        leaders.log("out").script.extend([19, 19])
        for batch in BATCHES:
            sender.send(PLACE, batch, 1)
        assert sender.flush() == {PLACE: Span(0, len(BATCHES))}
        assert leaders.values("out") == RECORDS
        assert leaders.most == {PLACE: 1}

    def test_is_followed_by_up_to_five_at_a_time(self, leaders: Leaders) -> None:
        sender = sender_to(leaders)
        for batch in BATCHES:
            sender.send(PLACE, batch, 1)
        sender._turn()
        while sender._dispatch():
            pass
        assert len(sender._lanes[PLACE].flying) == IN_FLIGHT


class TestInOrder:
    """C1: whatever becomes of answers, each batch is kept once, in order, under the sequences it was given."""

    @pytest.mark.parametrize("accident", list(Accident), ids=lambda accident: accident.name)
    @pytest.mark.parametrize("which", range(4))
    def test_a_batch_whose_answer_or_request_is_lost_goes_again_with_all_behind_it(
        self, leaders: Leaders, accident: Accident, which: int
    ) -> None:
        leaders.log("out").script.extend([0] * which + [accident])
        assert send_all(leaders) == {PLACE: Span(0, len(BATCHES))}
        assert leaders.values("out") == RECORDS

    def test_the_echo_behind_a_failed_batch_is_no_news_and_the_failed_one_goes_first(self, leaders: Leaders) -> None:
        """45 for what was sent behind it: an earlier batch is missing, as we know."""
        leaders.log("out").script.extend([0, 19])
        assert send_all(leaders) == {PLACE: Span(0, len(BATCHES))}
        assert leaders.values("out") == RECORDS
        assert [header.base_sequence for header, _ in leaders.log("out").taken] == list(range(len(BATCHES)))

    def test_a_batch_taken_behind_a_lost_answer_goes_again_and_is_recognised(self, leaders: Leaders) -> None:
        leaders.log("out").script.extend([0, Accident.ANSWER_LOST, 0, 0])
        assert send_all(leaders) == {PLACE: Span(0, len(BATCHES))}
        assert leaders.values("out") == RECORDS

    def test_a_batch_that_is_known_without_its_place_leaves_the_partitions_span_unknown(self, leaders: Leaders) -> None:
        """46 says that the bytes are there, not where: an end that was made up would cut a snapshot short."""
        leaders.log("out").script.extend([0] * (len(BATCHES) - 1) + [46])
        assert send_all(leaders) == {}

    def test_for_the_oldest_batch_a_broken_sequence_means_another_writer(self, leaders: Leaders) -> None:
        """Trap 1: everything before it is acknowledged, so nothing of ours is missing."""
        leaders.log("out").script.extend([0, 45])
        with pytest.raises(SequenceBroken, match=r"out-0 expects another sequence than 1.*somebody else writes"):
            send_all(leaders)

    def test_an_acknowledgement_past_a_batch_without_one_is_a_bug_and_stops(self, leaders: Leaders) -> None:
        sender = sender_to(leaders)
        for batch in BATCHES[:3]:
            sender.send(PLACE, batch, 1)
        sender._turn()
        sender._dispatch()
        sender._dispatch()
        sender._requests.pop(0)
        with pytest.raises(AssertionError, match="out-0: sequence 2 acknowledged out of order"):
            sender.flush()

    def test_sequences_start_anew_past_the_largest_number(self, leaders: Leaders) -> None:
        """31 bits: after 2,147,483,647 comes 0."""
        sender = sender_to(leaders)
        sender.send(PLACE, BATCHES[0], 1)
        lane = sender._lanes[PLACE]
        lane.next_sequence = 0x7FFFFFFF
        sender.send(PLACE, BATCHES[1], 1)
        assert lane.next_sequence == 0

    def test_nothing_sent_is_nothing_to_wait_for(self, leaders: Leaders) -> None:
        assert sender_to(leaders).flush() == {}
        assert leaders.requests == []


class TestRequests:
    def test_each_leader_gets_its_own_partitions_in_one_request(self, leaders: Leaders) -> None:
        leaders.leaders["out"] = [1, 2, 1]
        sender = sender_to(leaders)
        for partition in range(3):
            sender.send(TopicPartition("out", partition), BATCHES[0], 1)
        sender.flush()
        places = [TopicPartition("out", partition) for partition in range(3)]
        assert leaders.requests == [(1, [places[0], places[2]]), (2, [places[1]])]

    def test_one_over_its_size_is_split_and_a_batch_over_it_still_goes(
        self, leaders: Leaders, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sender_module, "REQUEST_BYTES", 1)
        leaders.leaders["out"] = [1, 1]
        sender = sender_to(leaders)
        for partition in range(2):
            sender.send(TopicPartition("out", partition), BATCHES[0], 1)
        sender.flush()
        assert [len(places) for _, places in leaders.requests] == [1, 1]

    def test_a_leader_has_no_more_than_five_on_their_way_over_all_its_partitions(self, leaders: Leaders) -> None:
        leaders.leaders["out"] = [1] * 8
        sender = sender_to(leaders)
        for partition in range(8):
            sender.send(TopicPartition("out", partition), BATCHES[0], 1)
            while sender._dispatch():
                pass
        assert len(leaders.requests) == IN_FLIGHT
        assert set(sender.flush().values()) == {Span(0, 1)}

    def test_more_than_memory_allows_waits_for_room(self, leaders: Leaders, monkeypatch: pytest.MonkeyPatch) -> None:
        most = 2 * len(BATCHES[0])
        monkeypatch.setattr(sender_module, "QUEUE_BYTES", most)
        sender = sender_to(leaders)
        for batch in BATCHES:
            sender.send(PLACE, batch, 1)
            assert sender._queued_bytes <= most
        assert len(leaders.values("out")) >= len(BATCHES) - 2

    def test_records_say_whether_they_belong_to_a_transaction(self, leaders: Leaders) -> None:
        for transactional_id, bit in (("p", 0x10), (None, 0)):
            leaders.log("out").taken.clear()
            sender = sender_to(leaders, transactional_id)
            sender.send(PLACE, BATCHES[0], 1)
            sender.flush()
            (header, _), *_ = leaders.log("out").taken
            assert (header.producer_id, header.producer_epoch, header.attributes & 0x10) == (7, 3, bit)


class TestLeaders:
    def test_one_that_has_moved_is_asked_for_again(self, leaders: Leaders) -> None:
        leaders.log("out").script.append(6)
        sender = sender_to(leaders)
        sender.send(PLACE, BATCHES[0], 1)
        sender._turn()
        leaders.leaders["out"] = [9, 2]
        assert sender.flush() == {PLACE: Span(0, 1)}
        assert [node for node, _ in leaders.requests] == [0, 9]

    def test_one_that_is_still_in_charge_is_not_asked_for_again(self, leaders: Leaders) -> None:
        leaders.log("out").script.append(19)
        send_all(leaders)
        assert leaders.asked_for_topics == 1

    def test_a_partition_without_one_is_waited_for(self, leaders: Leaders) -> None:
        leaders.leaders["out"] = [-1, 2]
        sender = sender_to(leaders)
        sender.send(PLACE, BATCHES[0], 1)
        sender._turn()
        assert leaders.requests == []
        leaders.leaders["out"] = [1, 2]
        assert sender.flush() == {PLACE: Span(0, 1)}

    def test_a_topic_that_is_new_is_waited_for_and_one_that_does_not_come_is_named(self, leaders: Leaders) -> None:
        sender = sender_to(leaders)
        sender.send(TopicPartition("late", 0), BATCHES[0], 1)
        sender._turn()
        leaders.leaders["late"] = [1]
        assert sender.flush() == {TopicPartition("late", 0): Span(0, 1)}
        sender.send(TopicPartition("missing", 0), BATCHES[0], 1)
        with pytest.raises(TopicUnusable, match="topic 'missing' does not exist; make it"):
            sender.flush()
        assert leaders.waited >= sender_module.NEW_TOPIC_S

    def test_a_partition_that_does_not_exist_is_named_with_how_many_there_are(self, leaders: Leaders) -> None:
        with pytest.raises(TopicUnusable, match="'out' has 2 partitions, so partition 2 does not exist"):
            send_all(leaders, TopicPartition("out", 2))

    def test_a_partition_that_takes_nothing_ends_at_the_deadline(self, leaders: Leaders) -> None:
        leaders.log("out").script.extend([19] * 100_000)
        with pytest.raises(BrokerUnreachable, match=r"out-0 took no record for 120 s.*min\.insync\.replicas"):
            send_all(leaders)
        assert leaders.waited == pytest.approx(sender_module.DELIVERY_TIMEOUT_S, abs=1)


class TestRefusals:
    @pytest.mark.parametrize("number", [47, 48, 49, 59, 90, 120])
    def test_a_transaction_that_is_no_longer_ours_is_told_apart(self, leaders: Leaders, number: int) -> None:
        leaders.log("out").script.append(number)
        with pytest.raises(IdentityLost, match=r"^out-0: "):
            send_all(leaders)

    @pytest.mark.parametrize(
        ("number", "name"), [(10, "MESSAGE_TOO_LARGE"), (87, "INVALID_RECORD"), (999, "ERROR_999")]
    )
    def test_a_batch_that_is_refused_for_good_is_named_with_its_size(
        self, leaders: Leaders, number: int, name: str
    ) -> None:
        leaders.log("out").script.append(number)
        with pytest.raises(
            BrokerRefused, match=rf"out-0 refused a batch of 1 records \({len(BATCHES[0])} bytes\): {name}"
        ):
            send_all(leaders)

    def test_a_sequence_that_the_broker_has_already_is_done(self, leaders: Leaders) -> None:
        """46 is how some brokers answer to a repeat."""
        leaders.log("out").script.extend([46])
        sender = sender_to(leaders)
        sender.send(PLACE, BATCHES[0], 1)
        sender.flush()
        assert len(leaders.requests) == 1


class TestGoingOn:
    """Several senders of one identity write to a partition, one after the other."""

    def test_each_goes_on_where_the_one_before_it_ended(self, leaders: Leaders) -> None:
        first, second = sender_to(leaders), sender_to(leaders)
        first.send(PLACE, BATCHES[0], 1)
        first.flush()
        second.go_on(PLACE, first.next_sequence(PLACE))
        for batch in BATCHES[1:4]:
            second.send(PLACE, batch, 1)
        assert second.flush() == {PLACE: Span(1, 4)}
        first.go_on(PLACE, second.next_sequence(PLACE))
        first.send(PLACE, BATCHES[4], 1)
        first.flush()
        assert leaders.values("out") == RECORDS[:5]
        assert [header.base_sequence for header, _ in leaders.log("out").taken] == [0, 1, 2, 3, 4]

    def test_a_partition_that_another_has_enrolled_takes_several_at_once(self, leaders: Leaders) -> None:
        sender = sender_to(leaders)
        sender.go_on(PLACE, 0)
        sender.send(PLACE, BATCHES[0], 1)
        sender.flush()
        other = sender_to(leaders)
        other.go_on(PLACE, 1)
        for batch in BATCHES[1:]:
            other.send(PLACE, batch, 1)
        while other._dispatch():
            pass
        assert len(other._requests) == IN_FLIGHT
