"""What Prometheus is told, from ledger entries and from a pipeline as it is seen."""

import builtins
import socket
import urllib.request
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.epoch.observing import AbortedTry, Course
from onceward.errors import DependencyMissing
from onceward.telemetry import metrics
from onceward.telemetry.gauges import of_commit, of_sight, of_start, unix_time
from onceward.telemetry.meters import METERS, STATES
from onceward.telemetry.prometheus import Books, Metering, Metrics
from watching.test_showing import PROGRESS, entry, sight

STATEFUL: dict[str, Any] = {
    **PROGRESS,
    "stateOperators": [
        {"operatorName": "stateStoreSave", "numRowsTotal": 7, "memoryUsedBytes": 4096,
         "customMetrics": {"rocksdbSstFileSize": 900}},
        {"operatorName": "dedupe", "numRowsTotal": 2, "memoryUsedBytes": 100, "customMetrics": {}},
    ],
}  # fmt: skip


def course(epoch: int, seconds: float = 0.5) -> Course:
    made = Course(epoch, 10.0)
    made.ended = 10.0 + seconds
    return made


def started(books: Books, name: str = "clicks", **facts: Any) -> Metering:
    made = books.of(name)
    made.begin(["kafka", "postgres"])
    made.runs(lambda: sight(progress=STATEFUL, **facts), None)
    return made


def values(books: Books, pipeline: str = "clicks") -> dict[str, float]:
    """Every sample of a pipeline, as Prometheus reads the text."""
    text = str(Metrics(books.registry, pipeline))
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()) if name != "pipeline")
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_every_epoch_is_counted_and_timed_exactly_once_however_rarely_somebody_asks() -> None:
    """I2."""
    books = Books()
    metering = started(books)
    for epoch in range(250):
        metering.committed(entry(epoch), course(epoch))
    found = values(books)
    assert found["onceward_epochs_committed_total{}"] == 250
    assert found["onceward_rows_read_total{}"] == 2500
    assert found["onceward_rows_written_total{sink=postgres}"] == 2500
    assert found["onceward_epoch_seconds_count{}"] == 250
    assert found["onceward_epoch_seconds_sum{}"] == pytest.approx(125)
    assert found["onceward_phase_seconds_count{phase=vote}"] == 250
    assert found["onceward_phase_seconds_sum{phase=decide}"] == pytest.approx(0.75)
    assert found["onceward_sink_seconds_bucket{le=0.05,phase=write,sink=kafka}"] == 250
    assert found["onceward_sink_seconds_bucket{le=0.025,phase=write,sink=kafka}"] == 0
    assert found["onceward_last_committed_epoch{}"] == 249
    assert found["onceward_last_commit_timestamp_seconds{}"] == pytest.approx(1767323045.678)
    assert values(books) == found  # asking changes nothing


def test_gauges_are_read_when_somebody_asks() -> None:
    books = Books()
    metering = started(books, waiting="waiting for sink 'pg': no (12 s)", waiting_for="sink 'pg'", waiting_s=12.0)
    metering.aborted(3, AbortedTry(1, "SinkUnreachable", "refused", 0.0))
    found = values(books)
    assert found["onceward_attempts_aborted_total{cause=SinkUnreachable}"] == 1
    assert found["onceward_lag_records{topic=clicks}"] == 7
    assert found["onceward_waiting_seconds{what=sink 'pg'}"] == 12
    assert {state for state in STATES if found[f"onceward_pipeline_state{{state={state}}}"]} == {"waiting"}
    assert found["onceward_pipeline_up{}"] == 1
    assert found["onceward_state_rows{operator=0-stateStoreSave}"] == 7
    assert found["onceward_state_memory_bytes{operator=1-dedupe}"] == 100
    assert found["onceward_state_disk_bytes{operator=0-stateStoreSave}"] == 900
    assert "onceward_state_disk_bytes{operator=1-dedupe}" not in found


def test_a_counter_begins_with_0_so_that_its_first_increase_is_seen() -> None:
    books = Books()
    books.of("p").begin(["kafka"])
    found = values(books, "p")
    assert found["onceward_epochs_committed_total{}"] == found["onceward_rows_written_total{sink=kafka}"] == 0
    assert found["onceward_pipeline_state{state=starting}"] == 1


def test_pipelines_of_one_process_are_told_apart_by_a_label() -> None:
    books = Books()
    for name in ("a", "b"):
        started(books, name).committed(entry(1), course(1))
    assert values(books, "a").keys() == values(books, "b").keys()
    assert books.registry.get_sample_value("onceward_epochs_committed_total", {"pipeline": "b"}) == 1
    assert Metrics(books.registry, "a").value("onceward_rows_written_total", sink="kafka") == 10
    assert Metrics(books.registry, "a").value("onceward_rows_written_total", sink="none") is None


@pytest.mark.parametrize(
    ("facts", "state", "fenced", "doubt"),
    [
        ({"running": 4}, "running", 0, 0),
        ({"running": 4, "in_doubt": 4}, "running", 0, 1),
        ({"active": False}, "ended", 0, 0),
        ({"active": False, "failure": "no", "in_doubt": 4}, "failed", 0, 1),
        # whether its last epoch was decided is now its successor's to find out
        ({"active": False, "failure": "no", "fenced": True, "in_doubt": 4}, "failed", 1, 0),
    ],
)
def test_what_a_pipeline_is_in_is_a_number(facts: dict[str, Any], state: str, fenced: int, doubt: int) -> None:
    found = {(it.meter.name, it.labels): it.value for it in of_sight(sight(**facts))}
    assert found["onceward_pipeline_state", (state,)] == 1
    assert sum(value for (name, _), value in found.items() if name == "onceward_pipeline_state") == 1
    assert found["onceward_pipeline_fenced", ()] == fenced
    assert found["onceward_epoch_in_doubt", ()] == doubt


def test_a_start_that_failed_is_a_state() -> None:
    failed = {it.labels for it in of_start("HomeInUse") if it.value}
    assert failed == {("failed",)}
    books = Books()
    metering = books.of("p")
    metering.begin(())
    metering.not_started(RuntimeError("no"))
    assert values(books, "p")["onceward_pipeline_state{state=failed}"] == 1


def test_a_time_of_the_ledger_is_unix_time() -> None:
    assert unix_time("2026-01-02T03:04:05.678+00:00") == unix_time("2026-01-02T03:04:05.678")
    assert unix_time("noon") is None
    assert [it.value for it in of_commit(msgspec.structs.replace(entry(3), finished_at="noon"))] == [3]
    assert [it.meter.name for it in of_commit(entry(3))] == [
        "onceward_last_committed_epoch",
        "onceward_last_commit_timestamp_seconds",
    ]


def test_what_was_seen_last_is_told_when_spark_is_gone() -> None:
    books = Books()
    metering = books.of("p")
    sights = [sight(active=False, failure="the JVM died")]
    metering.runs(sights.pop, None)
    metering.ended(None)
    assert values(books, "p")["onceward_pipeline_state{state=failed}"] == 1
    metering.runs(sights.pop, None)  # raises from now on
    assert values(books, "p")["onceward_pipeline_state{state=failed}"] == 1


def test_names_follow_prometheus_rules() -> None:
    for meter in METERS:
        assert meter.name.startswith("onceward_")
        assert meter.name.endswith("_total") == (meter.kind == "counter")
        assert meter.kind != "histogram" or meter.name.endswith("_seconds")
        assert not set(meter.name.split("_")) & {"ms", "milliseconds", "kb", "minutes"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_an_address_is_a_port_here_unless_a_host_is_named(text: str, found: tuple[str, int]) -> None:
    assert metrics.address(text) == found


@pytest.mark.parametrize("text", ["", "x", "host:", "-1", "70000", "9464:host"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither PORT nor HOST:PORT"):
        metrics.address(text)


def test_metrics_are_served_over_http_on_a_free_port() -> None:
    with metrics.endpoint("127.0.0.1", 0) as url, urllib.request.urlopen(url, timeout=10) as answer:
        assert b"# TYPE onceward_epochs_committed_total counter" in answer.read()


def test_a_port_in_use_is_one_line_that_names_the_option(tmp_path: Any) -> None:
    """I3."""
    file = tmp_path / "p.py"
    file.write_text("def build(spark): ...")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = CliRunner().invoke(app, ["run", str(file), "--metrics", str(port)])
    assert ended.exit_code == 2
    text = " ".join(ended.output.replace("│", " ").split())
    assert f"--metrics {port}: Address already in use. Name another port, or 0 for a free one." in text


def test_without_the_client_pipelines_run_and_whoever_asks_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I3."""
    monkeypatch.setattr(metrics, "find_spec", lambda _: None)
    assert metrics.metering("p") is None
    with pytest.raises(DependencyMissing, match=r"pip install 'onceward\[metrics\]'"):
        metrics.of_pipeline("p")


def test_a_client_that_cannot_be_imported_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "onceward.telemetry.prometheus":
            raise ImportError("a broken install")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert metrics.metering("p") is None
    assert "a broken install" in caplog.text
