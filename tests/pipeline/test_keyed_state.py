"""Keyed state of one's own: transformWithState in Python, stopped, crashed and started again."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onceward.epoch.query_shape import OperatorShape, QueryShape
from onceward.errors import ConfigurationError
from onceward.pipeline.host import load
from onceward.pipeline.state import STATE_MESSAGES, require_protobuf
from support.judge import Kafka
from support.page_files import DOCS, write_files
from support.runs import crash, run


@pytest.mark.slow
def test_state_of_ones_own_is_kept_once_for_every_event(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: Callable[..., None]
) -> None:
    """E1: the page's file; what an aborted or repeated try did to the state is undone or not done again.

    The last start takes along a folder whose epochs are all finished: Spark's notes in it name paths that are gone.
    """
    source, target = "spending-orders", "spending-totals"
    kafka.wire.create_topics([source, target], 2)
    write_files(DOCS / "state.md", tmp_path, port_9092=kafka.bootstrap)
    monkeypatch.chdir(tmp_path)
    build = load(tmp_path / "spending.py")
    for point in ("written", "decided", None, None):  # the last goes on from an epoch that is over: all is read anew
        kafka.feed(source, [("a", "1"), ("b", "10"), ("a", "1")])
        crash_at(point)
        (run if point is None else crash)(build(spark)[0])
    crash_at(None)
    seen: dict[str, list[int]] = {}
    for message in kafka.read(target):
        seen.setdefault(message.key().decode(), []).append(int(message.value()))
    assert {key: (values[-1], values == sorted(set(values))) for key, values in seen.items()} == {
        "a": (8, True),
        "b": (40, True),
    }


def test_a_missing_package_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: else a Python worker would crash in the first epoch."""
    of_its_own = QueryShape(operators=[OperatorShape(name="TransformWithState")])
    require_protobuf(of_its_own)
    for name in [it for it in sys.modules if it == STATE_MESSAGES or it.startswith("google.protobuf")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ConfigurationError, match=r"needs the package protobuf.*pip install 'onceward\[state\]'"):
        require_protobuf(of_its_own)
    require_protobuf(QueryShape(operators=[OperatorShape(name="Aggregate")]))
