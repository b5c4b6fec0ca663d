"""The log as lines of JSON, and what is logged of every epoch."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from onceward.epoch.ledger import Entry
from onceward.epoch.observing import Course, Observer
from onceward.events import logger
from onceward.telemetry.outward import error_outward, outward, traceback_outward
from onceward.watching.showing import epoch_shown

EPOCHS: Final = "onceward.epochs"  # a logger of its own: a line for each epoch may be too much
log, epochs_log = logger("onceward.pipeline"), logger(EPOCHS)

# What every record has; anything else came with `extra=`.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, `event`, and the event's fields.

    Without secrets; and of errors without what others say in them, who may quote rows: their class and our own words.

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
        for said, outside in _errors(record):
            facts |= {name: str(facts[name]).replace(said, outside) for name in ("message", "reason") if name in facts}
        if record.exc_info and record.exc_info[1] is not None:
            facts["traceback"] = traceback_outward(record.exc_info[1], record.exc_info[2])
        return json.dumps(outward(facts), default=lambda it: outward(str(it)), ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """For people, who have errors whole; secrets nobody has."""

    def format(self, record: logging.LogRecord) -> str:
        """As it is, but for secrets."""
        return str(outward(super().format(record)))


def _errors(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    """The errors that a record quotes, each as it stands there and as it may leave."""
    given = record.args if isinstance(record.args, tuple) else (record.msg,)
    failures = [it for it in given if isinstance(it, BaseException)]
    yield from ((str(it), error_outward(it)) for it in failures if str(it))
    reason = getattr(record, "reason", None)
    if isinstance(reason, str) and reason and reason not in map(str, failures):
        yield reason, error_outward(reason)


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
