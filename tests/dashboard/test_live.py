"""A real pipeline, watched from another process: it runs, is halted between votes and decision, and dies."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dashboard.homes import now
from onceward.dashboard.kafka_watch import KafkaWatch
from onceward.dashboard.model import KafkaFacts, PipelineDetail, PipelineFacts
from onceward.dashboard.watch import Watch
from onceward.kafka.wire import Cluster
from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    unique = events.select("value").dropDuplicates(["value"])
    kafka, files = ow.KafkaSink({bootstrap!r}, topic={target!r}), ow.FileSink({files!r})
    return ow.Pipeline({name!r}, home={home!r}, source=unique).to(kafka).to(files, name="files")
"""


class Seen:
    """What the page would show now."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def pipeline(self) -> PipelineFacts:
        (found,) = self.watch.overview().pipelines
        return found

    def detail(self) -> PipelineDetail:
        watched = self.watch.find("home")
        assert watched is not None
        return watched.detail(now())

    def kafka(self) -> KafkaFacts:
        found = self.watch.kafka()
        assert found is not None
        return found

    def is_(self, state: str) -> Callable[[], bool]:
        return lambda: self.pipeline().state == state


@pytest.fixture
def seen(kafka: Kafka, tmp_path: Path) -> Iterator[Seen]:
    sight = KafkaWatch(Cluster(kafka.bootstrap))
    (tmp_path / "home").mkdir(mode=0o700)
    yield Seen(Watch([tmp_path / "home"], sight))
    sight.close()


def test_a_pipeline_is_followed_from_its_start_to_its_death_and_back(
    kafka: Kafka, drivers: Callable[[str], Driver], name: str, tmp_path: Path, seen: Seen
) -> None:
    """I2, B10: running, halted with its transaction open, dead and in doubt, resolved by its next start."""
    source, target = kafka.topic(1), kafka.topic(1)
    places = {"home": str(tmp_path / "home"), "files": str(tmp_path / "files"), "source": source, "target": target}
    driver = drivers(FILE.format(bootstrap=kafka.bootstrap, name=name, **places))
    kafka.feed(source, ((str(number), str(number)) for number in range(20)))
    driver.start(ONCEWARD_CRASH_AT="prepared@1", ONCEWARD_CRASH_SIGNAL="SIGSTOP")
    eventually(lambda: driver.alive() and seen.pipeline().last_commit_at, "its first epoch")
    eventually(lambda: seen.detail().state_rows == 20, "how large Spark says that its state is")
    running = seen.detail()
    assert (running.state, running.name, running.lag) == ("running", name, {source: 0})
    assert (running.sources, running.targets, running.recent[0][2]) == ([source], [target], 20)
    assert [(it.name, it.kind, it.decides) for it in running.sinks] == [
        ("files", "files", False),
        ("kafka", "kafka", True),
    ]

    kafka.feed(source, [("x", "x")])
    eventually(seen.is_("paused"), "that it is halted")
    eventually(lambda: any(it.pipeline == "home" for it in seen.kafka().transactions), "its open transaction")
    (held,) = [it for it in seen.kafka().partitions if it.topic == target]
    assert held.holder is not None
    assert (held.held_back, held.holder.pipeline, held.holder.transactional_id) == (1, "home", name)

    driver.kill()
    eventually(seen.is_("in doubt"), "that it is dead")
    dead = seen.detail()
    assert [(it.epoch, it.phase) for it in dead.in_doubt_epochs] == [(1, "prepared")]
    assert dead.in_doubt_epochs[0].next_start.startswith("fence, ask sink 'kafka', then commit it in files")
    assert [it.how for it in dead.starts] == ["killed"]
    kafka.feed(source, ((str(number), "more") for number in range(1454)))
    eventually(lambda: seen.detail().lag == {source: 1455}, "what it has not read, as of now")

    driver.start("--once", "--json").result()
    eventually(seen.is_("stopped"), "that it has ended")
    after = seen.detail()
    assert [(it.term, it.how) for it in after.starts] == [(1, "killed"), (2, "stopped")]
    assert {it.kind for it in after.marks} == {"takeover", "killed"}
    assert (after.epochs.last, after.in_doubt_epochs, after.current) == (2, [], None)
    eventually(lambda: not any(it.held_back for it in seen.kafka().partitions), "that no reader waits")
    assert len(kafka.values(target)) == 22
    eventually(lambda: seen.detail().lag == {source: 0}, "that nothing is unread")
