"""Where a pipeline reads and writes, as its ledger tells, in words and names. Pure; none of it is ever connected to."""

from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from onceward.dashboard.model import SinkFacts
from onceward.epoch.checkpoint import kafka_positions
from onceward.epoch.ledger import Entry, SinkEntry
from onceward.secret import without_secrets
from onceward.telemetry.activity import Activity

KINDS: Final = {
    "KafkaSink": "kafka",
    "FileSink": "files",
    "PostgresSink": "postgres",
    "DeltaSink": "delta",
    "IcebergSink": "iceberg",
}
PLACES: Final = ("table", "path")  # the settings that name where a sink writes
NODES: Final = {"kafka": "topic", "files": "files", "postgres": "table", "delta": "lake", "iceberg": "lake"}


class Target(NamedTuple):
    """A place that a sink writes to."""

    sink: str
    kind: str  # of the node: topic, table, files, lake
    label: str


def kind_of(text: str) -> str:
    """A word for a class that an entry names."""
    name = text.rpartition(":")[2].rpartition(".")[2]
    return KINDS.get(name, name)


def sinks_of(entry: Entry | None, said: Activity | None, topics: AbstractSet[str] = frozenset()) -> list[SinkFacts]:
    """As of the newest epoch; before the first one, as the driver says. `topics`: written to in the last epochs."""
    if entry is not None and entry.sinks:
        return [
            SinkFacts(
                name=name,
                kind=kind_of(part.kind),
                decides=name == entry.decider,
                place=", ".join(_labels(name, part, topics)),
            )
            for name, part in entry.sinks.items()
        ]
    return [SinkFacts(name=it.name, kind=kind_of(it.kind), decides=it.decides) for it in (said.sinks if said else ())]


def sources_of(entry: Entry | None) -> list[str]:
    """The topics that it reads."""
    return sorted({place.topic for place in kafka_positions(entry.positions)}) if entry is not None else []


def targets_of(entry: Entry | None, topics: AbstractSet[str] = frozenset()) -> list[Target]:
    """Everything that it writes to."""
    if entry is None:
        return []
    return [
        Target(name, NODES.get(kind_of(part.kind), "table"), label)
        for name, part in entry.sinks.items()
        for label in _labels(name, part, topics)
    ]


def _labels(name: str, part: SinkEntry, topics: AbstractSet[str]) -> list[str]:
    """Topics, a table or a directory. A sink with secrets describes itself by its votes only."""
    settings: dict[str, Any] = without_secrets(part.settings or {})
    if kind_of(part.kind) == "kafka":
        told = {settings["topic"]} if settings.get("topic") else set()
        return sorted({topic for topic, _, _, _ in part.partitions} | set(topics) | told)
    return [str(next((settings[key] for key in PLACES if settings.get(key)), name))]
