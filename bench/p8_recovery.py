"""P8, recovery: SIGKILL to a whole job in the middle of an open loop, and a new one at once.

How long does nothing become visible? Both start a new process and a new JVM. PyFlink goes on from its newest retained
checkpoint (one every second). `onceward-standby` has a second process with Spark up, which waits for the end
of the first.
"""

import threading
import time
from collections.abc import Callable, Mapping

from bench.figures import longest_gap_ms
from bench.open_loop import Arrivals, Reader, feeding
from bench.rounds import Outcome, Subject
from bench.stage import Stage
from bench.workers import Worker

TITLE = "Recovery: killed in the middle of the load, started again at once"
BASE = "pyflink"
SYSTEMS = ("onceward", "onceward-standby", "pyflink")
RATE = 5000
GIVE_UP_S = 180.0


def run(stage: Stage) -> None:
    seconds = stage.options.seconds or 60
    subjects = [Subject(it, _once(stage, it, seconds)) for it in stage.chosen(SYSTEMS)]
    stage.report.settings |= {"records a second": RATE, "seconds": seconds, "killed after": seconds // 2}
    stage.rounds.interleave(f"SIGKILL at {RATE:,} records/s", subjects, stage.options.rounds or 3)


class Standby:
    """A second process of the same system, which serves when the first one is dead."""

    def __init__(self, stage: Stage, system: str, asked: Mapping[str, str]) -> None:
        self._worker = Worker(system, stage.bootstrap, stage.folder)
        self._waiting = threading.Thread(target=lambda: self._worker.ask("serve", standby=True, **asked))
        self._waiting.start()

    def close(self) -> None:
        self._worker.close()
        self._waiting.join()


def _once(stage: Stage, system: str, seconds: int) -> Callable[[], Outcome]:
    def once() -> Outcome:
        source, target = stage.topics.new(), stage.topics.new()
        asked = {"source": source, "target": target, "home": target, "checkpoints": target}
        stage.worker(system).ask("serve", **asked)
        standby = Standby(stage, system, asked) if system.endswith("-standby") else None
        seen, reader = Arrivals(RATE * seconds), Reader(stage.bootstrap, target)

        def killed_and_started() -> None:
            stage.worker(system).kill()
            stage.forget(system)
            if standby is None:
                stage.worker(system).ask("serve", **asked)

        restart, killed_at = threading.Thread(target=killed_and_started), 0.0
        try:
            with feeding(stage.bootstrap, source, RATE, seconds):
                half, until = time.time() + seconds / 2, time.time() + seconds + GIVE_UP_S
                while len(seen.pairs) < seen.expected and time.time() < until:
                    reader.take(seen)
                    if not killed_at and seen.pairs and time.time() > half:
                        killed_at = time.time()
                        restart.start()
        finally:
            reader.close()
            if killed_at:
                restart.join()
            if standby is not None:
                standby.close()
        if standby is None or not killed_at:
            stage.forget(system)
        arrivals = [now for _, now in seen.pairs]
        return Outcome({"visible gap ms": longest_gap_ms(arrivals, killed_at)}, check=seen.wrong)

    return once
