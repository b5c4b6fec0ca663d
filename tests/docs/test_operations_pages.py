"""Dashboard, alert rules and their pages speak of metrics that exist; tests/telemetry asks a running pipeline."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from onceward.telemetry.meters import METERS

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations"
LABELS = {meter.name: {"pipeline", *meter.labels} for meter in METERS}
KINDS = {meter.name: meter.kind for meter in METERS}


def expressions() -> list[str]:
    """Of every panel and every rule."""
    dashboard = json.loads((OPERATIONS / "dashboard.json").read_text("utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [it["query"] for it in dashboard["templating"]["list"] if it["type"] == "query"]
    return asked + [rule["expr"] for rule in rules()]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OPERATIONS / "alerts.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def metric_of(name: str) -> str:
    """Of a histogram's series."""
    for end in ("_bucket", "_count", "_sum"):
        if KINDS.get(name.removesuffix(end)) == "histogram":
            return name.removesuffix(end)
    return name


def test_every_metric_and_label_of_dashboard_and_alerts_exists() -> None:
    """I2, I7."""
    for expression in expressions():
        names = [metric_of(name) for name in re.findall(r"\bonceward_\w+", expression)]
        assert names, expression
        assert set(names) <= LABELS.keys(), expression
        known = set.union(*(LABELS[name] for name in names)) | {"le"}
        for name, matchers in re.findall(r"\b(onceward_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*[=!]~?", matchers)) <= LABELS[metric_of(name)], expression
        for grouped in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
            assert {it.strip() for it in grouped.split(",")} <= known, expression


def test_what_titles_and_annotations_name_is_a_label_of_their_expression() -> None:
    dashboard = json.loads((OPERATIONS / "dashboard.json").read_text("utf-8"))
    said = [
        (target["expr"], re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    said += [(rule["expr"], re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) for rule in rules()]
    for expression, labels in said:
        grouped = re.findall(r"\bby\s*\(([^)]*)\)", expression)
        names = [metric_of(name) for name in re.findall(r"\bonceward_\w+", expression)]
        there = {it.strip() for it in grouped[0].split(",")} if grouped else LABELS[names[0]]
        assert set(labels) <= there, expression


def test_every_metric_is_in_the_table_with_its_kind_and_labels() -> None:
    """I7."""
    text = (OPERATIONS / "metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(onceward_\w+)` \| (\w+) \| ([^|]*)\|", text, re.MULTILINE)
    shown = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert shown == {meter.name: (meter.kind, set(meter.labels)) for meter in METERS}


def test_every_metric_is_on_the_dashboard() -> None:
    asked = {metric_of(name) for it in expressions() for name in re.findall(r"\bonceward_\w+", it)}
    assert asked == LABELS.keys()


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    """I7."""
    text = (OPERATIONS / "alerts.md").read_text("utf-8")
    entries = dict(re.findall(r"^### (\w+)\n(.*?)(?=^###|\Z)", text, re.DOTALL | re.MULTILINE))
    assert list(entries) == [rule["alert"] for rule in rules()]
    assert [name for name, entry in entries.items() if "**Means.**" not in entry or "**Do.**" not in entry] == []
    assert {rule["labels"]["severity"] for rule in rules()} == {"critical", "warning"}
