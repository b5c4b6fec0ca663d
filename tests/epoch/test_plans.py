"""Spark's plans against the ledger and the marker: altered, torn or made by an overtaken driver."""

import msgspec
import pytest

from epoch.memory import Memory
from epoch.test_checkpoint import IN_0, home_of, plan
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.contract import LastCommit
from onceward.epoch.ledger import DONE, Entry, Ledger
from onceward.epoch.outcome import Outcome
from onceward.epoch.plans import put_right, require_continuity
from onceward.epoch.recovery import Recovered
from onceward.errors import HomeMismatch

OFFSETS = "checkpoints/000001/offsets"


def entry(epoch: int, end: int, *, with_plan: bool = True) -> Entry:
    text = plan(end).decode()
    return Entry(
        pipeline="p", lineage="L", term=1, epoch=epoch, phase=DONE, positions=[text.splitlines()[2]],
        plan=text if with_plan else "",
    )  # fmt: skip


def marker(epoch: int, end: int) -> LastCommit:
    return LastCommit(lineage="L", epoch=epoch, term=1, outcome=Outcome(), positions={IN_0: end})


class Start:
    """A home whose epochs 0 and 1 are committed, up to 5 and up to 9."""

    def __init__(self) -> None:
        self.storage = Memory()
        self.ledger = Ledger(self.storage, {}, "L")
        for epoch, end in ((0, 5), (1, 9)):
            self.ledger.write(entry(epoch, end))
            self.storage.files[f"{OFFSETS}/{epoch}"] = plan(end)
        self.checkpoint = Checkpoint.adopt(home_of(self.storage), 1)

    def put_right(self, last: LastCommit | None = None) -> list[str]:
        return put_right(self.checkpoint, self.ledger, Recovered(1, last))


@pytest.fixture
def start() -> Start:
    return Start()


def test_plans_that_agree_are_left_alone(start: Start) -> None:
    assert start.put_right(marker(1, 9)) == []


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("altered", [plan(3), plan(8), plan(99), b"", b"v1\n{}"])
def test_an_altered_or_torn_plan_of_a_committed_epoch_is_put_back(start: Start, epoch: int, altered: bytes) -> None:
    """Ten of ten bit flips and shifts once gave wrong output without an error."""
    before = start.storage.files[f"{OFFSETS}/{epoch}"]
    start.storage.files[f"{OFFSETS}/{epoch}"] = altered
    (told,) = start.put_right(marker(1, 9))
    assert f"offsets/{epoch}" in told
    assert "put back from the ledger" in told
    assert start.storage.files[f"{OFFSETS}/{epoch}"] == before


def test_an_altered_watermark_is_put_back(start: Start) -> None:
    """J6: one that is too late drops rows that the state still waits for, and nobody says so."""
    before = start.storage.files[f"{OFFSETS}/1"]
    start.storage.files[f"{OFFSETS}/1"] = before.replace(b'"batchWatermarkMs":0', b'"batchWatermarkMs":99')
    (told,) = start.put_right(marker(1, 9))
    assert 'offsets/1 said otherwise ({"batchWatermarkMs":99' in told
    assert start.storage.files[f"{OFFSETS}/1"] == before


def test_a_marker_and_a_ledger_that_disagree_are_named_and_nothing_is_changed(start: Start) -> None:
    with pytest.raises(HomeMismatch, match=r"epoch 1 was committed with in-0 up to 7, the ledger's entry says 9"):
        start.put_right(marker(1, 7))


def test_kafka_alone_without_an_entry_is_compared_with_its_marker(start: Start) -> None:
    start.storage.remove("ledger/000000000001-000001.json")
    assert start.put_right(marker(1, 9)) == []
    start.storage.files[f"{OFFSETS}/1"] = plan(8)
    with pytest.raises(HomeMismatch, match=r"epoch 1 was committed with in-0 up to 9, Spark's log says 8"):
        start.put_right(marker(1, 9))


def test_a_torn_plan_that_nobody_knows_is_named(start: Start) -> None:
    start.storage.remove("ledger/000000000001-000001.json")
    start.storage.files[f"{OFFSETS}/1"] = b""
    with pytest.raises(HomeMismatch, match=r"offsets/1 is empty or cut short.*the ledger does not have it"):
        start.put_right(marker(1, 9))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (b"", "empty or cut short"),
        (plan(8), "ends before it begins (in-0 from 9 to 8)"),
    ],
)
def test_an_unusable_plan_that_nobody_committed_is_made_anew(start: Start, made: bytes, says: str) -> None:
    """One that goes back was made by a driver that started from altered positions."""
    start.storage.files[f"{OFFSETS}/2"] = made
    (told,) = start.put_right(marker(1, 9))
    assert says in told
    assert "planned anew" in told
    assert f"{OFFSETS}/2" not in start.storage.files


def test_a_usable_plan_that_nobody_committed_stays(start: Start) -> None:
    start.storage.files[f"{OFFSETS}/2"] = plan(12)
    assert start.put_right(marker(1, 9)) == []
    assert start.checkpoint.planned() == 2


class TestBeforeEachEpoch:
    def require(self, start: Start, end: int = 12) -> None:
        start.storage.files[f"{OFFSETS}/2"] = plan(end)
        texts = entry(1, 9).positions
        require_continuity(start.checkpoint, 1, texts, start.checkpoint.positions(2))

    def test_a_log_that_agrees_is_no_error(self, start: Start) -> None:
        self.require(start)
        self.require(start, 9)

    @pytest.mark.parametrize("altered", [plan(8), b""])
    def test_one_that_was_altered_meanwhile_stops_the_pipeline(self, start: Start, altered: bytes) -> None:
        start.storage.files[f"{OFFSETS}/1"] = altered
        with pytest.raises(HomeMismatch, match=r"offsets/1.*[Tt]he next start puts it back"):
            self.require(start)

    def test_an_epoch_that_is_planned_backwards_stops_the_pipeline(self, start: Start) -> None:
        with pytest.raises(HomeMismatch, match=r"after 1 backwards \(in-0 from 9 to 8\)"):
            self.require(start, 8)


def test_a_planned_epoch_that_has_lost_a_source_is_planned_anew(start: Start) -> None:
    start.storage.files[f"{OFFSETS}/1"] = plan(9) + b'\n{"more":{"0":1}}'
    two = (plan(9) + b'\n{"more":{"0":1}}').decode()
    start.ledger.write(msgspec.structs.replace(entry(1, 9), positions=two.splitlines()[2:], plan=two))
    start.storage.files[f"{OFFSETS}/2"] = plan(12)
    (told,) = start.put_right()
    assert "offsets/2 has lost a source: nobody has committed epoch 2, so it is planned anew" in told
    assert f"{OFFSETS}/2" not in start.storage.files


def test_a_plan_that_is_missing_is_left_to_those_who_ask_whether_it_may_be(start: Start) -> None:
    start.storage.files["checkpoints/000001/metadata"] = b'{"id":"q"}'
    start.checkpoint.discard(1)
    assert start.put_right(marker(1, 9)) == []
    with pytest.raises(HomeMismatch, match="epoch 1 is committed, but Spark's checkpoint"):
        start.checkpoint.require_intact(1)
