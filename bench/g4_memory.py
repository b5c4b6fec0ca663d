"""G4: memory over a thousand epochs, of the driver's JVM and Python and of Spark's Python workers.

Once with epochs that the driver writes itself, once with epochs that tasks write.
"""

import time

from bench.cpu import Snapshot, resident_mb
from bench.rounds import Outcome, Subject
from bench.stage import Stage

TITLE = "Memory over a thousand epochs"
BASE = ""
ROWS = 100
EPOCHS = 1000
AT = (100, 500, 1000)  # epochs
POLL_S = 0.2
GIVE_UP_S = 1800.0
WAYS = {"written by the driver": None, "written by tasks": 0}


def run(stage: Stage) -> None:
    epochs = min(EPOCHS, (stage.options.records or EPOCHS * ROWS) // ROWS)
    moments = tuple(epochs * it // EPOCHS for it in AT)
    source = stage.topics.filled(ROWS * epochs, 100)
    for way, small in WAYS.items():
        subject = Subject("onceward", lambda small=small: _once(stage, source, moments, small))  # type: ignore[misc]
        stage.rounds.interleave(f"epochs of {ROWS} rows, {way}", [subject], stage.options.rounds or 1)


def _once(stage: Stage, source: str, moments: tuple[int, ...], small: int | None) -> Outcome:
    target = stage.topics.new()
    worker = stage.worker("onceward")
    worker.ask("serve", source=source, target=target, epoch_records=ROWS, small_epoch_bytes=small)
    found: dict[str, float] = {}
    deadline = time.monotonic() + GIVE_UP_S
    for moment in moments:
        while (epochs := worker.ask("status")["epochs"]) < moment and time.monotonic() < deadline:
            time.sleep(POLL_S)
        found |= {f"{name} MB, epoch {moment}": mb for name, mb in _memory(worker.pid).items()}
    worker.ask("stop")
    stage.forget("onceward")  # the next way begins with a fresh process
    return Outcome(found, check=lambda: [] if epochs >= moments[-1] else [f"only {epochs} of {moments[-1]} epochs"])


def _memory(root: int) -> dict[str, float]:
    """Python workers share pages with the process that they are forks of, and these are counted in each."""
    now = Snapshot.take(0.0)
    found = {"JVM": 0.0, "driver": resident_mb(root), "workers": 0.0}
    for pid in now.family(root) - {root}:
        found["JVM" if now.processes[pid].name == "java" else "workers"] += resident_mb(pid)
    return found
