"""What a really running pipeline tells Prometheus, OpenTelemetry and OpenLineage."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import onceward as ow
from docs.test_operations_pages import expressions, metric_of
from onceward.telemetry import metrics
from onceward.telemetry.meters import METERS, WAITING
from pipeline.test_pipeline import counts
from support.judge import Kafka
from support.waiting import eventually


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """As a user configures it, but for one test only."""
    exported, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exported


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with metrics.endpoint("127.0.0.1", 0) as url:
        yield url


def scraped(url: str) -> dict[str, Metric]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {f"{it.name}_total" if it.type == "counter" else it.name: it for it in families}


def test_a_running_pipeline_tells_what_dashboard_alerts_and_pages_say(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, address: str, spans: InMemorySpanExporter
) -> None:
    """I2: every name and label is scraped over HTTP; each epoch is a span; lineage goes to a file."""
    source, target, events = kafka.topic(1), kafka.topic(1), tmp_path / "events.jsonl"
    kafka.feed(source, ((f"k{i % 7}", "v") for i in range(70)))
    pipeline = counts(spark, kafka, name, tmp_path / "home", source, target)
    with pipeline.start(openlineage=events) as query:
        query.process_all_available()
        kafka.feed(source, [("k0", "v")])
        eventually(lambda: query.rows_read == 71, "both epochs")
        eventually(lambda: query.last_progress["numInputRows"] >= 0, "Spark's report")
        families = scraped(address)
        shown, own = str(query.metrics()), query.metrics()

    labels = {meter.name: {"pipeline", *meter.labels} for meter in METERS}
    assert {it for it in families if not it.endswith("_created")} == labels.keys()
    told = {
        name: [it for it in family.samples if it.labels.get("pipeline") == query.name]
        for name, family in families.items()
    }
    unseen = {meter for meter, samples in told.items() if not samples and not meter.endswith("_created")}
    # Nothing was aborted or waited for; and this state is not RocksDB's.
    assert unseen <= {WAITING.name, "onceward_attempts_aborted_total", "onceward_state_disk_bytes"}
    for meter, samples in told.items():
        if not meter.endswith("_created"):
            assert all(set(it.labels) - {"le"} == labels[meter] for it in samples), meter
    asked = {metric_of(word) for it in expressions() for word in re.findall(r"\bonceward_\w+", it)}
    assert asked <= families.keys()

    assert own.value("onceward_epochs_committed_total") == query.epochs_committed >= 2
    assert own.value("onceward_rows_read_total") == 71
    assert own.value("onceward_rows_written_total", sink="kafka") == len(kafka.read(target))
    assert own.value("onceward_sink_seconds_count", sink="kafka", phase="decide") == query.epochs_committed
    assert own.value("onceward_lag_records", topic=source) == 0
    assert own.value("onceward_state_rows", operator="0-stateStoreSave") == 7
    assert own.value("onceward_pipeline_state", state="ended") == 1  # by now
    assert 'state="running"} 1.0' in shown

    epochs = [it for it in spans.get_finished_spans() if it.name == "onceward.epoch"]
    assert [it.attributes["onceward.epoch"] for it in epochs] == [it.epoch for it in query.epochs]
    assert all(it.attributes["onceward.outcome"] == "committed" for it in epochs)

    told_lineage = [json.loads(line) for line in events.read_text().splitlines()]
    assert [it["eventType"] for it in told_lineage] == ["START", "RUNNING", "COMPLETE"]
    written = [it["outputs"][0] for it in told_lineage]
    assert {(it["namespace"], it["name"]) for it in written} == {(f"kafka://{kafka.bootstrap}", target)}
    assert sum(it["outputFacets"]["outputStatistics"]["rowCount"] for it in written) == len(kafka.read(target))
    assert [it["name"] for it in written[1]["facets"]["schema"]["fields"]] == ["key", "value"]
    ends = told_lineage[-1]["inputs"][0]["inputFacets"]["onceward_positions"]["ends"]
    assert ends == {"0": 71}


def test_a_start_that_fails_is_seen_as_failed(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    pipeline = counts(spark, kafka, name, tmp_path / "home", f"{name}-missing", kafka.topic(1))
    with pytest.raises(ow.errors.TopicUnusable):
        pipeline.start()
    assert metrics.of_pipeline(name).value("onceward_pipeline_state", state="failed") == 1
