"""One run: feed, start, break, start again, heal, and hand over what was seen. It judges nothing."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from onceward.kafka.wire import Cluster, Wire
from onceward.proof.chaos import nemesis
from onceward.proof.chaos.feeder import Feeder
from onceward.proof.chaos.lives import POLL_S, Lives
from onceward.proof.chaos.nemesis import Life
from onceward.proof.chaos.places import Places, ProofFailed, consumer
from onceward.proof.chaos.poller import Poller
from onceward.proof.chaos.seen import Plan, Seen
from onceward.proof.chaos.stack import Stack
from onceward.proof.chaos.strikes import Striker
from onceward.proof.chaos.subject import Subject
from onceward.proof.chaos.watchers import ISOLATIONS, Watcher
from onceward.proof.history import Place

STANDS_STILL_S: Final = 300.0  # a JVM that starts on a busy machine takes a part of it
END_S: Final = 180.0


class Campaign:
    """Runs one plan on one stack."""

    def __init__(self, plan: Plan, subject: Subject, stack: Stack, folder: Path, report: Callable[[str], None]) -> None:
        self.plan, self.subject, self.stack, self._report = plan, subject, stack, report
        self.direct = Places(
            bootstrap=stack.bootstrap,
            dsn=stack.dsn,
            folder=folder / "job",
            sinks=plan.sinks,
            guarantee=plan.guarantee,
        )
        through = msgspec.structs.replace(self.direct, bootstrap=stack.proxied_bootstrap, dsn=stack.proxied_dsn)
        self.seen = Seen(through.folder)
        self._striker = Striker(stack, self.seen)
        logs = folder / "logs"
        logs.mkdir(parents=True)
        self.watchers = {it: Watcher(stack.bootstrap, subject.watch, it) for it in ISOLATIONS}
        shown = self.watchers[ISOLATIONS[1]]
        self._lives = Lives(
            through, subject.file, logs, self.seen, self._striker, self._enough, lambda: shown.count, report
        )
        self._make_topics()
        events = subject.feed(random.Random(plan.seed))  # noqa: S311 - the same seed, the same events
        self.feeder = Feeder(stack.bootstrap, events, per_second=plan.per_second)
        self.poller = Poller(self.direct) if subject.file is None and plan.guarantee == "exactly-once" else None

    def run(self) -> Seen:
        """To the end of the plan, then healing and a quiet end. Leaves no process behind."""
        self.feeder.start()
        for watcher in self.watchers.values():
            watcher.start()
        if self.poller is not None:
            self.poller.start()
        try:
            lives = nemesis.lives(self.plan.seed, self.world)
            while not self._enough():
                life = next(lives)
                if self.seen.worth_trying(life.point):
                    self._lives.live(life)
            self._finish()
        finally:
            self._lives.clear()
            if self.poller is not None:
                self.poller.end()
        return self.seen

    def end_watchers(self) -> None:
        """Let them read what is there now."""
        for watcher in self.watchers.values():
            watcher.end()
        if self.poller is not None:
            self.poller.require_whole()

    def watched(self) -> dict[str, int]:
        """How many records each watcher saw; what only the second one saw was aborted."""
        committed, everything = (self.watchers[it].count for it in ISOLATIONS)
        return {"committed": committed, "uncommitted": everything, "aborted": everything - committed}

    @property
    def world(self) -> nemesis.World:
        """What can break here."""
        sinks = len(self.plan.sinks) if self.subject.file is None else 2  # a user's job may have several
        return nemesis.World(self.plan.brokers, self.stack.postgres is not None, sinks, self.plan.guarantee)

    def _enough(self) -> bool:
        over = self.plan.minutes is not None and self.seen.now > 60 * self.plan.minutes
        return over or self.seen.kills >= self.plan.kills

    def _finish(self) -> None:
        """Heal, let the job catch up, end it cleanly."""
        self._report(f"{self.seen.now:6.0f} s  healing; the job catches up")
        self._striker.heal()
        self.feeder.end()
        if self.feeder.failure is not None:
            raise ProofFailed(f"the feeder failed: {self.feeder.failure}")
        driver = self._lives.start(Life())
        reached, until = self._planned(), time.monotonic() + STANDS_STILL_S
        while driver.alive and not self._caught_up():
            if (planned := self._planned()) != reached:
                reached, until = planned, time.monotonic() + STANDS_STILL_S
            if time.monotonic() > until:
                self.seen.stuck.append(
                    f"the end of the input was not reached, and no epoch was planned for {STANDS_STILL_S:.0f} s"
                )
                break
            self.seen.look()
            time.sleep(10 * POLL_S)
        if driver.alive:
            driver.terminate()
        until = time.monotonic() + END_S
        while driver.alive and time.monotonic() < until:
            time.sleep(POLL_S)
        if driver.alive:
            self.seen.stuck.append(f"the job did not end within {END_S:.0f} s of SIGTERM: {driver.tail()}")
        self._lives.ended(driver)
        driver.clear()
        self.seen.read_closely()

    def _caught_up(self) -> bool:
        """Every pipeline has planned, and finished, everything that its source shows."""
        if not self.seen.finished:
            return False
        ends = self._planned()
        return bool(ends) and ends == self._stable_ends(ends)

    def _planned(self) -> dict[Place, int]:
        """Up to where the pipelines' last epochs read."""
        return {place: end for books in self.seen.books.values() for place, end in books.ends().items()}

    def _stable_ends(self, places: dict[Place, int]) -> dict[Place, int]:
        """Where a read_committed reader's world ends."""
        from confluent_kafka import TopicPartition

        with consumer(self.stack.bootstrap, ISOLATIONS[0]) as reader:
            return {it: reader.get_watermark_offsets(TopicPartition(*it), timeout=30)[1] for it in places}

    def _make_topics(self) -> None:
        wire = Wire(Cluster(self.stack.bootstrap))
        for partitions in set(self.subject.topics.values()):
            wire.create_topics([name for name, it in self.subject.topics.items() if it == partitions], partitions)
        wire.close()
