"""P11, state backends: updates a second, and what a snapshot takes, over the size of the state (bench/state.py)."""

from functools import partial

from bench.apart import found_by
from bench.rounds import Outcome, Subject
from bench.stage import Stage
from bench.state import STATES

TITLE = "State backends: hashmap and RocksDB over the size of the state"
BASE = "hashmap"
KEYS = (10_000, 100_000, 1_000_000)


def run(stage: Stage) -> None:
    sizes = (stage.options.records,) if stage.options.records else KEYS
    for keys in sizes:
        subjects = [Subject(kind, partial(_once, kind, keys)) for kind in stage.options.systems or STATES]
        stage.rounds.interleave(f"{keys:,} keys", subjects, stage.options.rounds or 3)


def _once(kind: str, keys: int) -> Outcome:
    found = found_by("state", ["--kinds", kind, "--keys", str(keys)])["results"][0]
    if "failed" in found:
        return Outcome({}, check=lambda: [found["failed"]])
    metrics = {
        "updates/s": found["updates_per_s"],
        "MB written per epoch": found["bytes_per_epoch"] / 1e6,
        "MB on disk": found["bytes_on_disk"] / 1e6,
        "snapshot ms": found["snapshot_ms"],
    }
    rows = found["rows_of_state"]
    return Outcome(metrics, check=lambda: [] if rows == keys else [f"{rows:,} rows of state, not {keys:,}"])
