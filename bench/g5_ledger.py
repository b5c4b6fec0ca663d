"""G5: what the ledger costs over ten thousand epochs; without Spark, entry by entry as an epoch writes them."""

import statistics
import tempfile
import time
from pathlib import Path

from bench.rounds import Outcome, Subject
from bench.stage import Stage
from onceward.epoch.ledger import DONE, FOLDER, Entry, Ledger, SinkEntry
from onceward.epoch.storage import LocalStorage

TITLE = "The ledger over ten thousand epochs"
BASE = ""
EPOCHS = 10_000
PARTS = 10


def run(stage: Stage) -> None:
    epochs = stage.options.records or EPOCHS
    subject = Subject("the ledger alone", lambda: _once(epochs))
    stage.rounds.interleave(f"{epochs:,} epochs", [subject], stage.options.rounds or 3)


def _once(epochs: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(Path(folder))
        ledger = Ledger(storage, {}, "bench")
        times = []
        for epoch in range(epochs):
            began = time.perf_counter()
            ledger.write(entry(epoch))
            times.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        last = ledger.last()
        reading = (time.perf_counter() - began) * 1000
        files = [it for it in (Path(folder) / FOLDER).rglob("*") if it.is_file()]
        size = sum(it.stat().st_size for it in files)
    part = max(1, epochs // PARTS)
    metrics = {
        "first tenth, ms an epoch": statistics.mean(times[:part]),
        "last tenth, ms an epoch": statistics.mean(times[-part:]),
        "median ms": statistics.median(times),
        "longest ms": max(times),
        "files": len(files),
        "MB": size / 1e6,
        "ms to find the last": reading,
    }
    right = last is not None and last.epoch == epochs - 1
    return Outcome(metrics, check=lambda: [] if right else ["the last epoch is not the last entry"])


def entry(epoch: int) -> Entry:
    """As large as one of a pipeline from four partitions to four."""
    offsets = ",".join(f'"{it}":{epoch * 1000 + it}' for it in range(4))
    places = [("target", it, 1000, f"{epoch * 7 + it:032x}") for it in range(4)]
    positions = f'{{"source":{{{offsets}}}}}'
    return Entry(
        pipeline="bench",
        lineage="bench",
        term=1,
        epoch=epoch,
        phase=DONE,
        positions=[positions],
        plan=f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{positions}',
        decider="kafka",
        sinks={"kafka": SinkEntry(kind="onceward.sinks.kafka:KafkaSink", rows=4000, partitions=places)},
        input_rows=4000,
        milliseconds={"begin": 0.1, "write": 50.0, "decide": 2.0},
    )
