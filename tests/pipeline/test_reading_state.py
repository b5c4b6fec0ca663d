"""State as a DataFrame, from homes and from savepoints, and two states compared key by key."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.cli import savepoint_diff
from onceward.errors import ConfigurationError
from onceward.pipeline.state_diff import StoreDiff, diff
from pipeline.queries import MODES, QUERIES, feed, stream
from support.home import checkpoint_of


class Ran:
    """A pipeline in a home, run over one file after the other."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, query: str) -> None:
        self.spark, self.folder, self.name, self.query = spark, folder, name, query
        self.home, self.files = folder / "home", 0

    def further(self, **rows: int) -> "Ran":
        feed(self.folder / "in", self.files, **rows)
        self.files += 1
        source = QUERIES[self.query](stream(self.spark, self.folder / "in"))
        mode = MODES.get(self.query, "append")
        pipeline = ow.Pipeline(self.name, home=self.home, source=source, output_mode=mode)
        pipeline.to(ow.FileSink(self.folder / "out", format="json")).start(trigger="once").wait(120)
        return self

    def saved(self, name: str) -> Path:
        """What a savepoint has: the checkpoint, at another path."""
        place = self.folder / name
        shutil.copytree(checkpoint_of(self.home), place / "checkpoint")
        (place / "savepoint.json").touch()
        return place


@pytest.fixture
def ran(spark: SparkSession, tmp_path: Path, name: str) -> Callable[[str], Ran]:
    return lambda query: Ran(spark, tmp_path, name, query)


def test_the_state_of_a_home_is_a_frame(ran: Callable[[str], Ran], spark: SparkSession) -> None:
    """E10: as it is now, and as it was after an epoch that Spark still has."""
    job = ran("windowed").further()
    frame = ow.state(job.home, spark)
    assert frame.columns == ["key", "value", "partition_id"]
    totals = {row["key"]["key"]: row["value"]["sum"] for row in frame.collect()}
    assert sum(totals.values()) == sum(it % 17 for it in range(30))
    job.further()
    now = {
        (row["key"]["window"], row["key"]["key"]): row["value"]["count"] for row in ow.state(job.home, spark).collect()
    }
    assert sum(now.values()) == 60
    assert {row["key"]["key"]: row["value"]["sum"] for row in ow.state(job.home, spark, epoch=0).collect()} == totals


def test_a_join_has_two_sides(ran: Callable[[str], Ran], spark: SparkSession) -> None:
    """E10"""
    home = ran("joined").further().home
    left, right = (ow.state(home, spark, store=side) for side in ("left", "right"))
    assert left.count() == right.count() == 30
    with pytest.raises(
        ConfigurationError, match="keeps more than one kind of state; say store='left' or store='right'"
    ):
        ow.state(home, spark)


def test_state_of_ones_own_is_read_by_its_variables_from_wherever_it_was_moved_to(
    ran: Callable[[str], Ran], spark: SparkSession
) -> None:
    """E10: Spark names its schemas by whole paths; a savepoint is at another path and stays as it is."""
    job = ran("own").further()
    job.further()  # a second start has renamed the folder
    place = job.saved("elsewhere")
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    shutil.move(job.home, job.folder / "gone")
    total = ow.state(place, spark, store="total")
    assert {row["key"]["key"] for row in total.collect()} == {f"k{it}" for it in range(7)}
    assert ow.state(place, spark, store="seen").count() == 60
    assert ow.state(place, spark, store="thirds").columns == ["key", "user_map_key", "user_map_value", "partition_id"]
    assert ow.state(place, spark, store="timers").count() > 0
    with pytest.raises(ConfigurationError, match=r"has no state 'sum'; say store='seen' or .*store='timers'"):
        ow.state(place, spark, store="sum")
    assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == before


def test_what_there_is_not_is_told_with_what_there_is(
    ran: Callable[[str], Ran], spark: SparkSession, tmp_path: Path
) -> None:
    home = ran("deduplicated").further().home
    with pytest.raises(ConfigurationError, match=r"no stateful operator 3; there are: 0 \(dedupe\)"):
        ow.state(home, spark, operator=3)
    with pytest.raises(ConfigurationError, match="does not have the state of epoch 99; the newest finished epoch is 1"):
        ow.state(home, spark, epoch=99)
    with pytest.raises(ConfigurationError, match="neither the home of a pipeline nor a savepoint"):
        ow.state(tmp_path / "nothing", spark)
    shutil.rmtree(checkpoint_of(home) / "state")
    with pytest.raises(ConfigurationError, match="keeps no state"):
        ow.state(home, spark)


def test_two_savepoints_are_compared_key_by_key(
    ran: Callable[[str], Ran], spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E10: counts are complete, rows are few; the command tells the same."""
    job = ran("windowed").further(keys=5)
    a = job.saved("a")
    b = job.further(keys=8, rows=4).saved("b")
    [found] = diff(spark, a, b, limit=3)
    assert (found.operator, found.name, found.store) == (0, "stateStoreSave", "default")
    assert (found.added, found.removed, found.changed, found.same) == (2, 0, 2, 3)
    assert [it.kind for it in found.rows] == ["changed", "changed", "added"]
    changed = found.rows[0]
    assert json.loads(changed.key)["key"] == "k3"
    assert changed.before is not None
    assert changed.after is not None
    assert json.loads(changed.after)["count"] == json.loads(changed.before)["count"] + 1
    [back] = diff(spark, b, a)
    assert (back.added, back.removed, back.changed, back.same) == (0, 2, 2, 3)
    [same] = diff(spark, a, a)
    assert (same.added, same.removed, same.changed, same.same) == (0, 0, 0, 5)
    with pytest.raises(ConfigurationError, match="no stateful operator 2"):
        diff(spark, a, b, operator=2)
    monkeypatch.setattr("onceward.pipeline.session.session", lambda *_, **__: spark)
    monkeypatch.setattr("onceward.pipeline.session.end", lambda _: None)
    savepoint_diff.diff(str(a), str(b), limit=3)
    told = capsys.readouterr().out
    assert "operator 0 (stateStoreSave), default: 2 added, 0 removed, 2 changed, 3 the same" in told
    assert "and 1 more" in told
    savepoint_diff.diff(str(a), str(b), as_json=True)
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [it["added"] for it in facts["stores"]] == [2]


@pytest.mark.slow
def test_state_of_ones_own_is_compared_by_variable(ran: Callable[[str], Ran], spark: SparkSession) -> None:
    """E10: a list as a whole, a map by its own keys."""
    job = ran("own").further(keys=3, rows=6)
    a, b = job.saved("a"), job.further(keys=4, rows=1).saved("b")
    found = {it.store: it for it in diff(spark, a, b)}
    assert found.keys() == {"seen", "thirds", "timers", "total"}
    assert (found["total"].added, found["total"].changed, found["total"].same) == (1, 0, 3)
    [seen] = found["seen"].rows
    assert (seen.kind, seen.key, seen.after) == ("added", '{"key":"k3"}', '{"n":11}')
    assert json.loads(found["thirds"].rows[0].key) == {"key": {"key": "k3"}, "user_map_key": {"third": 2}}


def test_another_operator_under_the_same_number_is_gone_and_new(
    ran: Callable[[str], Ran], spark: SparkSession, tmp_path: Path
) -> None:
    """E10"""
    a = ran("windowed").further().saved("a")
    other = Ran(spark, tmp_path / "other", f"{tmp_path.name}-2", "deduplicated").further().saved("b")
    found: list[StoreDiff] = diff(spark, a, other)
    assert [(it.name, it.added > 0, it.removed > 0, it.changed) for it in found] == [
        ("dedupe", True, False, 0),
        ("stateStoreSave", False, True, 0),
    ]
