"""An epoch as a span, as the SDK's own exporter has it."""

import sys
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from epoch.started import Pipeline, Place
from epoch.test_observing import Slow, Stumbles, watched
from onceward.epoch.contract import Guarantee
from onceward.epoch.observing import Course
from onceward.errors import CommitUnproven, EpochFailed
from onceward.telemetry.traces import API, Traces, since_1970_ns, tracing
from support.clocks import MONOTONIC, WALL_NS


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exported: InMemorySpanExporter) -> Traces:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return Traces(provider.get_tracer("onceward"), since_1970)


def children(spans: tuple[ReadableSpan, ...], parent: ReadableSpan) -> list[ReadableSpan]:
    found = [it for it in spans if it.parent is not None and it.parent.span_id == parent.context.span_id]
    return sorted(found, key=lambda it: it.start_time or 0)


def since_1970(moment: float) -> int:
    """Another clock than the steps'; `seconds` counts from where the pipeline's begins."""
    return WALL_NS + int((moment - MONOTONIC) * 1000) * 1_000_000


def seconds(span: ReadableSpan) -> tuple[str, float, float]:
    return span.name, ((span.start_time or 0) - WALL_NS) / 1e9, ((span.end_time or 0) - WALL_NS) / 1e9


def test_an_epoch_is_a_span_and_its_phases_and_sinks_are_its_children(
    traces: Traces, exported: InMemorySpanExporter
) -> None:
    """I2: with the times of the real steps."""
    pipeline = Pipeline(kind=Slow, decides=True, others={"t": Place()})
    Slow.pipeline = pipeline
    watched(pipeline, traces).run(0, "a", "b")
    spans = exported.get_finished_spans()
    (whole,) = [it for it in spans if it.parent is None]
    assert seconds(whole) == ("onceward.epoch", 0, 6)  # the decider is asked to commit too, and has nothing to do
    assert dict(whole.attributes or {}) == {
        "onceward.pipeline": "p", "onceward.lineage": "L", "onceward.term": 1, "onceward.epoch": 0,
        "onceward.attempts": 1, "onceward.outcome": "committed", "onceward.rows_in": 1,
        "onceward.rows_out.s": 2, "onceward.rows_out.t": 2,
    }  # fmt: skip
    vote, decide, commit = children(spans, whole)
    assert [seconds(it) for it in (vote, decide, commit)] == [
        ("onceward.vote", 0, 4), ("onceward.decide", 4, 4), ("onceward.commit", 4, 6),
    ]  # fmt: skip
    assert sorted((*seconds(it), it.attributes["onceward.sink"]) for it in children(spans, vote)) == [
        ("onceward.begin", 0, 1, "t"), ("onceward.begin", 1, 2, "s"),
        ("onceward.pre_commit", 2, 3, "t"), ("onceward.pre_commit", 3, 4, "s"),
        ("onceward.write", 2, 2, "s"), ("onceward.write", 2, 2, "t"),
    ]  # fmt: skip
    assert [it.attributes["onceward.sink"] for it in children(spans, decide)] == ["s"]
    assert [it.attributes["onceward.sink"] for it in children(spans, commit)] == ["t"]


def test_aborted_tries_are_events_of_the_span(traces: Traces, exported: InMemorySpanExporter) -> None:
    Stumbles.errors = [RuntimeError("lost a task")]
    watched(Pipeline(kind=Stumbles), traces).run(0, "a")
    (whole,) = [it for it in exported.get_finished_spans() if it.parent is None]
    assert [(it.name, dict(it.attributes or {})) for it in whole.events] == [
        (
            "onceward.attempt_aborted",
            {"onceward.attempt": 1, "error.type": "RuntimeError", "onceward.reason": "RuntimeError"},
        )
    ]
    assert whole.attributes["onceward.attempts"] == 2


def test_an_epoch_that_fails_is_a_span_with_an_error(traces: Traces, exported: InMemorySpanExporter) -> None:
    Stumbles.errors = [RuntimeError("no") for _ in range(6)]
    with pytest.raises(EpochFailed):
        watched(Pipeline(kind=Stumbles), traces).run(7, "a")
    (whole,) = exported.get_finished_spans()
    assert whole.status.status_code is StatusCode.ERROR
    facts = whole.attributes
    assert (facts["onceward.outcome"], facts["error.type"], facts["onceward.epoch"]) == ("failed", "EpochFailed", 7)
    assert len(whole.events) == 6


def test_an_epoch_in_doubt_says_so_and_shows_the_phases_it_had(traces: Traces, exported: InMemorySpanExporter) -> None:
    course = Course(3, MONOTONIC)
    course.voted = MONOTONIC + 1.0
    traces.failed(3, course, CommitUnproven("no answer"))
    course.decided = MONOTONIC + 1.5
    traces.failed(3, course, CommitUnproven("no answer"))
    traces.failed(4, None, RuntimeError("not even tried"))
    spans = exported.get_finished_spans()
    assert [it.name for it in spans] == [
        "onceward.vote", "onceward.epoch", "onceward.vote", "onceward.decide", "onceward.epoch",
    ]  # fmt: skip
    assert {it.attributes["onceward.outcome"] for it in spans if it.parent is None} == {"in doubt"}


def test_at_most_once_has_no_phases(traces: Traces, exported: InMemorySpanExporter) -> None:
    watched(Pipeline(guarantee=Guarantee.AT_MOST_ONCE), traces).run(0, "a")
    assert [it.name for it in exported.get_finished_spans()] == ["onceward.epoch"]


def test_a_moment_is_a_time_of_day() -> None:
    assert abs(since_1970_ns(time.monotonic()) - time.time_ns()) < 1e9


def test_without_a_user_of_opentelemetry_there_is_no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracing() is not None
    assert trace.__name__ == API
    monkeypatch.delitem(sys.modules, API)
    assert tracing() is None
