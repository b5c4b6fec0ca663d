"""Records a second from Kafka to Kafka, exactly once, beside Spark's own at-least-once sink.

    python -m bench.throughput [--records N] [--rounds N] [--json]

Each system drains the same preloaded topic (4 partitions, 100-byte records) in a process that has warmed up on a small
one; rounds are interleaved. A run whose output is not complete has no result.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.broker import Bench, preload
from bench.machine import circumstances
from onceward.servers.broker import DevBroker


class Drainer:
    """One system's process, asked to copy topics."""

    def __init__(self, system: str, bench: Bench, folder: Path) -> None:
        command = [sys.executable, "-m", "bench.job", system, "drain"]
        command += ["--bootstrap", bench.bootstrap, "--folder", str(folder)]
        self.system, self._bench = system, bench
        log = (folder / f"{system}.log").open("wb")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def copy(self, source: str, records: int) -> float:
        target = self._bench.topic()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{source} {target}\n")
        self._process.stdin.flush()
        seconds = float(self._process.stdout.readline())
        found = self._bench.count(target)
        if found != records:
            raise SystemExit(f"{self.system}: {found} of {records} records came out: no result")
        self._bench.drop(target)
        return seconds

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", default=["spark", "spark-tuned", "onceward", "onceward-preserve"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, DevBroker(Path(folder) / "kafka", port=0) as broker:
        bench = Bench(broker.bootstrap)
        small, large = bench.topic(), bench.topic()
        preload(broker.bootstrap, small, 300_000)
        preload(broker.bootstrap, large, options.records)
        drainers = [Drainer(system, bench, Path(folder)) for system in options.systems]
        for drainer in drainers:
            for _ in range(2):
                drainer.copy(small, 300_000)
        rates: dict[str, list[float]] = {system: [] for system in options.systems}
        for _ in range(options.rounds):
            for drainer in drainers:
                rates[drainer.system].append(options.records / drainer.copy(large, options.records))
        for drainer in drainers:
            drainer.close()
    medians = {system: statistics.median(found) for system, found in rates.items()}
    base = medians.get("spark", 0.0)
    for system, found in rates.items():
        spread = f"{min(found):,.0f} to {max(found):,.0f}"
        ratio = f"{medians[system] / base:.2f}" if base else "-"
        print(f"{system:20s} {medians[system]:>10,.0f} records/s  ({spread})  {ratio} x spark")
    facts = {"records_per_second": {s: round(r) for s, r in medians.items()}, **circumstances()}
    if options.json:
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
