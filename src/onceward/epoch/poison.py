"""Which record makes an epoch fail: ranges of offsets, halved until one is left.

Pure: whoever asks says whether a part of the epoch fails. Each part is tried by itself, so that what is found is a
record that fails all alone; that is sound where no row's result depends on rows of other epochs, so without state.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from onceward.epoch.outcome import TopicPartition
from onceward.epoch.places import SourcePartition, SourceRecord
from onceward.errors import SkipRefused

Ranges = Mapping[SourcePartition, range]  # of offsets; those that hold nothing are left out
MOST: Final = 20  # records of one epoch; more of them are no accident, but a change of what is written there


def ranges_of(begins: Sequence[Mapping[TopicPartition, int]], ends: Sequence[Mapping[TopicPartition, int]]) -> Ranges:
    """What each source of an epoch reads; a partition that is new to it begins with 0, as Spark has it."""
    found = {
        SourcePartition(source, *place): range(begins[source].get(place, 0) if source < len(begins) else 0, end)
        for source, offsets in enumerate(ends)
        for place, end in sorted(offsets.items())
    }
    return {place: offsets for place, offsets in found.items() if offsets}


def size(ranges: Ranges) -> int:
    return sum(map(len, ranges.values()))


def halves(ranges: Ranges) -> tuple[Ranges, Ranges]:
    """Of at least two offsets: whole partitions where possible, else one of them is cut."""
    left: dict[SourcePartition, range] = {}
    right: dict[SourcePartition, range] = {}
    wanted = size(ranges) // 2
    for place, offsets in ranges.items():
        room = max(0, wanted - size(left))
        for half, part in ((left, offsets[:room]), (right, offsets[room:])):
            if part:
                half[place] = part
    return left, right


def find(ranges: Ranges, fails: Callable[[Ranges], bool]) -> SourceRecord:
    """The first record that fails alone, of ranges that fail together."""
    while size(ranges) > 1:
        left, right = halves(ranges)
        half = next((half for half in (left, right) if fails(half)), None)
        if half is None:
            raise SkipRefused(
                f"{said(ranges)}: these fail together, and neither half of them fails alone. So no single record is at "
                "fault, or what failed has passed: start the pipeline again, and read its error."
            )
        ranges = half
    (place, offsets) = next(iter(ranges.items()))
    return SourceRecord(*place, offsets[0])


def said(ranges: Ranges) -> str:
    """Which offsets these are, for people."""
    told = [f"{place}/{it[0]}" + (f"-{it[-1]}" if len(it) > 1 else "") for place, it in
            ranges.items()]  # fmt: skip
    return ", ".join(told[:3]) + (f" and {len(told) - 3} more partitions" if len(told) > 3 else "")
