"""Homes as drivers leave them, written by the production code, for those who look."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from onceward import processes
from onceward.epoch.decisions import Decisions
from onceward.epoch.home import Home
from onceward.epoch.ledger import DECIDED, DONE, PREPARED, Entry, Ledger, SinkEntry
from onceward.epoch.sealed import seal
from onceward.epoch.term import Beat, Holder, Start
from onceward.telemetry import activity
from onceward.telemetry.activity import Activity, Event, SinkActivity

KAFKA = "onceward.sinks.kafka.sink:KafkaSink"
FILES = "onceward.sinks.files.sink:FileSink"


def now() -> datetime:
    return datetime.now(UTC)


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


class MadeHome:
    """One home, of a pipeline with a Kafka sink that decides and a file sink."""

    def __init__(self, path: Path, pipeline: str = "orders", *, decider: str | None = "kafka") -> None:
        self.path, self.pipeline, self.decider = path, pipeline, decider
        path.mkdir(mode=0o700, parents=True)
        self.home = Home.at(path)
        self.home.open(pipeline, "exactly-once", "L")
        self.storage = self.home.storage

    def holder(self, term: int = 1, **facts: Any) -> None:
        """The term's holder; by default this very process."""
        mine = Holder(
            term=term,
            pipeline=self.pipeline,
            host="here",
            machine=processes.machine(),
            pid=os.getpid(),
            process_start=processes.started(os.getpid()),
            since=ago(60 - term),
        )
        self.storage.replace(f"terms/{term:06d}.json", seal(msgspec.structs.replace(mine, **facts)))

    def lease(self, term: int = 1, *, released: bool = False, age_s: float = 0.0) -> None:
        self.storage.replace(f"terms/{term:06d}.lease", seal(Beat(count=1, released=released)))
        _age(self.path / f"terms/{term:06d}.lease", age_s)

    def start(self, term: int = 1, after_epoch: int = -1, *resolved: str) -> None:
        self.storage.replace(
            f"terms/{term:06d}.start", seal(Start(term=term, after_epoch=after_epoch, resolved=list(resolved)))
        )

    def driven(self, term: int = 1, after_epoch: int = -1, **holder: Any) -> None:
        """A term that began and whose lease is fresh."""
        self.holder(term, **holder)
        self.start(term, after_epoch)
        self.lease(term)

    def entry(self, epoch: int, **facts: Any) -> Entry:
        sinks = {
            "files": SinkEntry(
                kind=FILES,
                settings={"path": "/data/orders"},
                rows=5,
                digest="ff",
                committable={"version": 1, "staged": "1-1-1"},
                milliseconds={"begin": 1.0, "write": 20.0, "pre_commit": 2.0, "commit": 3.0},
            ),
            "kafka": SinkEntry(
                kind=KAFKA,
                settings={"bootstrap": "broker:9092", "topic": "out"},
                rows=5,
                digest="fe",
                partitions=[("out", 0, 2, "a"), ("out", 1, 3, "b")],
                milliseconds={"begin": 1.0, "write": 30.0, "compute": 10.0, "pre_commit": 1.0, "decide": 5.0},
            ),
        }
        told: dict[str, Any] = {
            "pipeline": self.pipeline,
            "lineage": "L",
            "term": 1,
            "epoch": epoch,
            "phase": DONE,
            "positions": [f'{{"clicks":{{"0":{10 * epoch + 10},"1":{5 * epoch + 5}}}}}'],
            "decider": self.decider,
            "sinks": sinks,
            "input_rows": 15,
            "finished_at": ago(1.0),
            "milliseconds": {"vote": 60.0, "decide": 6.0, "commit": 4.0},
        }
        return Entry(**{**told, **facts})

    def ledger(self, *entries: Entry) -> None:
        for one in entries:
            Ledger(self.storage, {}, "L").write(one)

    def epochs(self, count: int, *, last_ago_s: float = 1.0, every_s: float = 1.0) -> None:
        """Committed one after another."""
        ages = [last_ago_s + every_s * (count - 1 - epoch) for epoch in range(count)]
        self.ledger(*(self.entry(epoch, finished_at=ago(ages[epoch])) for epoch in range(count)))

    def decided(self, epoch: int) -> None:
        Decisions(self.storage, "L", 1).decide(self.entry(epoch, phase=DECIDED, decider=None))

    def prepared(self, epoch: int) -> None:
        self.ledger(self.entry(epoch, phase=PREPARED))

    def says(self, term: int = 1, *, age_s: float = 0.0, **facts: Any) -> None:
        """What the driver leaves about what it does."""
        (self.path / activity.FOLDER).mkdir(exist_ok=True)
        sinks = [
            SinkActivity(name="files", kind=FILES, decides=False),
            SinkActivity(name="kafka", kind=KAFKA, decides=True),
        ]
        said = Activity(
            pipeline=self.pipeline, term=term, pid=os.getpid(), host="here", started_at=ago(60), sinks=sinks, **facts
        )
        file = self.path / activity.file_of(term)
        file.write_bytes(msgspec.json.encode(said))
        _age(file, age_s)

    def tells(self, *events: Event, term: int = 1) -> None:
        (self.path / activity.FOLDER).mkdir(exist_ok=True)
        lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        (self.path / activity.events_of(term)).write_bytes(lines)

    def files(self) -> dict[str, tuple[int, int, bytes]]:
        """Everything, to see whether it stays as it is."""
        return {
            str(file.relative_to(self.path)): (file.stat().st_ino, file.stat().st_mtime_ns, file.read_bytes())
            for file in sorted(self.path.rglob("*"))
            if file.is_file()
        }


def _age(file: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(file, (then, then))
