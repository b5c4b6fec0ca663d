"""An epoch as a span of OpenTelemetry; its phases and what each sink did in them are its children.

Spans are made when the epoch is over, with the times of the real steps. A tracer provider is the user's to configure,
as everywhere with OpenTelemetry; without one there is nothing here that runs.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from onceward.epoch.ledger import Entry
from onceward.epoch.observing import Course, Observer, Step
from onceward.telemetry.outward import error_outward

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

API: Final = "opentelemetry.trace"
VOTE: Final = frozenset({"begin", "write", "pre_commit"})
Attributes = dict[str, str | int]


class Phase(NamedTuple):
    """Part of an epoch, and what sinks were asked for in it."""

    name: str
    began: float
    ended: float
    steps: list[Step]


def tracing() -> "Traces | None":
    """None where nobody can have configured a provider: the API has not even been imported."""
    return Traces(sys.modules[API].get_tracer("onceward")) if API in sys.modules else None


def since_1970_ns(moment: float) -> int:
    """The time of day of a moment by the driver's clock."""
    return time.time_ns() - int((time.monotonic() - moment) * 1e9)


class Traces(Observer):
    """One span for each epoch that was tried."""

    def __init__(self, tracer: "Tracer", at: Callable[[float], int] = since_1970_ns) -> None:
        self._tracer = tracer
        self._at = at

    def committed(self, entry: Entry, course: Course) -> None:
        """A span with the epoch's rows and its children."""
        rows = {f"onceward.rows_out.{name}": part.rows for name, part in entry.sinks.items()}
        read = {"onceward.rows_in": entry.input_rows} if entry.input_rows is not None else {}
        facts: Attributes = {
            "onceward.pipeline": entry.pipeline,
            "onceward.lineage": entry.lineage,
            "onceward.term": entry.term,
            "onceward.attempts": entry.attempts,
            "onceward.outcome": "committed",
            **read,
            **rows,
        }
        self._span(course, facts, course.ended or course.began)

    def failed(self, epoch: int, course: Course | None, error: BaseException) -> None:  # noqa: ARG002 - the course has it
        """A span with an error; that of an epoch which may be decided says so."""
        if course is None:
            return
        from opentelemetry.trace import Status, StatusCode

        outcome = "in doubt" if course.in_doubt else "failed"
        facts: Attributes = {"onceward.outcome": outcome, "error.type": type(error).__name__}
        ended = course.aborted[-1].at if course.aborted else course.tried
        status = Status(StatusCode.ERROR, error_outward(error))
        self._span(course, facts, max(ended, *(step.ended for step in course.steps), course.tried), status)

    def _span(self, course: Course, facts: Attributes, ended: float, status: object = None) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        facts["onceward.epoch"] = course.epoch
        whole = self._begin("onceward.epoch", course.began, facts, Context())
        for tried in course.aborted:
            whole.add_event(
                "onceward.attempt_aborted",
                {
                    "onceward.attempt": tried.attempt,
                    "error.type": tried.cause,
                    "onceward.reason": error_outward(tried.reason),
                },
                self._at(tried.at),
            )
        inside = set_span_in_context(whole, Context())
        for phase in phases(course):
            span = self._begin(f"onceward.{phase.name}", phase.began, {}, inside)
            for step in phase.steps:
                where = set_span_in_context(span, Context())
                child = self._begin(f"onceward.{step.name}", step.began, {"onceward.sink": step.sink}, where)
                child.end(self._at(step.ended))
            span.end(self._at(phase.ended))
        if status is not None:
            whole.set_status(status)  # type: ignore[arg-type]
        whole.end(self._at(ended))

    def _begin(self, name: str, began: float, facts: Attributes, inside: "Context") -> "Span":
        return self._tracer.start_span(name, context=inside, attributes=facts, start_time=self._at(began))


def phases(course: Course) -> Iterator[Phase]:
    """Of the last try, as far as it came."""
    if course.voted is None:
        return
    yield Phase("vote", course.tried, course.voted, [step for step in course.steps if step.name in VOTE])
    if course.decided is None:
        return
    yield Phase("decide", course.voted, course.decided, [step for step in course.steps if step.name == "decide"])
    if course.ended is not None:
        yield Phase("commit", course.decided, course.ended, [step for step in course.steps if step.name == "commit"])
