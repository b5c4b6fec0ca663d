"""What each answer of a partition's leader leads to: the production sender on leaders in memory."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.kafka import sender as sender_module
from onceward.kafka.batch import HEADER
from onceward.kafka.sender import IN_FLIGHT, Sender
from onceward.kafka.transaction import Identity
from support.leaders import Leaders, payload

PLACE = TopicPartition("out", 0)
BATCHES = [payload(b"%02d" % number) for number in range(12)]
RECORDS = [batch[HEADER.size :] for batch in BATCHES]


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> Leaders:
    """Two partitions, led by two brokers; time passes only while the sender waits."""
    leaders = Leaders({"out": [1, 2]})
    monkeypatch.setattr(sender_module, "time", SimpleNamespace(monotonic=leaders.clock))
    return leaders


def sender_to(leaders: Leaders, transactional_id: str | None = "p") -> Sender:
    return Sender(cast("Any", leaders), Identity(7, 3), transactional_id)


def send_all(leaders: Leaders, place: TopicPartition = PLACE) -> dict[TopicPartition, int]:
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
        assert send_all(leaders) == {PLACE: 0}
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
