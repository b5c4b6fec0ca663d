"""The broker's classes in a form the JVM can map into memory: it starts with half the work (docs/decisions/0010)."""

from collections.abc import Callable
from pathlib import Path

from onceward.jars import broker_jars, classes, java_command


def archive() -> Path:
    """Where the archive for this Java and the locked jars is kept, made or not."""
    jars = broker_jars()
    return classes.archive_of(java_command().resolve(), [jars[0].parent, max(jar.stat().st_mtime_ns for jar in jars)])


def options() -> list[str]:
    """For the JVM; none as long as there is no archive."""
    return classes.use(archive())


def make(report: Callable[[str], None]) -> Path:
    """Start a broker once and keep the classes that it has loaded."""
    from onceward.servers.broker.cluster import DevBroker

    def start_and_stop(fresh: Path, folder: Path) -> str:
        report("archiving Kafka's classes, so that dev brokers start in half the time (once, some seconds)")
        with DevBroker(folder / "kafka", port=0, jvm=classes.make_at(fresh)):
            return "the broker ended without writing them"

    return classes.make(archive(), broker_jars()[0].parent, "Kafka's", start_and_stop)
