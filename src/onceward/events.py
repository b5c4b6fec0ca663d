"""Our loggers. A line of the log carries `event`, a name that stays, and its facts as fields (`extra=`); the pipeline
that a thread works for is added here. docs/operations/logs.md lists them all.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_pipeline: Final[ContextVar[str | None]] = ContextVar("onceward_pipeline", default=None)


@contextmanager
def of_pipeline(name: str) -> Iterator[None]:
    """What this thread logs in here is about that pipeline."""
    token = _pipeline.set(name)
    try:
        yield
    finally:
        _pipeline.reset(token)


class _Named(logging.Filter):
    """Lets everything through, with the pipeline's name."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "pipeline") and (name := _pipeline.get()) is not None:
            record.pipeline = name
        return True


_NAMED: Final = _Named()


def logger(name: str) -> logging.Logger:
    """Python's own logger of this name."""
    found = logging.getLogger(name)
    found.addFilter(_NAMED)
    return found
