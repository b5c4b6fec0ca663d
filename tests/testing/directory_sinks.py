"""Sinks over a directory of JSON files: one that keeps the contract, one that decides, and many with one bug each.

Not a test file by its name: test_kit.py runs it in a pytest of its own and looks at what fails.
"""
# ruff: noqa: ARG002 - the contract names arguments that a sink need not use

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.epoch.contract import DecidingSink, EpochContext, LastCommit, Owner, TwoPhaseCommitSink, Verdict
from onceward.epoch.outcome import Outcome
from onceward.errors import LedgerCorrupt, PipelineFenced, StagingLost, TargetUnusable
from onceward.testing import SinkConformance, SinkUnderTest
from support.backups import copy_of


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = ow.session("kit", master="local[2,4]", **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


class DirectorySink(TwoPhaseCommitSink):
    """One file per epoch: staged under a name with term and attempt, renamed into `out` to commit.

    Each pipeline and sink has a folder of its own, and readers look into all of them.
    """

    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def open(self, owner: Owner) -> None:
        super().open(owner)
        self.live_in(f"{owner.pipeline}.{owner.sink}")

    def live_in(self, name: str) -> None:
        self.own = self.root / name
        self.staged, self.out, self.lineages = self.own / "staged", self.own / "out", self.own / "lineages"
        for folder in (self.staged, self.out, self.lineages):
            folder.mkdir(parents=True, exist_ok=True)

    def last_commit(self) -> LastCommit | None:
        lineages = [file.name.partition("_")[2] for file in sorted(self.lineages.iterdir())]
        found = [self.parse(file) for file in self.out.iterdir()]
        return max(found, key=lambda last: (lineages.index(last.lineage), last.epoch), default=None)

    def begin(self, context: EpochContext) -> None:
        known = [file.name.partition("_")[2] for file in self.lineages.iterdir()]
        if self.owner.lineage not in known:
            (self.lineages / f"{len(known):03d}_{self.owner.lineage}").touch()

    def write(self, context: EpochContext, rows: DataFrame) -> Outcome | None:
        self.staging(context).write_text(json.dumps([row.id for row in rows.collect()]))
        return None

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        return {"version": 1, "staged": self.staging(context).name}

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        target = self.out / f"{self.owner.lineage}_{context.epoch}_{committable['staged'].split('_')[2]}"
        try:
            (self.staged / committable["staged"]).rename(target)
        except FileNotFoundError:
            if not target.exists():
                raise StagingLost(f"{committable['staged']} is gone") from None

    def abort(self, context: EpochContext) -> None:
        for file in self.staged.iterdir():
            staged = self.parse(file)
            mine = staged.lineage == self.owner.lineage and staged.term <= self.owner.term
            if mine and staged.epoch <= context.epoch:
                file.unlink(missing_ok=True)

    def describe(self) -> Mapping[str, Any]:
        return {"root": str(self.root)}

    def staging(self, context: EpochContext) -> Path:
        return self.staged / f"{self.owner.lineage}_{context.epoch}_{self.owner.term}_{context.attempt}"

    @staticmethod
    def parse(file: Path) -> LastCommit:
        lineage, epoch, term, *_ = file.name.split("_")
        return LastCommit(lineage=lineage, epoch=int(epoch), term=int(term))


class DecidingDirectorySink(DirectorySink, DecidingSink):
    """`open` fences: whatever an older term has not renamed by then stays where it is."""

    def open(self, owner: Owner) -> None:
        super().open(owner)
        (self.own / "term").write_text(str(owner.term))
        for file in self.staged.iterdir():
            file.unlink()

    def decide(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        if int((self.own / "term").read_text()) != self.owner.term:
            raise PipelineFenced("a newer term has opened this sink")
        try:
            DirectorySink.commit(self, context, committable)
        except StagingLost:
            return Verdict.ABORTED
        return Verdict.COMMITTED

    def peek(self, pipeline: str) -> LastCommit | None:
        self.live_in(f"{pipeline}.kit")
        return self.last_commit()

    def write_marker(self, last: LastCommit) -> None:
        """Its files are its marker."""

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        pass


class VisibleBeforeCommit(DirectorySink):
    def write(self, context: EpochContext, rows: DataFrame) -> Outcome | None:
        super().write(context, rows)
        self.staging(context).rename(self.out / self.staging(context).name)
        return None


class CommitsTwice(DirectorySink):
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        staged = self.staged / committable["staged"]
        if not staged.exists():
            staged.write_text(next(self.out.glob(f"{self.owner.lineage}_{context.epoch}_*")).read_text())
        staged.rename(self.out / f"{committable['staged']}_{uuid.uuid4().hex}")


class AbortLeavesStaging(DirectorySink):
    def abort(self, context: EpochContext) -> None:
        pass


class AbortKnowsOnlyItsOwn(DirectorySink):
    def abort(self, context: EpochContext) -> None:
        self.staging(context).unlink(missing_ok=True)


class AbortTakesCommitted(DirectorySink):
    def abort(self, context: EpochContext) -> None:
        super().abort(context)
        for file in self.out.glob(f"{self.owner.lineage}_{context.epoch}_*"):
            file.unlink()


class AbortTakesNewerTerms(DirectorySink):
    def abort(self, context: EpochContext) -> None:
        for file in self.staged.glob(f"*_{context.epoch}_*"):
            file.unlink()


class LastCommitOfAnyLineage(DirectorySink):
    def last_commit(self) -> LastCommit | None:
        last = super().last_commit()
        return None if last is None else replace(last, lineage=self.owner.lineage)


class OneFolderForAll(DirectorySink):
    def open(self, owner: Owner) -> None:
        super().open(owner)
        self.live_in("all")


class OneFolderForAPipeline(DirectorySink):
    def open(self, owner: Owner) -> None:
        super().open(owner)
        self.live_in(owner.pipeline)


class MarkerWithoutLineage(DirectorySink):
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        if any(self.parse(file).epoch == context.epoch for file in self.out.iterdir()):
            (self.staged / committable["staged"]).unlink(missing_ok=True)
        else:
            super().commit(context, committable)


class AbortTakesNewerLineages(DirectorySink):
    def abort(self, context: EpochContext) -> None:
        for file in self.staged.iterdir():
            file.unlink(missing_ok=True)


class AbortBelievesAnyLineage(DirectorySink):
    def abort(self, context: EpochContext) -> None:
        last = self.last_commit()
        if last is None or context.epoch > last.epoch:
            super().abort(context)


class OlderLineagesCommitAgain(DirectorySink):
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        super().commit(context, committable)
        last = self.last_commit()
        if last is not None and last.lineage != self.owner.lineage:
            done = next(self.out.glob(f"{self.owner.lineage}_{context.epoch}_*"))
            done.with_name(f"{done.name}_{uuid.uuid4().hex}").write_text(done.read_text())


class CommittableIsNoJson(DirectorySink):
    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        return {"version": 1, "staged": self.staging(context)}


class CommittableWithoutVersion(DirectorySink):
    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        return {"staged": self.staging(context).name}


class CommittableHoldsTheRows(DirectorySink):
    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        held = self.staging(context).read_text() * 100
        return {**super().pre_commit(context, outcome), "rows": held}


class CommitsInParts(DirectorySink):
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        staged, target = self.staged / committable["staged"], self.out / committable["staged"]
        if staged.exists():
            ids = json.loads(staged.read_text())
            target.write_text(json.dumps(ids[: len(ids) // 2]))
            target.write_text(json.dumps(ids))
            staged.unlink(missing_ok=True)


class MarkerBeforeData(DirectorySink):
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        marker = self.own / f"marker_{self.owner.lineage}_{context.epoch}"
        if not marker.exists():
            marker.touch()
            super().commit(context, committable)


class PassesOverWhatIsGone(DirectorySink):
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        with suppress(StagingLost):
            super().commit(context, committable)


class CommitNeedsItsMemory(DirectorySink):
    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        self.memory = super().pre_commit(context, outcome)
        return {"version": 1}

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        if hasattr(self, "memory"):
            super().commit(context, self.memory)


class OpenSweepsStaging(DirectorySink):
    def open(self, owner: Owner) -> None:
        super().open(owner)
        for file in self.staged.iterdir():
            file.unlink()


class StagingWithoutTerm(DirectorySink):
    def staging(self, context: EpochContext) -> Path:
        return self.staged / f"{self.owner.lineage}_{context.epoch}_0_0"


class LastCommitFromMemory(DirectorySink):
    last: LastCommit | None = None

    def last_commit(self) -> LastCommit | None:
        return self.last

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        super().commit(context, committable)
        self.last = LastCommit(lineage=self.owner.lineage, epoch=context.epoch, term=self.owner.term)


class LastCommitSeenOnce(DirectorySink):
    seen: LastCommit | None = None

    def last_commit(self) -> LastCommit | None:
        self.seen = self.seen or super().last_commit()
        return self.seen


class LastCommitNeverFalls(DirectorySink):
    highest: LastCommit | None = None

    def last_commit(self) -> LastCommit | None:
        found = [last for last in (self.highest, super().last_commit()) if last is not None]
        self.highest = max(found, key=lambda last: last.epoch, default=None)
        return self.highest


class CommitsOnTopOfAnything(DirectorySink):
    """Staged elsewhere, so that a restored backup does not take it away, and committed without a look."""

    def open(self, owner: Owner) -> None:
        super().open(owner)
        self.staged = self.root.with_name("elsewhere")
        self.staged.mkdir(exist_ok=True)


class KnowsItsTerm(DirectorySink):
    """Whether a newer driver has opened it. What it then says is each sink's own fault."""

    def open(self, owner: Owner) -> None:
        super().open(owner)
        (self.own / "newest").write_text(str(owner.term))

    @property
    def overtaken(self) -> bool:
        return int((self.own / "newest").read_text()) != self.owner.term


class OvertakenWritesBreakDown(KnowsItsTerm):
    def write(self, context: EpochContext, rows: DataFrame) -> Outcome | None:
        if self.overtaken:
            raise KeyError(context.epoch)
        return super().write(context, rows)


class OvertakenAbortsMislead(KnowsItsTerm):
    def abort(self, context: EpochContext) -> None:
        if self.overtaken:
            raise TargetUnusable(f"{self.root} is somebody else's: choose another directory")
        super().abort(context)


class OvertakenCommitsMislead(KnowsItsTerm):
    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        if self.overtaken:
            raise LedgerCorrupt(f"{self.out} has another epoch")
        super().commit(context, committable)


class DigestOfNothing(DirectorySink):
    def digest(self, context: EpochContext, rows: DataFrame) -> Outcome | None:
        return Outcome()


class DescribesAnother(DirectorySink):
    def describe(self) -> Mapping[str, Any]:
        return {"root": f"{self.root}-elsewhere"}


class DecidesWithoutFence(DecidingDirectorySink):
    def decide(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        DirectorySink.commit(self, context, committable)
        return Verdict.COMMITTED


class PeekFences(DecidingDirectorySink):
    def peek(self, pipeline: str) -> LastCommit | None:
        last = super().peek(pipeline)
        (self.own / "term").write_text("1000000")
        return last


class Directory(SinkConformance):
    sink: type[DirectorySink]

    @pytest.fixture
    def under_test(self, tmp_path: Path) -> SinkUnderTest:
        root = tmp_path / "root"
        return SinkUnderTest(
            make=lambda: self.sink(str(root)),
            visible=lambda: [id_ for file in sorted(root.glob("*/out/*")) for id_ in json.loads(file.read_text())],
            leftovers=lambda: [file.name for file in root.glob("*/staged/*")],
            backup=lambda: copy_of(root),
        )


for _kind in [kind for kind in vars().copy().values() if isinstance(kind, type) and issubclass(kind, DirectorySink)]:
    globals()[f"Test{_kind.__name__}"] = type(f"Test{_kind.__name__}", (Directory,), {"sink": _kind})
