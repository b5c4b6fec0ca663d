"""What a driver leaves in its home about what it does right now, for people who look from another process.

`activity/TERM.json` is replaced while the driver runs, `activity/TERM.events.jsonl` grows line by line. Neither is
data: they are not synced, nothing that decides reads them, and whoever loses them loses a picture. A reader takes what
it can decode and passes over the rest.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = "activity"
FORMAT: Final = 1
KEPT_TERMS: Final = 20  # as many as leases are kept of
EVENTS_BYTES: Final = 200_000  # of one term's events; the older half goes then
BEAT_S: Final = 2.0  # it is written this often at least, while the driver lives
_FILE: Final = re.compile(r"(\d{6})\.(?:json|events\.jsonl)")

RUNNING: Final = "running"
STARTING: Final = "starting"
REPLAYING: Final = "replaying"  # of a committed epoch: the state is rebuilt
WAITING: Final = "waiting"  # for something that is out of reach
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
FENCED: Final = "fenced"
FAILED: Final = "failed"
OVER: Final = frozenset({STOPPED, FENCED, FAILED})


class StepActivity(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the two-phase commit; times of day. `ended_at` is None: it is under way."""

    sink: str
    name: str  # begin, write, pre_commit, decide, commit
    began_at: str
    ended_at: str | None = None


class SinkActivity(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: the sink's class, as ledger entries name it."""

    name: str
    kind: str
    decides: bool


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """`TERM.json`: the driver as of `updated_at`."""

    format: int = FORMAT
    pipeline: str
    term: int
    pid: int
    host: str
    started_at: str
    updated_at: str = ""
    state: str = STARTING
    epoch: int | None = None  # that is under way
    attempt: int = 0
    began_at: str | None = None  # its last try
    decided: bool = False  # it can only be committed from here on
    steps: list[StepActivity] = []
    sinks: list[SinkActivity] = []
    in_doubt: int | None = None
    waits_for: str = ""
    epochs_committed: int = 0
    rows_read: int = 0
    rows_written: dict[str, int] = {}
    lag: dict[str, int] = {}
    state_rows: int | None = None
    state_bytes: int | None = None
    last_error: str = ""
    last_error_at: str | None = None
    ended_at: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `TERM.events.jsonl`."""

    at: str
    kind: str  # started, aborted, paused, failed, fenced, stopped
    epoch: int | None = None
    attempt: int | None = None
    cause: str = ""
    reason: str = ""


def file_of(term: int) -> str:
    return f"{FOLDER}/{term:06d}.json"


def events_of(term: int) -> str:
    return f"{FOLDER}/{term:06d}.events.jsonl"


def parsed(data: bytes | None) -> Activity | None:
    """None: there is none that this release can read."""
    if data is None:
        return None
    try:
        found = msgspec.json.decode(data, type=Activity)
    except msgspec.DecodeError:
        return None
    return found if found.format <= FORMAT else None


def parsed_events(data: bytes | None) -> list[Event]:
    """Oldest first, without lines that are torn or of a later release."""
    found: list[Event] = []
    for line in (data or b"").splitlines():
        try:
            found.append(msgspec.json.decode(line, type=Event))
        except msgspec.DecodeError:
            continue
    return found


def forget(home: Path, newest: int) -> None:
    """Terms up to this one."""
    for file in (home / FOLDER).iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None and int(match[1]) <= newest:
            file.unlink(missing_ok=True)
