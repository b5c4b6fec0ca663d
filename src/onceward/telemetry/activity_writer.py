"""Writes what a driver does into its home, beside the epochs, from a thread of its own (`activity.py`).

No epoch waits for it, and none fails with it: what it cannot write is said once. It writes under its own term's names
only, so a driver that was overtaken disturbs nobody; and it makes no home that somebody has taken away.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from onceward.epoch.observing import AbortedTry, Course, Observer, blame
from onceward.errors import PipelineFenced
from onceward.telemetry import activity
from onceward.telemetry.activity import Activity, Event, SinkActivity, StepActivity
from onceward.telemetry.outward import outward
from onceward.watching.showing import lag_of
from onceward.watching.sight import Sight

TICK_S: Final = 0.5
LOOK_S: Final = 1.0  # Spark is asked this often at most
PAUSED_S: Final = 5.0  # a thread that wakes up this late was stopped with its whole process, or starved
END_S: Final = 2.0  # how long the end of a pipeline waits for the last words
WAITING_EVENTS: Final = 200  # until they are written; an outage may have very many
LONGEST: Final = 1000  # characters of a reason


class Now(NamedTuple):
    """A driver at one moment, known without asking Spark."""

    running: int | None = None
    replaying: bool = False
    course: Course | None = None
    waits_for: str = ""
    stopping: bool = False
    epochs_committed: int = 0
    rows_read: int = 0
    rows_written: tuple[tuple[str, int], ...] = ()


class ActivityWriter(Observer):
    """One start's. `home` is there already; `clock` is that of the courses."""

    def __init__(
        self,
        home: Path,
        *,
        pipeline: str,
        term: int,
        pid: int,
        host: str,
        sinks: Iterable[SinkActivity],
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._home = home
        self._clock, self._now = clock, now
        self._said = Activity(
            pipeline=pipeline, term=term, pid=pid, host=host, started_at=_text(now()), sinks=list(sinks)
        )
        self._written_at = self._looked_at = self._ticked_at = self._began_clock = clock()
        self._began_wall = now()
        self._look: Callable[[], Sight] | None = None
        self._moment: Callable[[], Now] = Now
        self._events: deque[Event] = deque(maxlen=WAITING_EVENTS)
        self._ending = activity.STOPPED, ""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._blamed = False
        (home / activity.FOLDER).mkdir(mode=0o700, exist_ok=True)
        activity.forget(home, term - activity.KEPT_TERMS)
        self._write(self._said)

    def runs(self, look: Callable[[], Sight], moment: Callable[[], Now]) -> None:
        """The query is there. `look` asks Spark too, `moment` does not."""
        self._look, self._moment = look, moment

    def started(self) -> None:
        """From here on it is written what happens."""
        self._tell("started")
        self._thread = threading.Thread(target=self._work, name=f"onceward-activity-{self._said.pipeline}", daemon=True)
        self._thread.start()

    def aborted(self, epoch: int, tried: AbortedTry) -> None:
        """Kept with its cause: the ledger only counts tries."""
        self._tell("aborted", epoch, attempt=tried.attempt, cause=tried.cause, reason=tried.reason)

    def ended(self, failure: BaseException | None) -> None:
        """The last words; whoever hangs is left behind."""
        self._ending = _ending(failure), str(failure or "")
        cause = type(failure).__name__ if failure is not None else ""
        self._tell(self._ending[0], cause=cause, reason=self._ending[1])
        self._over.set()
        if self._thread is not None:
            self._thread.join(END_S)

    def _work(self) -> None:
        while not self._over.wait(TICK_S if self._said.state not in activity.OVER else None):
            self._carefully(self._tick)
        self._carefully(self._last_words)

    def _carefully(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - what is shown is not data
            if not self._blamed:
                self._blamed = True
                blame("What the driver does, for `onceward ui`,", error)

    def _tick(self) -> None:
        late = self._clock() - self._ticked_at - TICK_S
        self._ticked_at = self._clock()
        if late > PAUSED_S:
            self._tell("paused", reason=f"the driver stood still for {late:.0f} s")
        self._flush()
        if self._said.state in activity.OVER:
            return
        seen = self._sight()
        if seen is not None and not seen.active:
            self._look = None
            self._write(self._ended(activity.FENCED if seen.fenced else _failed(seen.failure), seen.failure))
            return
        said = self._as_of_now(seen)
        due = self._clock() - self._written_at >= activity.BEAT_S
        if due or said != self._said:
            self._write(said)

    def _last_words(self) -> None:
        self._flush()
        self._write(self._ended(*self._ending))

    def _sight(self) -> Sight | None:
        """None: it is not yet time to ask Spark again, or Spark is gone."""
        if self._look is None or self._clock() - self._looked_at < LOOK_S:
            return None
        self._looked_at = self._clock()
        with suppress(Exception):  # a gateway that is going: `ended` tells the rest
            return self._look()
        return None

    def _as_of_now(self, seen: Sight | None) -> Activity:
        now = self._moment()
        course = now.course if now.course is not None and now.course.epoch == now.running else None
        spark = _of_progress(seen.progress) if seen is not None else {}
        return msgspec.structs.replace(
            self._said,
            **spark,
            state=_state(now),
            epoch=now.running,
            attempt=course.attempt if course is not None else 0,
            began_at=self._wall(course.tried) if course is not None else None,
            decided=course is not None and course.decided is not None,
            steps=self._steps(course) if course is not None else [],
            in_doubt=course.epoch if course is not None and course.in_doubt else None,
            waits_for=_shown(now.waits_for),
            last_error=_shown(now.waits_for) or self._said.last_error,
            epochs_committed=now.epochs_committed,
            rows_read=now.rows_read,
            rows_written=dict(now.rows_written),
        )

    def _steps(self, course: Course) -> list[StepActivity]:
        done = [
            StepActivity(
                sink=it.sink, name=it.name, began_at=self._wall(it.began), ended_at=self._wall(it.ended)
            )
            for it in list(course.steps)
        ]  # fmt: skip
        asked = course.asked
        if asked is not None:
            done.append(StepActivity(sink=asked.sink, name=asked.name, began_at=self._wall(asked.began)))
        return done

    def _ended(self, state: str, reason: str) -> Activity:
        at = self._said.ended_at or _text(self._now())
        return msgspec.structs.replace(
            self._said,
            state=state,
            epoch=None,
            steps=[],
            in_doubt=None,
            waits_for="",
            ended_at=at,
            last_error=_shown(reason) or self._said.last_error,
            last_error_at=at if reason else self._said.last_error_at,
        )

    def _tell(self, kind: str, epoch: int | None = None, **facts: Any) -> None:
        """Called by the thread that runs the epoch: whatever takes time is left to ours."""
        facts["reason"] = str(facts.get("reason", ""))[: 10 * LONGEST]
        self._events.append(Event(at=_text(self._now()), kind=kind, epoch=epoch, **facts))

    def _flush(self) -> None:
        lines = b""
        while self._events:
            event = self._events.popleft()
            event = msgspec.structs.replace(event, reason=_shown(event.reason))
            lines += msgspec.json.encode(event) + b"\n"
            if event.cause:
                self._said = msgspec.structs.replace(self._said, last_error=event.reason, last_error_at=event.at)
        if not lines:
            return
        file = self._home / activity.events_of(self._said.term)
        with file.open("ab") as events:
            events.write(lines)
            size = events.tell()
        if size > activity.EVENTS_BYTES:
            kept = file.read_bytes()[-activity.EVENTS_BYTES // 2 :].partition(b"\n")[2]
            self._replace(file, kept)

    def _write(self, said: Activity) -> None:
        self._said, self._written_at = said, self._clock()
        file = self._home / activity.file_of(said.term)
        self._replace(file, msgspec.json.encode(msgspec.structs.replace(said, updated_at=_text(self._now()))))

    def _replace(self, file: Path, data: bytes) -> None:
        """Whole or not at all, for readers; not for a power cut."""
        beside = file.parent / f".{file.name}"
        beside.write_bytes(data)
        beside.replace(file)

    def _wall(self, moment: float) -> str:
        """A moment of the courses' clock as a time of day, to the millisecond that repeats itself at the next look."""
        return _text(self._began_wall + timedelta(seconds=moment - self._began_clock))


def _state(now: Now) -> str:
    if now.waits_for:
        return activity.WAITING
    if now.stopping:
        return activity.STOPPING
    return activity.REPLAYING if now.replaying else activity.RUNNING


def _ending(failure: BaseException | None) -> str:
    if isinstance(failure, PipelineFenced):
        return activity.FENCED
    return activity.FAILED if failure is not None else activity.STOPPED


def _failed(reason: str) -> str:
    return activity.FAILED if reason else activity.STOPPED


def _of_progress(progress: Any) -> dict[str, Any]:
    """Lag, and how large the state is, where Spark has reported."""
    operators = progress.get("stateOperators", ())
    if not progress:
        return {}
    rows = sum(int(it.get("numRowsTotal", 0)) for it in operators) if operators else None
    size = sum(map(_bytes, operators)) if operators else None
    return {"lag": lag_of(progress), "state_rows": rows, "state_bytes": size}


def _bytes(operator: Any) -> int:
    """In memory, and in RocksDB's files."""
    return int(operator.get("memoryUsedBytes", 0)) + int(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0))


def _shown(text: str) -> str:
    """A line for people."""
    return str(outward(" ".join(text.split())))[:LONGEST]  # in this order: half a secret is not known as one


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
