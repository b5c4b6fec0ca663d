"""Which record makes an epoch fail: halves of ranges of offsets, without Spark."""

from itertools import combinations, product

import pytest

from onceward.epoch import poison
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.places import SourcePartition, SourceRecord
from onceward.epoch.poison import Ranges
from onceward.errors import SkipRefused

A, B, C = (SourcePartition(0, "a", 0), SourcePartition(0, "a", 1), SourcePartition(1, "a", 0))


def of_sources(offsets: dict[SourcePartition, int]) -> list[dict[TopicPartition, int]]:
    """As the engine's log has them: for each source its own."""
    return [{place.in_kafka: at for place, at in offsets.items() if place.source == source} for source in range(2)]


def holds(ranges: Ranges, record: SourceRecord) -> bool:
    return record.offset in ranges.get(record.read_in, range(0))


@pytest.mark.parametrize("lengths", [it for it in product((0, 1, 2, 5), repeat=3) if any(it)], ids=str)
def test_a_record_that_fails_alone_is_found_wherever_it_is(lengths: tuple[int, ...]) -> None:
    """I3: each one, and each two."""
    begins = {A: 5, B: 0, C: 17}
    ends = {place: begin + length for (place, begin), length in zip(begins.items(), lengths, strict=True)}
    ranges = poison.ranges_of(of_sources(begins), of_sources(ends))
    every = [SourceRecord(*place, offset) for place, offsets in ranges.items() for offset in offsets]
    assert len(every) == poison.size(ranges) == sum(lengths)
    for poisoned in (*combinations(every, 1), *combinations(every, 2)):
        tried: list[int] = []

        def fails(part: Ranges, poisoned: tuple[SourceRecord, ...] = poisoned, tried: list[int] = tried) -> bool:
            tried.append(poison.size(part))
            return any(holds(part, it) for it in poisoned)

        assert poison.find(ranges, fails) in poisoned
        assert sum(tried) <= 3 * len(every)  # halves of halves: not the whole epoch each time


def test_a_partition_that_is_new_to_the_epoch_begins_with_its_first_offset() -> None:
    assert poison.ranges_of(of_sources({A: 3}), of_sources({A: 3, B: 2})) == {B: range(2)}
    assert poison.ranges_of([], of_sources({A: 3, C: 2})) == {A: range(3), C: range(2)}


def test_both_halves_together_are_the_whole() -> None:
    left, right = poison.halves({A: range(3, 4), B: range(6), C: range(2)})
    assert left == {A: range(3, 4), B: range(3)}
    assert right == {B: range(3, 6), C: range(2)}


def test_records_that_fail_only_together_are_no_poison_record() -> None:
    """I3: a record that is skipped is lost to the sinks, so none is accused that runs through alone."""
    together = SourceRecord(0, "a", 0, 1), SourceRecord(0, "a", 1, 1)
    with pytest.raises(SkipRefused, match=r"a/0/0-1, a/1/0-1: these fail together, and neither half"):
        poison.find({A: range(2), B: range(2)}, lambda part: all(holds(part, it) for it in together))


def test_many_partitions_are_told_in_a_line() -> None:
    ranges = {SourcePartition(number // 2, "t", number): range(1) for number in range(5)}
    assert poison.said(ranges) == "t/0/0, t/1/0, 1:t/2/0 and 2 more partitions"
