"""A broker whose topics may have a remote part, in a folder that is as slow as a test says."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from onceward.epoch.outcome import TopicPartition
from onceward.jars import broker_jars, java_command
from onceward.servers.broker import DevBroker
from support.waiting import eventually

SOURCE = Path(__file__).with_name("FolderTier.java")
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "FolderTier",
    "remote.log.storage.manager.impl.prefix": "tier.",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.cleaner.backoff.ms": "200",
}


@dataclass
class Tiered:
    """The broker, and what stands in for an object store."""

    broker: DevBroker
    folder: Path

    def reads(self, mode: str) -> None:
        """From now on: works, slow MS, slow-once MS, refuses."""
        fresh = self.folder / "mode.new"
        fresh.write_text(mode)
        fresh.replace(self.folder / "mode")

    def local_from(self, place: TopicPartition) -> int:
        """Where what the broker itself still has begins."""
        folder = self.broker.log_dir() / str(place)
        return min(int(segment.stem) for segment in folder.glob("*.log"))

    def is_clean(self, place: TopicPartition) -> bool:
        """Whether compaction has been through all of the log but for its last segment, by its own note."""
        last = max(int(segment.stem) for segment in (self.broker.log_dir() / str(place)).glob("*.log"))
        note = self.broker.log_dir() / "cleaner-offset-checkpoint"
        lines = note.read_text().splitlines() if note.exists() else []
        return f"{place.topic} {place.partition} {last}" in lines

    def await_remote(self, place: TopicPartition, offset: int) -> None:
        """Until nothing before the offset is on the broker's own disk."""
        eventually(lambda: self.local_from(place) >= offset, f"{place} is remote up to {offset}")

    @staticmethod
    def topic_settings(segment_bytes: int) -> dict[str, str]:
        return {
            "remote.storage.enable": "true",
            "internal.segment.bytes": str(segment_bytes),
            "local.retention.ms": "1",
            "retention.ms": "-1",
        }


@contextmanager
def tiered_broker(folder: Path) -> Iterator[Tiered]:
    """Compiled here: no jar of ours has it."""
    classes, tier = folder / "classes", folder / "tier"
    tier.mkdir()
    jars = ":".join(map(str, broker_jars()))
    javac = java_command().with_name("javac")
    compiler = javac if javac.exists() else Path(shutil.which("javac") or javac)
    subprocess.run([compiler, "-d", classes, "-cp", jars, SOURCE], check=True)
    settings = {**SETTINGS, "tier.folder": str(tier)}
    with DevBroker(folder / "kafka", port=0, settings=settings, classes=[classes]) as broker:
        tiered = Tiered(broker, tier)
        tiered.reads("works")
        yield tiered
