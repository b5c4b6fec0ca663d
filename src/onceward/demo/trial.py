"""The demo itself: feed, kill, restart, and bill."""

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from onceward.apps.ads import words
from onceward.apps.ads.places import Places
from onceward.apps.ads.world.generator import Generated, generate
from onceward.apps.ads.world.judge import Judgement, judge
from onceward.apps.ads.world.truth import truth
from onceward.demo import outputs, sides, state
from onceward.demo.display import Counts, Display
from onceward.demo.feeder import Feeder
from onceward.demo.live import Live
from onceward.demo.process import DemoFailed, JobProcess
from onceward.demo.servers import PARTITIONS, Servers

POLL_S: Final = 0.1
KILL_AFTER_S: Final = (0.2, 4.0)  # after the first new output since the last kill
# Most kills of the application come just when records become visible: a batch is written, and perhaps not yet noted.
JUST_VISIBLE_SHARE: Final = 0.7
NEXT_S: Final = 10.0
QUICK_S: Final = 0.002
QUIET_S: Final = 60.0  # at the end of the feed: what has not come out by then may be lost
STALLED_S: Final = 180.0  # without a single new record: a start of Spark on a busy machine takes 30
BROKER_SHARE: Final = 0.25  # of the kills
EPOCH_SPAN_S: Final = 500  # of the events' time, at most, in one epoch: see words.WATERMARK_MS
HEARTBEATS: Final = 2  # the one at the end, in two topics
GIVES_UP_S: Final = 120.0  # after a broker was killed, the application may end by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for."""

    events: int
    kills: int
    seed: int
    guarantee: str = "exactly-once"
    contrast: bool = True


@dataclass(frozen=True, slots=True)
class Kill:
    at_s: float
    what: str  # "application" or "broker"


@dataclass(frozen=True, slots=True)
class Moment:
    """For the chart: how far each side was."""

    at_s: float
    fed: int
    ours: int
    sparks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What came of it."""

    plan: Plan
    records: int
    ours: Judgement
    sparks: Judgement | None
    kills: list[Kill]
    moments: list[Moment]
    seconds: float
    state: dict[str, dict[str, int]]  # of each pipeline, the most rows and bytes since the last kill
    flow_seconds: float  # from the start of the feed to the last result served

    @property
    def exact(self) -> bool:
        return self.ours.exact


class Trial:
    """One run of the demo on servers that are there."""

    def __init__(self, plan: Plan, servers: Servers, folder: Path, display: Display, made: Generated) -> None:
        self.plan, self.servers, self.folder, self.display, self.made = plan, servers, folder, display, made
        self.kills: list[Kill] = []
        self.moments: list[Moment] = []
        self._job: JobProcess | None = None
        self._now = ""
        self._dice = random.Random(f"kills of {plan.seed}")  # noqa: S311 - seeded
        bootstrap, dsn = servers.bootstrap, servers.dsn
        self.ours = sides.ours(folder, bootstrap, dsn, plan.guarantee)
        self._sides = [self.ours]
        if plan.contrast:
            self._sides.append(sides.sparks(folder, bootstrap, dsn))
        self._records_per_epoch = round(made.per_second * EPOCH_SPAN_S)
        self._feeder = Feeder(bootstrap, dsn, made, kills=plan.kills)
        self._live = Live(bootstrap, [side.topic(name) for side in self._sides for name in words.MADE], PARTITIONS)
        self._truth = truth(made.records, made.catalogue)
        known = self._truth
        expected = (known.events, known.orders, known.late, known.dead, known.minutes, known.attributed)
        display.expect(fed=self._feeder.total, visible=HEARTBEATS + sum(map(_size, expected)))

    def run(self) -> Findings:
        with ExitStack() as stack:
            began = self.display.seconds
            for thread in (self._feeder, self._live):
                thread.start()
                stack.callback(thread.end)
            stack.callback(self._end_job)
            self._start_job()
            while len(self.kills) < self.plan.kills:
                self._run_and_kill()
            self._run_to_the_end()
            flow_seconds = self.display.seconds - began
            self.display.say("reading every topic and table, to compare them with the truth")
            return self._judge(flow_seconds)

    def stay(self) -> None:
        """The application runs on, for people who look, until they interrupt it."""
        self._start_job()
        try:
            while self._job is not None:
                self._job.require_alive()
                time.sleep(POLL_S)
        finally:
            self._end_job()

    def _run_and_kill(self) -> None:
        before = self._visible()
        self._await(lambda: all(now > then for now, then in zip(self._visible(), before, strict=True)))
        self._now = "running, killed in a moment"
        self._wait(self._dice.uniform(*KILL_AFTER_S))
        what = "broker" if self._dice.random() < BROKER_SHARE else "application"
        if what == "application" and self._dice.random() < JUST_VISIBLE_SHARE:
            self._await_next()
        self.kills.append(Kill(self.display.seconds, what))
        count = f"kill {len(self.kills)} of {self.plan.kills}"
        if what == "broker":
            self.display.say(f"{count}: SIGKILL to the Kafka broker; starting it again")
            self.servers.bounce_broker()
        else:
            self._end_job()
            self.display.say(f"{count}: SIGKILL to the application, all of it; starting it again")
            self._start_job()
        self._feeder.next_phase()

    def _run_to_the_end(self) -> None:
        self._now = "catching up"
        self._await(lambda: self._feeder.all_but_closed and all(map(self._all_cleaned, self._sides)), give_up_s=QUIET_S)
        self._feeder.close()
        # What has not come out when nothing moves any more is lost, and the judge will say so.
        self._await(lambda: all(map(self._all_served, self._sides)), give_up_s=STALLED_S)
        if self._feeder.fed < self._feeder.total:
            raise DemoFailed(f"only {self._feeder.fed:,} of {self._feeder.total:,} records could be fed")
        self.display.say("asking the application to stop (SIGTERM): it finishes the running epochs")
        assert self._job is not None
        self._job.stop()

    def _judge(self, flow_seconds: float) -> Findings:
        ours = judge(self._truth, outputs.seen(self.ours), self.made.catalogue)
        sparks = None
        if self.plan.contrast:
            # Spark's own Kafka sink cannot give a record a time, so that of the late ones is not asked of it.
            timeless = replace(self._truth, late=Counter(_timeless(self._truth.late.elements())))
            seen = outputs.seen(self._sides[1])
            sparks = judge(timeless, replace(seen, late=_timeless(seen.late)), self.made.catalogue)
        return Findings(
            plan=self.plan,
            records=len(self.made.records),
            ours=ours,
            sparks=sparks,
            kills=self.kills,
            moments=self.moments,
            seconds=self.display.seconds,
            state=state.read(self.folder),
            flow_seconds=flow_seconds,
        )

    def _all_cleaned(self, side: Places) -> bool:
        """Everything that `clean` puts out, until time passes, is visible."""
        known = self._truth
        parts = {
            words.AD_EVENTS: known.events,
            words.ORDERS: known.orders,
            words.LATE: known.late,
            words.DEAD: known.dead,
        }
        return all(self._live.counts[side.topic(name)] >= _size(part) for name, part in parts.items())

    def _all_served(self, side: Places) -> bool:
        """Every result is in the tables that people look at; counting those is dear, so the topics come first."""
        results = (words.MINUTES, words.ATTRIBUTED)
        wanted = len(self._truth.minutes) + len(self._truth.attributed)
        if sum(self._live.counts[side.topic(name)] for name in results) < wanted:
            return False
        tables = [sql.Identifier(side.table(name)) for name in results]
        query = sql.SQL("select (select count(*) from {}) + (select count(*) from {})").format(*tables)
        with psycopg.connect(side.dsn) as connection:
            row = connection.execute(query).fetchone()
        return row is not None and int(row[0]) >= wanted

    def _await_next(self) -> None:
        """Until something more is visible of `clean`, on Spark's own sinks if they are there."""
        topic = self._sides[-1].topic(words.AD_EVENTS)
        last, until = self._live.counts[topic], time.monotonic() + NEXT_S
        while self._live.counts[topic] == last and time.monotonic() < until:
            time.sleep(QUICK_S)

    def _await(self, reached: Callable[[], bool], *, give_up_s: float | None = None) -> None:
        """Until it is so, or until nothing has moved for so long; without a time, a standstill is a failure."""
        visible, moved = self._visible(), time.monotonic()
        while not reached():
            self._wait(POLL_S)
            if (now := self._visible()) != visible:
                visible, moved = now, time.monotonic()
            elif give_up_s is not None and time.monotonic() - moved > give_up_s:
                return
            elif time.monotonic() - moved > STALLED_S:
                tail = self._job.log_tail() if self._job else ""
                raise DemoFailed(f"the application committed nothing new for {STALLED_S:.0f} s. {tail}")

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))
            self._look()

    def _look(self) -> None:
        failure = self._feeder.failure or self._live.failure
        if failure is not None:
            raise DemoFailed(f"a client of the demo failed: {failure}")
        self._revive_job()
        ours, sparks = self._visible()
        self.moments.append(Moment(self.display.seconds, self._feeder.fed, ours, sparks))
        beside = sparks if self.plan.contrast else None
        self.display.show(Counts(self._feeder.fed, ours, beside, len(self.kills)), self._now)

    def _revive_job(self) -> None:
        """Spark's Kafka client may give up while the broker is away; whoever runs an application starts it again."""
        if self._job is None or self._job.alive:
            return
        last = self.kills[-1] if self.kills else None
        if last is None or last.what != "broker" or self.display.seconds - last.at_s > GIVES_UP_S:
            self._job.require_alive()
        self._end_job()
        self.display.say("the application gave up while the broker was away; starting it again")
        self._start_job()

    def _start_job(self) -> None:
        self._now = "the application is starting"
        where = dict(zip(sides.SERVERS, (self.servers.bootstrap, self.servers.dsn), strict=True))
        options = ["--guarantee", self.plan.guarantee, "--records-per-epoch", str(self._records_per_epoch)]
        options += [] if self.plan.contrast else ["--alone"]
        self._job = JobProcess(self.folder, where, options)

    def _end_job(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.kill()

    def _visible(self) -> tuple[int, int]:
        """Records visible of each side; one side twice where there is no contrast."""
        counts = [sum(self._live.counts[side.topic(name)] for name in words.MADE) for side in self._sides]
        return (counts[0], counts[-1])


def _timeless(late: Iterable[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    return [(value, 0) for value, _ in late]


def _size(part: Collection[Any]) -> int:
    return part.total() if isinstance(part, Counter) else len(part)


@contextmanager
def stage(plan: Plan, folder: Path, display: Display) -> Iterator[Trial]:
    """Everything that a trial needs, below `folder`; servers end with it."""
    made = generate(plan.events, plan.seed)
    prefixes = ["", sides.SPARKS] if plan.contrast else [""]
    with Servers(folder, made.catalogue, prefixes, report=display.say) as servers:
        display.say("starting the application")
        yield Trial(plan, servers, folder, display, made)
