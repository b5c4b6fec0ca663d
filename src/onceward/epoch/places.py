"""A place in the input: a source, a partition of a topic, an offset. Two clusters may have topics of one name.

A source is known by its number, as the engine's checkpoint has it. People write `clicks/0/17`, and `1:clicks/0/17`
where it is not the first source.
"""

import re
from typing import Final, NamedTuple

from onceward.epoch.outcome import TopicPartition

_PARTITION: Final = re.compile(r"(?:(?P<source>\d+):)?(?P<topic>[^:]+)/(?P<partition>\d+)", re.ASCII)


class SourcePartition(NamedTuple):
    """A partition of a topic, as one source reads it."""

    source: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{f'{self.source}:' if self.source else ''}{self.topic}/{self.partition}"

    @property
    def in_kafka(self) -> TopicPartition:
        """The partition alone."""
        return TopicPartition(self.topic, self.partition)


class SourceRecord(NamedTuple):
    """One record, as one source reads it."""

    source: int
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.read_in}/{self.offset}"

    @property
    def read_in(self) -> SourcePartition:
        """The partition that it is in."""
        return SourcePartition(self.source, self.topic, self.partition)


def parse_partition(text: str) -> tuple[int | None, str, int] | None:
    """`clicks/0` or `1:clicks/0`: the source's number, if one is given, the topic and the partition; None: neither."""
    match = _PARTITION.fullmatch(text.strip())
    if match is None:
        return None
    return int(match["source"]) if match["source"] else None, match["topic"], int(match["partition"])
