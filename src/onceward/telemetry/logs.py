"""The log as lines of JSON, and what is logged of every epoch."""

import json
import logging
from datetime import UTC, datetime
from typing import Final

from onceward.epoch.ledger import Entry
from onceward.epoch.observing import Course, Observer
from onceward.events import logger
from onceward.watching.showing import epoch_shown

EPOCHS: Final = "onceward.epochs"  # a logger of its own: a line for each epoch may be too much
log, epochs_log = logger("onceward.pipeline"), logger(EPOCHS)

# What every record has; anything else came with `extra=`.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, `event`, and the event's fields.

    logging.getLogger("onceward").addHandler(handler), after handler.setFormatter(ow.JsonFormatter()). It formats
    records of any other logger too, with whatever fields they have.
    """

    def format(self, record: logging.LogRecord) -> str:
        """In one line."""
        facts: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        facts |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts, default=str, ensure_ascii=False)


class Logged(Observer):
    """What becomes of a pipeline, as events of the log."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def started(self) -> None:
        """The query runs."""
        log.info(
            "pipeline %r runs", self._pipeline, extra={"event": "pipeline_started", "pipeline": self._pipeline}
        )  # fmt: skip

    def committed(self, entry: Entry, course: Course) -> None:  # noqa: ARG002 - the entry has it all
        """One line."""
        if not epochs_log.isEnabledFor(logging.INFO):
            return
        shown = epoch_shown(entry, {})
        epochs_log.info(
            "%s", shown.line(),
            extra={
                "event": "epoch_committed", "pipeline": entry.pipeline, "epoch": entry.epoch, "term": entry.term,
                "rows_in": entry.input_rows, "rows_out": shown.rows_out, "tries": entry.attempts,
                "milliseconds": entry.milliseconds,
            },
        )  # fmt: skip

    def ended(self, failure: BaseException | None) -> None:
        """How it ended."""
        if failure is None:
            log.info(
                "pipeline %r has ended", self._pipeline, extra={"event": "pipeline_ended", "pipeline": self._pipeline}
            )
        else:
            reason = f"{type(failure).__name__}: {failure}"
            log.info(
                "pipeline %r has failed: %s", self._pipeline, reason,
                extra={"event": "pipeline_failed", "pipeline": self._pipeline, "reason": reason},
            )  # fmt: skip
