"""Starting pipelines from a snapshot: as a whole new copy, or in place where nothing was committed since.

A copy is made in steps that may each be repeated: its topics are made and filled, by one transaction for each pipeline
that writes; then each pipeline begins with its savepoint, rewritten to the copy's topics. Killed at any moment, it is
gone on with by the same command; once all have begun, that just starts them.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from onceward import crashpoints
from onceward.epoch.checkpoint import kafka_positions, offsets_of
from onceward.epoch.home import require_name
from onceward.epoch.outcome import TopicPartition
from onceward.errors import SavepointOutdated, SnapshotUnusable
from onceward.kafka.copies import Copy
from onceward.pipeline.host import Restores
from onceward.pipeline.pipeline import Pipeline
from onceward.pipeline.restores import shared_outputs
from onceward.pipeline.source import sources
from onceward.savepoint.manifest import Savepoint
from onceward.savepoint.place import Place
from onceward.sinks.kafka import KafkaSink
from onceward.snapshot.filling import Filling, Positions, ranges
from onceward.snapshot.manifest import Member, Snapshot, savepoint_of
from onceward.snapshot.rewriting import rewrite
from onceward.snapshot.verifying import verify


def copy_of(snapshot: Snapshot, prefix: str) -> Copy:
    """Which names a copy has."""
    require_name(prefix)
    return Copy(prefix, frozenset(topic for member in snapshot.members for topic in member.writes))


@dataclass(slots=True)
class RestoredCopy:
    """A snapshot's pipelines under other names. They were built while their topics had other names, too."""

    spark: SparkSession
    place: Place
    snapshot: Snapshot
    copy: Copy
    pipelines: Sequence[Pipeline]
    report: Callable[[str], None]
    outputs_apart: bool = False  # a person says that sinks which do not tell write elsewhere in a copy

    @contextmanager
    def ready(self) -> Iterator[dict[str, Restores]]:
        """Everything but the start: with which savepoint each pipeline begins; none for those that have begun."""
        savepoints = verify(self.place, self.snapshot)
        for pipeline in self.pipelines:
            self._require_apart(pipeline, savepoints[pipeline.name])
        by_name = {pipeline.name: pipeline for pipeline in self.pipelines}
        for pipeline in self.pipelines:
            pipeline.rename(f"{self.copy.prefix}-{pipeline.name}")
        waiting = [name for name, pipeline in by_name.items() if not pipeline.has_begun()]
        restores: dict[str, Restores] = {}
        with tempfile.TemporaryDirectory(prefix="onceward-") as folder:
            positions = self._fill(by_name, savepoints) if waiting else {}
            crashpoints.reach("snapshot-filled")
            for name in waiting:
                made = rewrite(
                    savepoint_of(self.place, name),
                    savepoints[name],
                    Path(folder) / name,
                    renamed=self.copy.source,
                    positions=positions,
                )
                restores[by_name[name].name] = Restores(from_savepoint=made.location)
            yield restores

    def _fill(self, by_name: Mapping[str, Pipeline], savepoints: Mapping[str, Savepoint]) -> Positions:
        positions: Positions = {}
        reads = {name: _all_positions(saved) for name, saved in savepoints.items()}
        for member in self.snapshot.members:
            if not member.writes:
                continue
            channels = [it for it in self.snapshot.channels if it.producer == member.pipeline]
            filling = Filling(
                self.spark,
                self.snapshot,
                savepoints,
                member,
                self.copy,
                _kafka_sink(by_name[member.pipeline], member).cluster,
                ranges(channels, reads),
                _source_of(by_name[channels[0].consumer]) if channels else {},
            )
            under_way = sum(channel.offsets for channel in channels)
            self.report(
                f"{member.pipeline}: topics {', '.join(sorted(map(self.copy.name, member.writes)))}"
                f"{f', with up to {under_way} records that were on their way' if under_way else ''}"
            )
            positions |= filling.fill()
        return positions

    def _require_apart(self, pipeline: Pipeline, saved: Savepoint) -> None:
        """A copy must not write where the original writes, nor read from there what the copy itself makes."""
        others = {name: sink for name, sink in pipeline.sinks.items() if not isinstance(sink, KafkaSink)}
        if shared := shared_outputs(saved.entry, others):
            raise SnapshotUnusable(
                f"the copy of {pipeline.name!r} would write to the original's outputs: {'; '.join(shared)}. Let the "
                "file say another place in a copy, for instance: table=ow.copy_prefix() + 'bills'"
            )
        silent = [name for name, sink in others.items() if sink.describe() is None]
        if silent and not self.outputs_apart:
            raise SnapshotUnusable(
                f"where sink {silent[0]!r} of {pipeline.name!r} writes cannot be told, and a copy must not write where "
                "the original does: let it write elsewhere in a copy (ow.copy_prefix()), then say --outputs-apart"
            )
        joined = {channel.topic for channel in self.snapshot.channels if channel.consumer == pipeline.name}
        read = {place.topic for place in kafka_positions(saved.entry.positions)}
        if namesakes := sorted((read & self.copy.topics) - joined):
            raise SnapshotUnusable(
                f"{pipeline.name!r} reads a topic {namesakes[0]!r} that is another one than the topic of that name "
                "which a pipeline of the snapshot writes (another cluster, or made again): a copy goes by names, and "
                "could not tell them apart. Leave one of the two pipelines out of the snapshot."
            )
        for name, options in sources(pipeline.source):
            topics = {it.strip() for it in options.get("subscribe", "").split(",")} if name == "kafka" else set()
            if name == "kafka" and ("subscribe" not in options or topics & self.copy.topics):
                raise SnapshotUnusable(
                    f"a source of {pipeline.name!r} would read the original's topics: read it with ow.read_kafka, or "
                    "name its topics one by one with ow.topic('NAME')"
                )


def in_place(place: Place, snapshot: Snapshot, pipelines: Sequence[Pipeline]) -> dict[str, Restores]:
    """Each with its savepoint, under its own name; refused unless nothing at all lies behind the cut.

    Where some have begun with theirs and others have not, a restore was killed on its way: those just start.
    """
    savepoints = verify(place, snapshot)
    waiting = [it for it in pipelines if it.began_with() != savepoints[it.name].id] or pipelines
    restores = {
        pipeline.name: Restores(from_savepoint=savepoint_of(place, pipeline.name).location) for pipeline in waiting
    }
    behind = []
    for pipeline in waiting:
        try:
            pipeline.require_restorable(restores[pipeline.name]["from_savepoint"] or "")
        except SavepointOutdated as error:
            behind.append(str(error).partition("\nNothing was touched")[0])
    if behind:
        raise SavepointOutdated(
            "the pipelines went on after the snapshot, and a topic cannot be cut back: what they wrote would be read "
            "twice.\n" + "\n".join(behind) + "\nNothing was touched. Restore it as a copy: --as PREFIX."
        )
    return restores


def require_members(snapshot: Snapshot, pipelines: Sequence[Pipeline]) -> list[Pipeline]:
    """The snapshot's pipelines among those of some files."""
    found = {pipeline.name: pipeline for pipeline in pipelines}
    missing = [member.pipeline for member in snapshot.members if member.pipeline not in found]
    if missing:
        raise SnapshotUnusable(
            f"the snapshot holds {', '.join(map(repr, missing))}, which the files do not have (they have "
            f"{', '.join(map(repr, sorted(found)))}): name every file whose build(spark) makes one of its pipelines"
        )
    return [found[member.pipeline] for member in snapshot.members]


def _all_positions(saved: Savepoint) -> dict[TopicPartition, set[int]]:
    found: dict[TopicPartition, set[int]] = {}
    for text in saved.entry.positions:
        for place, offset in offsets_of(text).items():
            found.setdefault(place, set()).add(offset)
    return found


def _kafka_sink(pipeline: Pipeline, member: Member) -> KafkaSink:
    for sink in pipeline.sinks.values():
        if isinstance(sink, KafkaSink):
            return sink
    raise SnapshotUnusable(
        f"{member.pipeline!r} wrote {', '.join(sorted(member.writes))}, and in the file it has no Kafka sink any more"
    )


def _source_of(pipeline: Pipeline) -> dict[str, str]:
    return next(options for name, options in sources(pipeline.source) if name == "kafka")
