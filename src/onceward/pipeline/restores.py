"""A restore as a pipeline asks for it: the savepoint against its query, and Spark's way to rewrite state."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.epoch.entries import kind_of
from onceward.epoch.home import MEMORY, parse_home
from onceward.epoch.ledger import Entry, SinkEntry
from onceward.epoch.new_lineage import NewLineage
from onceward.epoch.query_shape import QueryShape, differences
from onceward.epoch.starting import Start
from onceward.errors import ConfigurationError
from onceward.pipeline.hadoop import HadoopStorage
from onceward.pipeline.plan_classes import require_known_classes
from onceward.pipeline.reviving import revival
from onceward.pipeline.rewriting import rewritten
from onceward.savepoint.manifest import CHECKPOINT, load
from onceward.savepoint.place import Place
from onceward.savepoint.restoring import Restoring

if TYPE_CHECKING:
    from onceward.pipeline.pipeline import Pipeline


def restoring(
    pipeline: "Pipeline",
    place: str | Path,
    start: Start,
    shape: QueryShape,
    *,
    partitions: int | None,
    new_lineage: bool,
) -> tuple[NewLineage, Restoring]:
    """Ready to be carried out once the home is ours; what can be refused before is refused here."""
    spark = pipeline.source.sparkSession
    at = place_of(place, spark)
    restore = Restoring(
        place=at,
        savepoint=load(at),
        start=start,
        rewrite=lambda *to: rewritten(spark, *to),
        partitions=partitions,
        backend=pipeline.state.backend if pipeline.state is not None else None,
        knowingly=new_lineage,
    )
    require_known_classes(spark, at.around, f"{at.name}/{CHECKPOINT}", at.location)
    restore.check(differences(restore.savepoint.shape, shape))
    begins = NewLineage(start=start, begins=restore)
    begins.look_first()
    if restore.savepoint.pipeline != pipeline.name and (
        shared := shared_outputs(restore.savepoint.entry, pipeline.sinks)
    ):
        start.report(
            f"{pipeline.name} is a copy of {restore.savepoint.pipeline} and writes to the same outputs as that one: "
            f"{'; '.join(shared)}. If both run, each of these gets the rows of both"
        )
    return begins, restore


def shared_outputs(saved: Entry, sinks: Mapping[str, TwoPhaseCommitSink]) -> list[str]:
    """The outputs that a copy has in common with the original, as far as sinks tell where they write."""
    theirs = {_destination(part.kind, part.settings) for part in saved.sinks.values()} - {None}
    ours = {name: _destination(kind_of(sink), sink.describe()) for name, sink in sinks.items()}
    return [f"{name} ({where})" for name, where in ours.items() if where in theirs]


def _destination(kind: str, settings: Mapping[str, Any] | None) -> str | None:
    try:
        part = SinkEntry(kind=kind, settings=dict(settings) if settings is not None else None)
        return revival("", part).destination
    except ConfigurationError:  # it has credentials in its settings, or is a class of the user's own
        return None


def place_of(place: str | Path, spark: SparkSession) -> Place:
    """A savepoint's directory, on a local path or in HDFS."""
    found = parse_home(place)
    if isinstance(found, Path):
        return Place.at(found)
    folder, _, name = found.rpartition("/")
    return Place(HadoopStorage(spark, folder), name, found)


def beside(home: str | Path, name: str) -> str:
    """Where a copy of that name lives: in the same folder as the original's home; in memory, if that is there."""
    if str(home) == MEMORY:
        return MEMORY
    folder, slash, _ = str(home).rstrip("/").rpartition("/")
    return f"{folder}{slash}{name}"
