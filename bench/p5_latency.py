"""P5, visible latency at 1,000 records a second: from when a record was due to when a read_committed reader has it."""

import time

from bench.figures import latencies_ms, percentile
from bench.open_loop import DRAIN_S, Arrivals, Reader, feeding
from bench.rounds import Outcome, Subject
from bench.stage import Stage
from bench.workers import Worker

TITLE = "Visible latency at 1,000 records a second, open loop"
BASE = "spark"
RATE = 1000
CHECKPOINTS = {"pyflink-1s": 1000, "pyflink-200ms": 200, "pyflink-50ms": 50}
SYSTEMS = ("spark", "spark-tuned", "onceward", *CHECKPOINTS)
SHORT = ("spark", "onceward", "pyflink-200ms")
WARM_UP_S = 60  # a JVM compiles what runs often for about a minute, and a pipeline runs for days


def run(stage: Stage) -> None:
    seconds = stage.options.seconds or (15 if stage.options.short else 60)
    subjects = [_subject(stage, it, seconds) for it in stage.chosen(SYSTEMS, short=SHORT)]
    rounds = stage.options.rounds or (1 if stage.options.short else 3)
    stage.report.settings |= {
        "records a second": RATE,
        "seconds": seconds,
        "warm-up seconds": 15 if stage.options.short else WARM_UP_S,
    }
    stage.rounds.interleave(f"{RATE:,} records/s", subjects, rounds)


def _subject(stage: Stage, name: str, seconds: int) -> Subject:
    system = "pyflink" if name in CHECKPOINTS else name

    def once() -> Outcome:
        worker = stage.worker(system)
        source, target = stage.topics.new(), stage.topics.new()
        warm_up = 15 if stage.options.short else WARM_UP_S
        seen = served(worker, stage.bootstrap, source, target, RATE, warm_up + seconds, CHECKPOINTS.get(name))
        stage.topics.drop(source)
        stage.topics.drop(target)
        first = min((due for due, _ in seen.pairs), default=0.0) + warm_up
        delays = latencies_ms(seen.pairs, after=first)
        metrics = {f"p{share} ms": percentile(delays, share) for share in (50, 95, 99)} if delays else {"p50 ms": 0.0}
        return Outcome(metrics, check=seen.wrong)

    return stage.subject(name, system, once)


def served(
    worker: Worker, bootstrap: str, source: str, target: str, rate: int, seconds: float, checkpoint_ms: int | None
) -> Arrivals:
    """What a reader sees of an open loop while the worker copies."""
    worker.ask("serve", source=source, target=target, checkpoint_ms=checkpoint_ms)
    seen = Arrivals(int(rate * seconds))
    reader = Reader(bootstrap, target)
    try:
        with feeding(bootstrap, source, rate, seconds):
            until = time.time() + seconds + DRAIN_S
            while len(seen.pairs) < seen.expected and time.time() < until:
                reader.take(seen)
    finally:
        reader.close()
        worker.ask("stop")
    return seen
