"""Records that a person has told the pipeline to pass over: on record, in one epoch, and never in the past."""

from pathlib import Path

import msgspec
import pytest

from epoch.memory import Memory
from epoch.started import Pipeline
from onceward.epoch import skips
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.places import SourceRecord
from onceward.epoch.sealed import unseal
from onceward.epoch.skips import Skipped, Skips
from onceward.errors import LedgerCorrupt, SkipRefused

IN = TopicPartition("in", 0)
POISON = Skipped(
    topic="in",
    partition=0,
    offset=2,
    key=b"\xff",
    value=b"\0poison",
    headers=[("h", b"1"), ("h", None)],
    timestamp_ms=17,
    reason="no JSON",
    dead_letters="dead",
    at="noon",
    by="process 1 on h",
)


@pytest.fixture
def storage() -> Memory:
    return Memory()


def test_a_record_is_kept_as_it_was_read(storage: Memory) -> None:
    """I3: bytes that are no text too."""
    assert skips.read(storage.read(skips.FILE)) == ()
    skips.add(storage, POISON)
    assert skips.read(storage.read(skips.FILE)) == (POISON,)


def test_one_is_added_once_and_taken_back_once(storage: Memory) -> None:
    skips.add(storage, POISON)
    with pytest.raises(SkipRefused, match="in/0/2 is skipped already"):
        skips.add(storage, POISON)
    skips.remove(storage, POISON.place)
    assert skips.read(storage.read(skips.FILE)) == ()
    with pytest.raises(SkipRefused, match="in/0/2 is not skipped"):
        skips.remove(storage, POISON.place)


def test_a_damaged_file_is_named(storage: Memory) -> None:
    skips.add(storage, POISON)
    storage.files[skips.FILE] = storage.files[skips.FILE].replace(b"no JSON", b"no XML!")
    with pytest.raises(LedgerCorrupt, match=r"skipped.json is damaged"):
        skips.read(storage.read(skips.FILE))


def test_a_file_of_the_first_format_is_read_by_every_build() -> None:
    data = (Path(__file__).parents[1] / "golden" / "skipped-1.json").read_bytes()
    assert unseal(data, Skips, "it", skips.FORMAT) == Skips(records=[POISON])


@pytest.mark.parametrize(("begin", "end", "found"), [(0, 2, False), (0, 3, True), (2, 3, True), (3, 9, False)])
def test_it_is_in_the_one_epoch_whose_range_it_is_in(begin: int, end: int, found: bool) -> None:
    assert bool(skips.in_range([POISON], [{IN: begin}], [{IN: end}])) is found


@pytest.mark.parametrize(("begin", "end", "found"), [(0, 0, False), (0, 1, True), (1, 3, False)])
def test_a_partitions_first_record_is_one_like_any_other(begin: int, end: int, found: bool, storage: Memory) -> None:
    """Its offset is 0, which is neither nothing nor before the beginning."""
    first = msgspec.structs.replace(POISON, offset=0)
    assert skips.in_range([first], [{IN: begin}], [{IN: end}]) == ((first,) if found else ())
    assert skips.in_range([first], [{}], [{IN: end}]) == ((first,) if end else ())
    assert skips.parse("in/0/0") == (None, "in", 0, 0)
    assert skips.parse("0:in/0/0") == (0, "in", 0, 0)
    skips.add(storage, first)
    assert skips.read(storage.read(skips.FILE)) == (first,)
    skips.remove(storage, first.place)
    skips.require_ahead(first.place, -1, [{IN: 0}])
    skips.require_ahead(first.place, 4, [{}])
    for committed in (-1, 0):
        with pytest.raises(SkipRefused, match="in/0/0 is in the past"):
            skips.require_ahead(first.place, committed, [{IN: 1}])


def test_of_a_partition_that_is_new_the_epoch_begins_with_0() -> None:
    assert skips.in_range([POISON], [], [{IN: 3}]) == skips.in_range([POISON], [{}], [{IN: 3}]) == (POISON,)
    assert skips.in_range([POISON], [{}], [{TopicPartition("in", 1): 3}]) == ()


def test_a_record_of_another_source_is_another_record() -> None:
    """Two clusters may have topics of one name: the good record of the one is not that of the other."""
    other = msgspec.structs.replace(POISON, source=1)
    begins, ends = [{IN: 0}, {IN: 0}], [{IN: 9}, {IN: 2}]
    assert skips.in_range([POISON, other], begins, ends) == (POISON,)
    assert skips.in_range([POISON, other], begins, ends[::-1]) == (other,)
    assert skips.in_range([other], begins[:1], ends[:1]) == ()
    assert (str(POISON.place), str(other.place)) == ("in/0/2", "1:in/0/2")
    skips.require_ahead(other.place, 4, ends)
    with pytest.raises(SkipRefused, match="1:in/0/2 is in the past"):
        skips.require_ahead(other.place, 4, ends[::-1])


def test_what_is_committed_stays() -> None:
    skips.require_ahead(POISON.place, 4, [{IN: 2}])
    with pytest.raises(SkipRefused, match=r"in/0/2 is in the past: .* committed up to offset 3 \(epoch 4\)"):
        skips.require_ahead(POISON.place, 4, [{IN: 3}])
    with pytest.raises(SkipRefused, match="began with offset 9"):
        skips.require_ahead(POISON.place, -1, [{IN: 9}])


def test_a_record_as_people_write_it() -> None:
    assert skips.parse(" a/b/0/17 ") == (None, "a/b", 0, 17)
    assert skips.parse("12:clicks/0/17") == (12, "clicks", 0, 17)
    assert str(SourceRecord(0, "a/b", 0, 17)) == "a/b/0/17"
    assert str(SourceRecord(12, "clicks", 0, 17)) == "12:clicks/0/17"


@pytest.mark.parametrize(
    "text", ["", "clicks", "clicks/0", "/0/1", "clicks/x/1", "clicks/0/-1", "x:clicks/0/1", ":clicks/0/1", "clicks/٣/1"]
)
def test_what_names_no_record_is_refused(text: str) -> None:
    with pytest.raises(SkipRefused, match="names no record; write TOPIC/PARTITION/OFFSET"):
        skips.parse(text)


@pytest.mark.parametrize("decides", [False, True])
def test_the_ledger_names_it_with_its_epoch_and_a_replay_finds_it_again(decides: bool) -> None:
    """I3: the epoch before and the one after say nothing."""
    pipeline = Pipeline(decides=decides)
    first = pipeline.start()
    first.run(0, "a", end=2)
    first.runner.close()
    skips.add(pipeline.notes, POISON)
    driver = pipeline.start()
    driver.run(1, "b", end=4)
    driver.run(2, "c", end=5)
    driver.runner.close()
    told = [entry.skipped for entry in driver.taken.ledger.newest(3)]
    assert told == [[], ["in/0/2"], []]
    checkpoint = pipeline.start().taken.checkpoint

    def passed(epoch: int) -> tuple[Skipped, ...]:
        return checkpoint.passed_over((POISON,), epoch, checkpoint.positions(epoch))

    assert passed(1) == (POISON,)
    assert passed(0) == ()


def test_a_reset_says_that_they_are_read_again() -> None:
    from epoch.test_resetting import means

    pipeline = Pipeline(decides=True)
    pipeline.start().run(0, "a")
    skips.add(pipeline.notes, POISON)
    assert "skipped records: in/0/2; they are skipped no longer" in means(pipeline)
