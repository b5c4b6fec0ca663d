"""A running pipeline at one moment, as its driver sees it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from onceward.epoch.ledger import Entry


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """Counts are of this driver, over committed epochs. Times are by one clock, in seconds."""

    pipeline: str
    guarantee: str
    at: float
    active: bool = True  # Spark still runs it
    stopping: bool = False  # it was asked to stop
    failure: str = ""  # why it ended, if it failed
    running: int | None = None  # the epoch that is under way
    doing: str = ""  # which step of it, and in which sink
    waiting: str = ""  # what is out of reach and waited for, since when and why
    waiting_for: str = ""  # the same in a word or two
    waiting_s: float = 0.0
    in_doubt: int | None = None  # an epoch that may be decided and is not committed everywhere
    fenced: bool = False  # a newer driver has taken the pipeline over
    epochs: tuple[Entry, ...] = ()  # the last ones, oldest first
    epochs_committed: int = 0
    rows_read: int = 0
    rows_written: Mapping[str, int] = {}  # by sink
    progress: Mapping[str, Any] = {}  # Spark's own report of its last epoch, or of its last look for one
