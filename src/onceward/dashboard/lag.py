"""What a pipeline has not read yet, where no driver says it: its positions against its topics' ends as of now."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.offsets import EARLIEST, LATEST, READ_COMMITTED, offsets
from onceward.kafka.wire import Wire

Lag = dict[str, int]  # records, by topic


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """Where the last committed epoch ended, and by their ids which topics that is about."""

    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)


def measured(wire: Wire, pipelines: Mapping[str, ReadUpTo]) -> dict[str, Lag]:
    """By pipeline. A topic of the same name in another cluster is not the pipeline's, nor one that was made anew."""
    wanted = {place.topic for it in pipelines.values() for place in it.positions}
    ids = wire.topic_ids(wanted) if wanted else {}
    ends, begins = offsets(wire, ids, LATEST, READ_COMMITTED), offsets(wire, ids, EARLIEST)
    found: dict[str, Lag] = {}
    for pipeline, it in pipelines.items():
        topics = {place.topic for place in it.positions}
        mine = {topic for topic in topics if topic in ids and ids[topic] == it.ids.get(topic)}
        lag = dict.fromkeys(sorted(mine), 0)
        for place, end in ends.items():
            if place.topic in mine:
                # What is gone cannot be unread, and a partition that has come is read from its beginning.
                begin = begins.get(place, 0)
                lag[place.topic] += max(0, end - max(begin, it.positions.get(place, begin)))
        if lag and mine == topics:  # of some of them it would be too little
            found[pipeline] = lag
    return found
