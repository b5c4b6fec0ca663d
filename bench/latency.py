"""Visible latency at 1,000 records a second, beside Spark's own sink.

    python -m bench.latency [--seconds N] [--rate N] [--json]

Open loop: a feeder in its own process sends on schedule, whatever the pipeline does. A record carries its intended send
time; its latency is its arrival at a read_committed consumer of another client library minus that.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.broker import PARTITIONS, Bench
from bench.machine import circumstances
from onceward.servers.broker import DevBroker

WARM_UP_S = 20


def feed(bootstrap: str, topic: str, rate: int, seconds: float) -> None:
    """Every millisecond what is due by then, with the time it was due."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    began = time.time()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        while (wait := due - time.time()) > 0:
            time.sleep(min(wait, 0.001))
            producer.poll(0)
        producer.produce(topic, key=str(number % 1000), value=f"{due:.6f}".ljust(90, "."))
    producer.flush(30)


def arrivals(bootstrap: str, topic: str, count: int, deadline_s: float) -> list[tuple[float, float]]:
    """(due, seen) of each record, in order of arrival."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{topic}",
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 5,
            "fetch.wait.max.ms": 10,
            "enable.auto.commit": False,
        }
    )
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[tuple[float, float]] = []
    until = time.time() + deadline_s
    while len(found) < count and time.time() < until:
        messages = reader.consume(1000, 0.005)
        now = time.time()
        found += [(float(message.value()[:17]), now) for message in messages if not message.error()]
    reader.close()
    return found


def measure(system: str, bench: Bench, folder: Path, rate: int, seconds: int) -> dict[str, float]:
    source, target = bench.topic(), bench.topic()
    command = [sys.executable, "-m", "bench.job", system, "serve", "--bootstrap", bench.bootstrap]
    command += ["--folder", str(folder), "--source", source, "--target", target]
    with (folder / f"{system}.log").open("wb") as log:
        job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    assert job.stdin is not None
    assert job.stdout is not None
    if job.stdout.readline() != "started\n":
        raise SystemExit(f"{system} did not start: {(folder / f'{system}.log').read_text()[-2000:]}")
    whole = WARM_UP_S + seconds
    feeder = multiprocessing.Process(target=feed, args=(bench.bootstrap, source, rate, whole))
    feeder.start()
    seen = arrivals(bench.bootstrap, target, rate * whole, whole + 30)
    feeder.join()
    job.stdin.close()
    job.wait(60)
    job.stdout.close()
    if len(seen) != rate * whole:
        raise SystemExit(f"{system}: {len(seen)} of {rate * whole} records came out: no result")
    first = min(due for due, _ in seen) + WARM_UP_S
    delays = np.array([(now - due) * 1000 for due, now in seen if due >= first])
    return {f"p{q}": round(float(np.percentile(delays, q)), 1) for q in (50, 95, 99)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--systems", nargs="+", default=["spark", "onceward", "spark-tuned"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder, DevBroker(Path(folder) / "kafka", port=0) as broker:
        bench = Bench(broker.bootstrap)
        for system in options.systems:
            figures[system] = measure(system, bench, Path(folder), options.rate, options.seconds)
            shown = "  ".join(f"{name} {value:7.1f} ms" for name, value in figures[system].items())
            print(f"{system:20s} {shown}")
    if options.json:
        print(json.dumps({"visible_latency_ms": figures, "rate": options.rate, **circumstances()}))


if __name__ == "__main__":
    main()
