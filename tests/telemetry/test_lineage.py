"""OpenLineage's events: one run for each start, what was read from where to where, how much was written."""

import json
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde

from onceward.epoch.ledger import Entry, SinkEntry
from onceward.epoch.observing import Course
from onceward.errors import DependencyMissing, EpochFailed, PipelineFenced
from onceward.telemetry import lineage
from onceward.telemetry.datasets import Dataset, Read, kafka, reads, written
from onceward.telemetry.lineage import Begun
from onceward.telemetry.openlineage import OpenLineage, emitter
from support.clocks import MONOTONIC

KAFKA = {"kafka.bootstrap.servers": "broker-1:9092,broker-2:9092", "subscribe": "orders"}
BEGUN = Begun(
    pipeline="totals",
    guarantee="exactly-once",
    lineage="L",
    term=3,
    sources=[("kafka", KAFKA)],
    sinks={
        "kafka": ("onceward.sinks.kafka.sink:KafkaSink", {"bootstrap": "broker-1:9092", "topic": "totals"}),
        "postgres": ("m:PostgresSink", {"dsn": "host=db port=5433 dbname=shop user=me", "table": "public.totals"}),
    },
    positions=['{"orders":{"0":10,"1":4}}'],
    schemas={"postgres": [("customer", "string"), ("cents", "bigint")]},
)
COURSE = Course(0, MONOTONIC)


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_DISABLED", "OPENLINEAGE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


def committed(epoch: int, ends: int) -> Entry:
    return Entry(
        pipeline="totals", lineage="L", term=3, epoch=epoch, phase="done", input_rows=5,
        positions=[json.dumps({"orders": {"0": ends, "1": 4}})],
        sinks={
            "kafka": SinkEntry(
                rows=5, partitions=[("totals", 0, 3, "0"), ("totals", 1, 1, "0"), ("letters", 0, 1, "0")]
            ),
            "postgres": SinkEntry(rows=4),
        },
    )  # fmt: skip


class Collected:
    """Events as they go over the wire."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: RunEvent) -> None:
        self.events.append(json.loads(Serde.to_json(event)))

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.events[number]

    @property
    def types(self) -> list[str]:
        return [it["eventType"] for it in self.events]


def rows(event: dict[str, Any]) -> dict[str, int]:
    return {
        f"{it['namespace']}/{it['name']}": it["outputFacets"]["outputStatistics"]["rowCount"] for it in event["outputs"]
    }


def test_a_run_tells_its_start_its_epochs_and_its_end() -> None:
    """I2: one run for each start, positions of inputs, counts and schema of outputs."""
    heard = Collected()
    telling = OpenLineage(heard, BEGUN, interval_s=0)
    telling.started()
    telling.committed(committed(7, 15), COURSE)
    telling.committed(committed(8, 20), COURSE)
    telling.ended(None)
    assert heard.types == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert {it["run"]["runId"] for it in heard.events} == {BEGUN.run}
    assert {(it["job"]["namespace"], it["job"]["name"]) for it in heard.events} == {("default", "totals")}
    first = heard[1]
    assert first["run"]["facets"]["onceward_epochs"].items() >= {"first": 7, "last": 7, "epochs": 1}.items()
    assert first["run"]["facets"]["onceward"].items() >= {"term": 3, "lineage": "L"}.items()
    (read,) = first["inputs"]
    assert (read["namespace"], read["name"]) == ("kafka://broker-1:9092", "orders")
    positions = read["inputFacets"]["onceward_positions"]
    assert (positions["begins"], positions["ends"]) == ({"0": 10, "1": 4}, {"0": 15, "1": 4})
    assert heard[2]["inputs"][0]["inputFacets"]["onceward_positions"]["begins"] == {"0": 15, "1": 4}
    assert rows(first) == {
        "kafka://broker-1:9092/totals": 4,
        "kafka://broker-1:9092/letters": 1,
        "postgres://db:5433/shop.public.totals": 4,
    }
    schema = next(it for it in first["outputs"] if it["name"] == "shop.public.totals")["facets"]["schema"]
    assert [(it["name"], it["type"]) for it in schema["fields"]] == [("customer", "string"), ("cents", "bigint")]
    assert sum(rows(heard[3]).values()) == 0  # all is told


def test_between_intervals_epochs_are_summed_up_and_the_end_tells_the_rest() -> None:
    heard, now = Collected(), [MONOTONIC]
    telling = OpenLineage(heard, BEGUN, interval_s=60, clock=lambda: now[0])
    telling.started()
    for epoch in range(10):
        now[0] += 20
        telling.committed(committed(epoch, 11 + epoch), COURSE)
    telling.ended(None)
    assert heard.types == ["START", "RUNNING", "RUNNING", "RUNNING", "RUNNING", "COMPLETE"]
    told = [it["run"]["facets"].get("onceward_epochs", {}) for it in heard.events]
    assert [(it.get("first"), it.get("last"), it.get("epochs")) for it in told] == [
        (None, None, None), (0, 0, 1), (1, 3, 3), (4, 6, 3), (7, 9, 3), (None, None, None),
    ]  # fmt: skip
    assert sum(rows(it)["postgres://db:5433/shop.public.totals"] for it in heard.events) == 40


@pytest.mark.parametrize(("failure", "state"), [(EpochFailed("no"), "FAIL"), (PipelineFenced("newer"), "ABORT")])
def test_a_failure_is_told_with_its_reason(failure: Exception, state: str) -> None:
    heard = Collected()
    OpenLineage(heard, BEGUN).ended(failure)
    assert heard.types == [state]
    assert heard[0]["run"]["facets"]["errorMessage"]["message"] == f"{type(failure).__name__}: {failure}"


def test_events_go_to_a_file_one_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    telling = lineage.observer(BEGUN, file)
    telling.started()
    telling.committed(committed(0, 11), COURSE)
    telling.ended(None)
    assert [json.loads(line)["eventType"] for line in file.read_text().splitlines()] == ["START", "RUNNING", "COMPLETE"]


def test_a_server_that_is_away_is_said_once_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """I2: a pipeline neither stops nor waits for lineage."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    assert lineage.is_asked_for()
    telling, began = lineage.observer(BEGUN), time.monotonic()
    with caplog.at_level(logging.WARNING, "onceward"):
        telling.started()
        for epoch in range(5):
            telling.committed(committed(epoch, 11), COURSE)
        assert time.monotonic() - began < 1
        telling.ended(None)
    ours = [it for it in caplog.records if it.name.startswith("onceward")]
    assert [getattr(it, "event", "") for it in ours] == ["telemetry_failed"]


def test_a_wrong_setting_of_the_client_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "no-such-transport")
    assert lineage.observer(BEGUN) is None
    assert any(getattr(it, "event", "") == "telemetry_failed" for it in caplog.records)


def test_only_an_environment_that_names_a_place_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lineage.is_asked_for()
    monkeypatch.setenv("OPENLINEAGE_URL", "http://marquez:5000")
    assert lineage.is_asked_for()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not lineage.is_asked_for()


def test_without_the_client_a_file_is_refused_and_the_environment_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage, "find_spec", lambda _: None)
    with pytest.raises(DependencyMissing, match=r"pip install 'onceward\[lineage\]'"):
        lineage.require_installed()
    assert lineage.observer(BEGUN) is None
    assert "pip install 'onceward[lineage]'" in caplog.text


def test_the_environment_s_transport_is_the_client_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "there"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    OpenLineage(emitter(None), BEGUN).started()
    assert json.loads((tmp_path / "there").read_text())["job"]["namespace"] == "shop"


@pytest.mark.parametrize(
    ("kind", "settings", "found"),
    [
        ("m:FileSink", {"path": "/data/out"}, Dataset("file", "/data/out")),
        ("m:DeltaSink", {"path": "/data/table"}, Dataset("file", "/data/table")),
        ("m:IcebergSink", {"catalog": {"name": "lake"}, "table": "a.b"}, Dataset("iceberg://lake", "a.b")),
        ("m:IcebergSink", {"table": "shop.totals"}, Dataset("iceberg://catalog", "shop.totals")),
        ("m:PostgresSink", {"dsn": "", "table": "t"}, Dataset("postgres://localhost:5432", "default.public.t")),
        ("mine:MySink", {}, Dataset("onceward", "MySink")),
        ("m:KafkaSink", {"topic": "t"}, Dataset("kafka://unknown", "t")),
    ],
)  # fmt: skip
def test_what_sinks_write_has_openlineages_names(kind: str, settings: dict[str, Any], found: Dataset) -> None:
    assert written(kind, settings) == [found]


def test_what_sources_read_has_positions_where_there_are_any() -> None:
    files = ("json", {"path": "/in"})
    before, after = ['{"orders":{"0":1}}', ""], ['{"orders":{"0":3}}', '{"logOffset":2}']
    assert reads([("kafka", KAFKA), files, ("rate", {})], before, after) == [
        Read(kafka(KAFKA, "orders"), {"0": 1}, {"0": 3}),
        Read(Dataset("file", "/in"), None, '{"logOffset":2}'),
        Read(Dataset("spark", "rate"), None, None),
    ]
    assert reads([("kafka", KAFKA)], [], []) == [Read(kafka(KAFKA, "orders"), {}, {})]
    assert reads([("kafka", {})], [], []) == []


def test_a_start_is_told_apart_from_another() -> None:
    facts: dict[str, Any] = {"pipeline": "p", "guarantee": "g", "lineage": "L", "term": 1, "sources": [], "sinks": {}}
    assert Begun(**facts).run != Begun(**facts).run
