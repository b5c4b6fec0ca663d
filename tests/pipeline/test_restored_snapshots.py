"""Snapshots restored: as whole copies that go on to the record, and in place where nothing lies behind the cut."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.home import Home
from onceward.errors import SavepointOutdated, SnapshotDamaged, SnapshotUnusable
from onceward.kafka.copies import building
from onceward.kafka.wire import Wire
from onceward.savepoint.manifest import load as load_savepoint
from onceward.savepoint.place import Place
from onceward.snapshot.creating import create
from onceward.snapshot.manifest import Snapshot, savepoint_of
from onceward.snapshot.restoring import RestoredCopy, copy_of, in_place, require_members
from onceward.snapshot.verifying import verify
from support.judge import Kafka

pytestmark = pytest.mark.slow


class Jobs:
    """`clean` writes a topic that `bill` and `audit` read: one of them keeps state, the other reads it twice."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.events, self.clean = kafka.topic(2), kafka.topic(2, **{"retention.ms": "700000000"})
        self.bills, self.audits = kafka.topic(2), kafka.topic(2)

    def pipeline(self, kind: str, source: str, target: str, shape: Callable[[Any], Any]) -> ow.Pipeline:
        rows = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[source])
        shaped = shape(rows.selectExpr("cast(key as string) as key", "cast(value as string) as value", "topic as t"))
        home = self.folder / f"{self.name}-{kind}"
        return ow.Pipeline(f"{self.name}-{kind}", home, shaped).to(
            ow.KafkaSink(self.kafka.bootstrap, topic=target), rows=lambda batch: batch.select("key", "value")
        )

    def build(self) -> list[ow.Pipeline]:
        """Rows say which topic they are of: in a copy the same as in the original."""
        shown = f"concat(value, if(t = '{self.clean}', '!', '?')) as value"
        return [
            self.pipeline("clean", self.events, self.clean, lambda rows: rows),
            self.pipeline("bill", self.clean, self.bills, lambda rows: rows.dropDuplicates(["key"])),
            self.pipeline("audit", self.clean, self.audits, lambda rows: rows.selectExpr("key", shown)),
        ]

    def feed(self, *numbers: int) -> None:
        self.kafka.feed(self.events, ((str(number), str(number)) for number in numbers))

    def run(self, *kinds: str, **said: Any) -> None:
        for pipeline in self.build():
            if pipeline.name.removeprefix(f"{self.name}-") in kinds:
                pipeline.start(trigger="once", **said).wait(120)

    def snapshot(self, to: str = "snapshot") -> tuple[Place, Snapshot]:
        homes = [Home.at(self.folder / f"{self.name}-{kind}") for kind in ("clean", "bill", "audit")]
        place, snapshot = create(homes, self.folder / to, now=lambda: "now", patience_s=0)
        wire = Wire(self.wire().cluster)
        verify(place, snapshot, wire)
        wire.close()
        return place, snapshot

    def wire(self) -> Wire:
        return ow.KafkaSink(self.kafka.bootstrap).wire

    def copy(self, place: Place, snapshot: Snapshot, prefix: str, *, outputs_apart: bool = False) -> None:
        """As the command does it, in this process."""
        copy = copy_of(snapshot, prefix)
        with building(copy):
            pipelines = require_members(snapshot, self.build())
        made = RestoredCopy(self.spark, place, snapshot, copy, pipelines, lambda _: None, outputs_apart=outputs_apart)
        with made.ready() as restores:
            for pipeline in sorted(pipelines, key=lambda it: "clean" not in it.name):
                pipeline.start(trigger="once", **restores.get(pipeline.name, {})).wait(120)

    def values(self, topic: str) -> Counter[str]:
        return Counter(self.kafka.values(topic))


@pytest.fixture
def jobs(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Jobs:
    return Jobs(spark, kafka, name, tmp_path)


def test_a_copy_goes_on_with_what_was_on_its_way_for_each_of_several_readers(jobs: Jobs) -> None:
    """D5: readers at different places of one topic; state comes along; the original is not touched."""
    jobs.feed(*range(10))
    jobs.run("clean", "bill", "audit")
    jobs.feed(*range(5, 15))
    jobs.run("clean", "audit")
    jobs.feed(*range(15, 20))
    jobs.run("clean")
    place, snapshot = jobs.snapshot()
    assert sorted(channel.offsets > 0 for channel in snapshot.channels) == [True, True]
    originals = {topic: jobs.values(topic) for topic in (jobs.clean, jobs.bills, jobs.audits)}
    jobs.feed(20)
    jobs.copy(place, snapshot, "copy")
    assert jobs.values(f"copy-{jobs.bills}") == Counter(map(str, range(10, 21)))
    assert jobs.values(f"copy-{jobs.audits}") == Counter(f"{number}!" for number in range(15, 21))
    assert {topic: jobs.values(topic) for topic in originals} == originals
    layouts = jobs.wire().layouts([f"copy-{jobs.clean}"])
    assert layouts[f"copy-{jobs.clean}"].settings["retention.ms"] == "700000000"


def test_the_same_command_goes_on_with_a_copy_and_fills_nothing_twice(jobs: Jobs) -> None:
    """D5."""
    jobs.feed(*range(6))
    jobs.run("clean", "bill", "audit")
    jobs.feed(*range(6, 9))
    jobs.run("clean")
    place, snapshot = jobs.snapshot()
    jobs.copy(place, snapshot, "again")
    jobs.feed(9)
    jobs.copy(place, snapshot, "again")
    assert jobs.values(f"again-{jobs.bills}") == Counter(map(str, range(6, 10)))
    assert jobs.values(f"again-{jobs.audits}") == Counter(f"{number}!" for number in range(6, 10))


def test_a_copy_into_topics_that_hold_something_else_is_refused(jobs: Jobs) -> None:
    """D5: also if it is the copy of another snapshot."""
    jobs.feed(*range(3))
    jobs.run("clean", "bill", "audit")
    place, snapshot = jobs.snapshot()
    wire = jobs.wire()
    wire.create_topics([f"used-{jobs.bills}"], 2)
    jobs.kafka.feed(f"used-{jobs.bills}", [("somebody", "else")])
    with pytest.raises(SnapshotUnusable, match=f"topic 'used-{jobs.bills}' holds something already"):
        jobs.copy(place, snapshot, "used")
    assert jobs.values(f"used-{jobs.bills}") == Counter(["else"])
    jobs.copy(place, snapshot, "mine")
    other = jobs.snapshot("another")
    for kind in ("clean", "bill", "audit"):
        (jobs.folder / f"mine-{jobs.name}-{kind}").rename(jobs.folder / f"gone-{kind}")
    with pytest.raises(SnapshotUnusable, match="holds something already, and not of this snapshot"):
        jobs.copy(*other, "mine")


def test_a_fill_whose_marker_is_gone_is_not_repeated(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: offsets of an idle group expire. What is committed must not be taken for what an aborted try has left."""
    jobs.feed(*range(3))
    jobs.run("clean", "bill", "audit")
    jobs.feed(3)
    jobs.run("clean")
    place, snapshot = jobs.snapshot()
    jobs.copy(place, snapshot, "once")
    for kind in ("clean", "bill", "audit"):
        (jobs.folder / f"once-{jobs.name}-{kind}").rename(jobs.folder / f"gone-{kind}")
    monkeypatch.setattr(ow.KafkaSink, "last_commit", lambda _: None)
    with pytest.raises(SnapshotUnusable, match="or of a restore whose marker is gone"):
        jobs.copy(place, snapshot, "once")


def test_a_topic_that_was_made_again_is_not_copied_from(jobs: Jobs) -> None:
    """D5: its offsets may be there, and are another topic's."""
    jobs.feed(*range(3))
    jobs.run("clean", "bill", "audit")
    jobs.feed(3)
    jobs.run("clean")
    place, snapshot = jobs.snapshot()
    channels = [replace(channel, topic_id="another") for channel in snapshot.channels]
    members = [replace(member, writes=dict.fromkeys(member.writes, "another")) for member in snapshot.members]
    forged = replace(snapshot, channels=channels, members=members)
    copy = copy_of(forged, "stale")
    with building(copy):
        pipelines = require_members(forged, jobs.build())
    made = RestoredCopy(jobs.spark, place, forged, copy, pipelines, lambda _: None)
    savepoints = verify(place, snapshot)
    with pytest.raises(SnapshotDamaged, match=r"can no longer be restored: topic .* was deleted and made again"):
        made._fill({pipeline.name: pipeline for pipeline in pipelines}, savepoints)
    assert jobs.values(f"stale-{jobs.clean}") == Counter()


def test_a_sink_that_does_not_tell_where_it_writes_needs_a_persons_word(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5."""
    build, seen = jobs.build, list[str]()

    def with_function() -> list[ow.Pipeline]:
        first, *others = build()
        prefix = ow.copy_prefix()
        return [first.to(ow.FunctionSink(lambda _rows, _epoch: seen.append(prefix), idempotent=True)), *others]

    monkeypatch.setattr(jobs, "build", with_function)
    jobs.feed(1)
    jobs.run("clean", "bill", "audit")
    place, snapshot = jobs.snapshot()
    with pytest.raises(SnapshotUnusable, match=r"where sink 'function' .* cannot be told.*--outputs-apart"):
        jobs.copy(place, snapshot, "word")
    jobs.feed(2)
    jobs.copy(place, snapshot, "word", outputs_apart=True)
    assert set(seen) == {"", "word-"}


def test_a_copy_that_would_share_the_originals_outputs_or_topics_is_refused(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: before anything is made."""
    build = jobs.build

    def with_files(folder: Callable[[], str]) -> list[ow.Pipeline]:
        first, *others = build()
        return [first.to(ow.FileSink(tmp_path / folder(), format="json")), *others]

    monkeypatch.setattr(jobs, "build", lambda: with_files(lambda: "files"))
    jobs.feed(*range(3))
    jobs.run("clean", "bill", "audit")
    place, snapshot = jobs.snapshot()
    with pytest.raises(SnapshotUnusable, match=r"would write to the original's outputs: .*files.*ow.copy_prefix"):
        jobs.copy(place, snapshot, "shared")

    def plainly_read(name: Callable[[str], str]) -> list[ow.Pipeline]:
        rows = (
            jobs.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", jobs.kafka.bootstrap)
            .option("subscribe", name(jobs.clean))
            .option("startingOffsets", "earliest")
            .option("kafka.isolation.level", "read_committed")
            .load()
        )
        first, second, third = with_files(lambda: f"{ow.copy_prefix()}files")
        shaped = rows.selectExpr("cast(key as string) as key", "cast(value as string) as value", "topic as t")
        second.source = shaped.dropDuplicates(["key"])
        return [first, second, third]

    monkeypatch.setattr(jobs, "build", lambda: plainly_read(lambda topic: topic))
    with pytest.raises(SnapshotUnusable, match=r"would read the original's topics: .*ow\.topic\('NAME'\)"):
        jobs.copy(place, snapshot, "shared")
    assert not [it for it in tmp_path.iterdir() if it.name.startswith("shared-")]
    monkeypatch.setattr(jobs, "build", lambda: plainly_read(ow.topic))
    jobs.feed(3)
    jobs.copy(place, snapshot, "apart")
    assert jobs.values(f"apart-{jobs.bills}") == Counter(["3"])
    assert (tmp_path / "apart-files").is_dir()


def test_in_place_only_where_nothing_lies_behind_the_cut(jobs: Jobs) -> None:
    """D5: refused with what lies there, of every pipeline at once; with the homes gone right after it, it is fine."""
    jobs.feed(*range(4))
    jobs.run("clean", "bill", "audit")
    place, snapshot = jobs.snapshot()
    for kind in ("clean", "bill", "audit"):
        (jobs.folder / f"{jobs.name}-{kind}").rename(jobs.folder / f"gone-{kind}")
    pipelines = require_members(snapshot, jobs.build())
    restores = in_place(place, snapshot, pipelines)
    assert restores.keys() == {pipeline.name for pipeline in pipelines}
    first, *others = pipelines
    first.start(trigger="once", **restores[first.name]).wait(120)
    jobs.feed(4)
    first.start(trigger="once").wait(120)  # killed here, with an epoch more: the same command finishes it
    restores = in_place(place, snapshot, require_members(snapshot, jobs.build()))
    assert restores.keys() == {pipeline.name for pipeline in others}
    for pipeline in others:
        pipeline.start(trigger="once", **restores[pipeline.name]).wait(120)
    jobs.run("clean", "bill", "audit")
    assert jobs.values(jobs.bills) == Counter(map(str, range(5)))
    place, snapshot = jobs.snapshot("later")
    jobs.feed(5)
    jobs.run("clean", "bill")
    with pytest.raises(SavepointOutdated, match=r"cannot be cut back") as refused:
        in_place(place, snapshot, require_members(snapshot, jobs.build()))
    for kind in ("clean", "bill"):
        assert f"pipeline '{jobs.name}-{kind}'" in str(refused.value)
    assert f"{jobs.name}-audit" not in str(refused.value)
    assert "--as PREFIX" in str(refused.value)


def test_files_that_lack_a_pipeline_of_the_snapshot_are_refused(jobs: Jobs) -> None:
    jobs.feed(1)
    jobs.run("clean", "bill", "audit")
    _, snapshot = jobs.snapshot()
    with pytest.raises(SnapshotUnusable, match=f"the snapshot holds '{jobs.name}-audit', which the files do not have"):
        require_members(snapshot, jobs.build()[:2])


def test_a_topic_of_the_same_name_that_is_another_one_is_refused(jobs: Jobs) -> None:
    """D5: a copy goes by names; here the channel is not in the snapshot, as if `audit` read another cluster."""
    jobs.feed(1)
    jobs.run("clean", "bill", "audit")
    place, snapshot = jobs.snapshot()
    audit = f"{jobs.name}-audit"
    apart = [channel for channel in snapshot.channels if channel.consumer != audit]
    copy = copy_of(snapshot, "twins")
    with building(copy):
        pipelines = require_members(snapshot, jobs.build())
    made = RestoredCopy(jobs.spark, place, replace(snapshot, channels=apart), copy, pipelines, lambda _: None)
    saved = load_savepoint(savepoint_of(place, audit))
    with pytest.raises(SnapshotUnusable, match=f"'{audit}' reads a topic '{jobs.clean}' that is another one"):
        made._require_apart(pipelines[2], saved)
