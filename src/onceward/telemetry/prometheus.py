"""Prometheus' metrics of the pipelines of this process, in a registry of our own. Needs its client (`metrics.py`).

Counters and histograms are told each committed epoch once, by the driver that commits it, however rarely somebody
asks. Gauges are read when somebody does: only then is Spark asked for anything.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from onceward.epoch.ledger import Entry
from onceward.epoch.observing import AbortedTry, Course, Observer
from onceward.telemetry import meters
from onceward.telemetry.gauges import Reading, of_commit, of_sight, of_start
from onceward.telemetry.meters import BUCKETS_S, COUNTED, SEEN, TIMED
from onceward.watching.sight import Sight


class Metering(Observer):
    """One pipeline's part of the registry. `look` gives the pipeline as it is now, once it has been started."""

    def __init__(self, books: "Books", pipeline: str) -> None:
        self._books = books
        self._pipeline = pipeline
        self._look: Callable[[], Sight] | None = None
        self._seen: Sight | None = None
        self._last: Entry | None = None
        self._start_failed = ""

    def begin(self, sinks: Iterable[str]) -> None:
        """A start: what counts begins with 0, so that the first increase is seen as one."""
        self._look, self._seen, self._start_failed = None, None, ""
        for counter in (meters.EPOCHS, meters.ROWS_READ):
            self._count(counter, 0)
        for sink in sinks:
            self._count(meters.ROWS_WRITTEN, 0, sink)

    def runs(self, look: Callable[[], Sight], last: Entry | None) -> None:
        """It runs. `last`: the epoch that was the last committed one before."""
        self._look, self._last = look, last

    def not_started(self, error: BaseException) -> None:
        """The start failed."""
        self._start_failed = type(error).__name__

    def aborted(self, epoch: int, tried: AbortedTry) -> None:  # noqa: ARG002 - epochs are no label: they never end
        """Counted at once, also while an outage lasts."""
        self._count(meters.ABORTED, 1, tried.cause)

    def committed(self, entry: Entry, course: Course) -> None:
        """The ledger's entry has it all."""
        self._last = entry
        self._count(meters.EPOCHS, 1)
        self._count(meters.ROWS_READ, entry.input_rows or 0)
        if course.ended is not None:
            self._time(meters.EPOCH_SECONDS, course.ended - course.began)
        for phase, took in entry.milliseconds.items():
            self._time(meters.PHASE_SECONDS, took / 1000, phase)
        for sink, part in entry.sinks.items():
            self._count(meters.ROWS_WRITTEN, part.rows, sink)
            for phase, took in part.milliseconds.items():
                self._time(meters.SINK_SECONDS, took / 1000, sink, phase)

    def ended(self, failure: BaseException | None) -> None:  # noqa: ARG002 - the last sight tells it
        """Look for the last time; the query is not kept alive by being measured."""
        self._sight()
        self._look = None

    def readings(self) -> list[Reading]:
        """Every gauge as of now."""
        sight = self._sight()
        found = list(of_sight(sight) if sight is not None else of_start(self._start_failed))
        return [*found, *(of_commit(self._last) if self._last is not None else ())]

    def _sight(self) -> Sight | None:
        if self._look is not None:
            with suppress(Exception):  # Spark is gone, and what was seen last is told
                self._seen = self._look()
        return self._seen

    def _count(self, meter: meters.Meter, number: float, *labels: str) -> None:
        self._books.counters[meter.name].labels(self._pipeline, *labels).inc(number)

    def _time(self, meter: meters.Meter, seconds: float, *labels: str) -> None:
        self._books.histograms[meter.name].labels(self._pipeline, *labels).observe(seconds)


class Books(Collector):
    """Every pipeline of a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counters = {
            it.name: Counter(it.name, it.text, ("pipeline", *it.labels), registry=self.registry) for it in COUNTED
        }
        self.histograms = {
            it.name: Histogram(it.name, it.text, ("pipeline", *it.labels), registry=self.registry, buckets=BUCKETS_S)
            for it in TIMED
        }
        self._pipelines: dict[str, Metering] = {}
        self.registry.register(self)

    def of(self, pipeline: str) -> Metering:
        """One pipeline's; a second start in the same process goes on counting."""
        return self._pipelines.setdefault(pipeline, Metering(self, pipeline))

    def collect(self) -> Iterator[Metric]:
        """The gauges, as somebody asks for them."""
        families = {it: GaugeMetricFamily(it.name, it.text, labels=("pipeline", *it.labels)) for it in SEEN}
        for name, metering in list(self._pipelines.items()):
            for meter, value, labels in metering.readings():
                families[meter].add_metric((name, *labels), value)
        yield from families.values()


class Metrics(Collector):
    """One pipeline's metrics. Printed, it is Prometheus' text; `registry` is for an endpoint of your own."""

    def __init__(self, everything: CollectorRegistry, pipeline: str) -> None:
        self.pipeline = pipeline
        self.registry = CollectorRegistry()
        self._everything = everything
        self.registry.register(self)

    def __str__(self) -> str:
        return generate_latest(self.registry).decode()

    __repr__ = __str__

    def value(self, name: str, **labels: str) -> float | None:
        """Of one sample, such as `value("onceward_rows_written_total", sink="kafka")`; None if there is none."""
        return self.registry.get_sample_value(name, {"pipeline": self.pipeline, **labels})

    def collect(self) -> Iterator[Metric]:
        """What is this pipeline's of every metric."""
        for family in self._everything.collect():
            family.samples = [it for it in family.samples if it.labels["pipeline"] == self.pipeline]
            yield family


@cache
def books() -> Books:
    """Of this process."""
    return Books()
