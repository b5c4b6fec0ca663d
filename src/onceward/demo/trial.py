"""The demo itself: feed, kill, restart, judge."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.demo.display import Counts, Display
from onceward.demo.events import payments, truth
from onceward.demo.feeder import Feeder
from onceward.demo.judge import Judgement, judge
from onceward.demo.process import DemoFailed, JobProcess
from onceward.demo.readers import LiveReader, read_to_end
from onceward.demo.topics import OURS, PARTITIONS, PAYMENTS, SPARKS
from onceward.kafka.dev_broker import DevBroker
from onceward.kafka.wire import Cluster, Wire

LOOK_S: Final = 0.05
KILL_AFTER_S: Final = (0.2, 3.0)  # after the first new output of a run: an epoch takes about one second
STALLED_S: Final = 120.0  # without a single new record: a start of Spark on a busy machine takes 30
CATCH_UP_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for."""

    events: int
    kills: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What came of it."""

    plan: Plan
    ours: Judgement
    sparks: Judgement
    agreed: bool  # the reader that was there all the time saw the same records as the one that came afterwards
    seconds: float

    @property
    def exact(self) -> bool:
        return self.ours.exact and self.agreed


class Trial:
    """One run of the demo on a broker that is there."""

    def __init__(self, plan: Plan, bootstrap: str, folder: Path, display: Display) -> None:
        self._plan = plan
        self._bootstrap = bootstrap
        self._folder = folder
        self._display = display
        self._kills = 0
        self._now = ""
        self._dice = random.Random(f"kills of {plan.seed}")  # noqa: S311 - seeded
        self._events = payments(plan.events, plan.seed)
        self._feeder = Feeder(bootstrap, self._events, kills=plan.kills)
        self._ours = LiveReader(bootstrap, OURS)
        self._sparks = LiveReader(bootstrap, SPARKS)

    def run(self) -> Findings:
        with self._running():
            while self._kills < self._plan.kills:
                self._run_and_kill()
            self._run_to_the_end()
            self._display.say("reading both topics again from the beginning, to compare them with what was fed")
            return self._judge()

    @contextmanager
    def _running(self) -> Iterator[None]:
        with ExitStack() as stack:
            for thread in (self._feeder, self._ours, self._sparks):
                thread.start()
                stack.callback(thread.end)
            yield

    def _run_and_kill(self) -> None:
        before = self._counts()
        with JobProcess(self._bootstrap, self._folder) as job:
            self._now = "the job is starting again" if self._kills else "the job is starting"
            if not self._await(job, lambda: self._both_above(before)):
                raise DemoFailed(f"the job put out nothing new for {STALLED_S:.0f} s. {job.log_tail()}")
            self._now = "the job runs, and is killed in a moment"
            self._wait(job, self._dice.uniform(*KILL_AFTER_S))
            processes = job.kill()
        self._kills += 1
        self._feeder.next_phase()
        of = f"{self._kills} of {self._plan.kills}"
        self._display.say(f"kill {of}: SIGKILL to all {processes} processes of the job; starting it again")

    def _run_to_the_end(self) -> None:
        everything = self._plan.events
        self._now = "the job may now catch up"
        with JobProcess(self._bootstrap, self._folder) as job:
            # What has not come out when nothing moves any more is lost, and the judge will say so.
            self._await(job, lambda: min(len(self._ours.ids), len(self._sparks.ids)) >= everything)
            if self._feeder.fed < everything:
                raise DemoFailed(f"only {self._feeder.fed:,} of {everything:,} payments could be fed")
            self._display.say("asking the job to stop (SIGTERM): it finishes the epoch in hand")
            job.stop()

    def _judge(self) -> Findings:
        expected = truth(self._events)
        afterwards = read_to_end(self._bootstrap, OURS)
        deadline = time.monotonic() + CATCH_UP_S
        while len(self._ours.records) < len(afterwards) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        live = judge(expected, self._ours.records)
        ours = judge(expected, afterwards)
        sparks = judge(expected, read_to_end(self._bootstrap, SPARKS))
        return Findings(plan=self._plan, ours=ours, sparks=sparks, agreed=live == ours, seconds=self._display.seconds)

    def _await(self, job: JobProcess, reached: Callable[[], bool]) -> bool:
        """Until it is so; False if nothing has moved for too long."""
        visible, moved = self._visible(), time.monotonic()
        while not reached():
            self._wait(job, LOOK_S)
            if (now := self._visible()) != visible:
                visible, moved = now, time.monotonic()
            elif time.monotonic() - moved > STALLED_S:
                return False
        return True

    def _wait(self, job: JobProcess, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_S))
            self._look(job)

    def _look(self, job: JobProcess) -> None:
        job.require_alive()
        failure = self._feeder.failure or self._ours.failure or self._sparks.failure
        if failure is not None:
            raise DemoFailed(f"a Kafka client of the demo failed: {failure}")
        self._display.show(self._counts(), self._now)

    def _counts(self) -> Counts:
        return Counts(self._feeder.fed, *self._visible(), kills=self._kills)

    def _visible(self) -> tuple[int, int]:
        return len(self._ours.records), len(self._sparks.records)

    def _both_above(self, before: Counts) -> bool:
        now = self._counts()
        return now.ours > before.ours and now.sparks > before.sparks


def run(plan: Plan, folder: Path, display: Display) -> Findings:
    """Everything happens below `folder`, and ends with this call."""
    with DevBroker(folder / "kafka", port=0, report=display.say) as broker:
        wire = Wire(Cluster(broker.bootstrap))
        wire.create_topics([PAYMENTS, OURS, SPARKS], PARTITIONS)
        wire.close()
        display.say("starting the job")
        return Trial(plan, broker.bootstrap, folder, display).run()
