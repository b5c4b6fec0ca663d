"""What a person or a page is shown of a pipeline: state, rates, lag, where the time goes, what is waited for."""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from onceward.epoch.ledger import Entry
from onceward.watching.sight import Sight

WINDOW_S: Final = 10.0  # rates are over so long
LOOKING: Final = ("latestOffset", "getBatch", "queryPlanning")  # Spark's names of what comes before an epoch's rows
NOTING: Final = ("walCommit", "commitOffsets")  # and of its own two log writes


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline. Milliseconds are of the last committed epoch; lag is in records, by topic."""

    pipeline: str
    guarantee: str
    state: str  # starting, running, waiting, stopping, ended, failed
    epoch: int | None  # that runs, or else the last one that was committed
    epochs_committed: int
    rows_in: int
    rows_in_per_s: float
    rows_out: dict[str, int]
    rows_out_per_s: dict[str, float]
    lag: dict[str, int]
    milliseconds: dict[str, float]
    waits_for: str
    last_error: str


class EpochShown(msgspec.Struct, frozen=True, kw_only=True):
    """One committed epoch. `rows_in` is None where the sources do not tell."""

    pipeline: str
    epoch: int
    rows_in: int | None
    rows_out: dict[str, int]
    milliseconds: dict[str, float]
    tries: int
    lag: dict[str, int]
    committed_at: str

    def line(self) -> str:
        """For a log that people read."""
        read = f"{self.rows_in:,} rows in" if self.rows_in is not None else "rows in unknown"
        out = ", ".join(f"{rows:,} to {sink}" for sink, rows in self.rows_out.items())
        total = sum(self.milliseconds.values())
        parts = ", ".join(f"{name} {took:.0f}" for name, took in self.milliseconds.items())
        lag = f"; lag {sum(self.lag.values()):,}" if self.lag else ""
        again = f"; {self.tries} tries" if self.tries > 1 else ""
        return (
            f"{self.pipeline}: epoch {self.epoch} committed: {read}, {out or 'none out'}; {total:.0f} ms ({parts})"
            f"{lag}{again}"
        )


class Watch:
    """Follows one pipeline: remembers what it saw for a while, so that it can tell rates and what is new."""

    def __init__(self) -> None:
        self._seen: deque[Sight] = deque()
        self._told = -1  # the last epoch that `fresh` gave
        self._held = -1  # an epoch that it has seen, and held back until Spark has reported on it
        self._last_error = ""

    def shown(self, sight: Sight) -> Shown:
        """The pipeline as of now."""
        self._seen.append(sight)
        while len(self._seen) > 2 and self._seen[1].at <= sight.at - WINDOW_S:
            self._seen.popleft()
        first = self._seen[0]
        span = max(sight.at - first.at, 1e-9)
        self._last_error = sight.failure or sight.waiting or self._last_error
        last = sight.epochs[-1] if sight.epochs else None
        return Shown(
            pipeline=sight.pipeline,
            guarantee=sight.guarantee,
            state=state_of(sight),
            epoch=sight.running if sight.running is not None else (last.epoch if last is not None else None),
            epochs_committed=sight.epochs_committed,
            rows_in=sight.rows_read,
            rows_in_per_s=(sight.rows_read - first.rows_read) / span,
            rows_out=dict(sight.rows_written),
            rows_out_per_s={
                sink: (rows - first.rows_written.get(sink, 0)) / span for sink, rows in sight.rows_written.items()
            },
            lag=lag_of(sight.progress),
            milliseconds=split(last, sight.progress) if last is not None else {},
            waits_for=waits_for(sight),
            last_error=self._last_error,
        )

    def fresh(self, sight: Sight) -> list[EpochShown]:
        """Epochs that were committed since it was asked last, oldest first.

        Spark reports a moment later how long it took to find the epoch's input: it is waited for, until the next look.
        """
        known = max(int(sight.progress.get("batchId", -1)), self._held)
        new = [entry for entry in sight.epochs if entry.epoch > self._told]
        ready = [entry for entry in new if entry.epoch <= known or not sight.active]
        self._held = new[-1].epoch if new else self._held
        self._told = ready[-1].epoch if ready else self._told
        return [epoch_shown(entry, sight.progress) for entry in ready]


def epoch_shown(entry: Entry, progress: Mapping[str, Any]) -> EpochShown:
    return EpochShown(
        pipeline=entry.pipeline,
        epoch=entry.epoch,
        rows_in=entry.input_rows,
        rows_out={name: part.rows for name, part in entry.sinks.items()},
        milliseconds=split(entry, progress),
        tries=entry.attempts,
        lag=lag_of(progress),
        committed_at=entry.finished_at,
    )


def state_of(sight: Sight) -> str:
    """In a word that everybody knows."""
    if not sight.active:
        return "failed" if sight.failure else "ended"
    if sight.stopping:
        return "stopping"
    return "waiting" if sight.waiting else "running"


def waits_for(sight: Sight) -> str:
    """What a person would have to wait for now."""
    if not sight.active:
        return ""
    if sight.waiting:
        return sight.waiting.removeprefix("waiting for ")
    if sight.running is not None:
        return f"epoch {sight.running}: {sight.doing or 'being planned'}"
    return "new events"


def split(entry: Entry, progress: Mapping[str, Any]) -> dict[str, float]:
    """Where an epoch's time went. Where rows go over tasks, computing and writing are one thing."""
    mine = progress.get("batchId") == entry.epoch
    spark: Mapping[str, float] = progress.get("durationMs", {}) if mine else {}
    computing = sum(part.milliseconds.get("compute", 0.0) for part in entry.sinks.values())
    voting = entry.milliseconds.get("vote", 0.0)
    committing = entry.milliseconds.get("decide", 0.0) + entry.milliseconds.get("commit", 0.0)
    found: dict[str, float] = {}
    if spark:
        found["reading"] = float(sum(spark.get(name, 0) for name in LOOKING))
        committing += sum(spark.get(name, 0) for name in NOTING)
    if computing:
        found |= {"computing": round(computing, 1), "writing": round(max(0.0, voting - computing), 1)}
    else:
        found["computing and writing"] = round(voting, 1)
    return found | {"committing": round(committing, 1)}


def lag_of(progress: Mapping[str, Any]) -> dict[str, int]:
    """How many records each Kafka topic has that were not read when Spark looked last."""
    found: dict[str, int] = {}
    for source in progress.get("sources", ()):
        ends, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for topic, partitions in latest.items():
            read = ends.get(topic, {})
            behind = sum(max(0, offset - read.get(number, 0)) for number, offset in partitions.items())
            found[topic] = found.get(topic, 0) + behind
    return found


def _offsets(value: object) -> dict[str, dict[str, int]]:
    """Of a Kafka source; of any other nothing is known."""
    try:
        made = json.loads(value) if isinstance(value, str) else value
        return msgspec.convert(made, dict[str, dict[str, int]])
    except (ValueError, msgspec.ValidationError):
        return {}
