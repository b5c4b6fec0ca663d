"""A pipeline's state backend is its own: two of one session differ, and an existing home keeps its own."""

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home
from onceward.epoch.state_files import PROVIDER_CLASS, PROVIDERS
from onceward.errors import ConfigurationError
from onceward.pipeline.state import CHANGELOG, effective, settings_of
from pipeline.queries import deduplicated, feed, stream
from support.home import checkpoint_of


def start(spark: SparkSession, folder: Path, name: str, **options: Any) -> ow.Query:
    """What is in `folder/in`, without doubles, into files."""
    pipeline = ow.Pipeline(name, home=folder / name, source=deduplicated(stream(spark, folder / "in")), **options)
    return pipeline.to(ow.FileSink(folder / f"{name}-out", format="json")).start(trigger="once")


def settings(home: Path) -> dict[str, str]:
    return dict(Checkpoint.newest(Home.at(home)).settings(0))


def test_two_pipelines_of_one_session_keep_their_state_in_different_places(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """E2: settings are a query's own, also when both start at the same moment; the session keeps its own."""
    feed(tmp_path / "in", 0)
    before = {key: spark.conf.get(key) for key in (PROVIDER_CLASS, CHANGELOG)}
    failed: list[BaseException] = []

    def go(kind: str, state: ow.State | None) -> None:
        try:
            start(spark, tmp_path, f"{name}-{kind}", state=state).wait(120)
        except BaseException as error:  # noqa: BLE001 - told below, in the test's own thread
            failed.append(error)

    wanted = {"heap": ow.State("hashmap"), "full": ow.State(snapshots="full"), "plain": None}
    threads = [threading.Thread(target=go, args=item) for item in wanted.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {key: spark.conf.get(key) for key in (PROVIDER_CLASS, CHANGELOG)} == before
    homes = {kind: tmp_path / f"{name}-{kind}" for kind in wanted}
    providers = {kind: settings(home)[PROVIDER_CLASS] for kind, home in homes.items()}
    assert providers == {
        "heap": PROVIDERS["hashmap"],
        "full": PROVIDERS["rocksdb"],
        "plain": PROVIDERS["rocksdb"],
    }
    endings = {kind: {file.suffix for file in checkpoint_of(home).rglob("state/0/0/*")} for kind, home in homes.items()}
    assert ".delta" in endings["heap"]
    assert ".zip" in endings["full"]
    assert ".changelog" not in endings["full"]
    assert ".changelog" in endings["plain"]


def test_another_backend_on_an_existing_home_is_refused_before_anything_is_touched(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """E2: Spark would go on with the old one and say nothing."""
    feed(tmp_path / "in", 0)
    start(spark, tmp_path, name).wait(120)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / name).rglob("*")}
    with pytest.raises(
        ConfigurationError, match=r"'rocksdb'.*'hashmap'.*savepoint create .* --stop.* --from SAVEPOINT"
    ):
        start(spark, tmp_path, name, state=ow.State("hashmap"))
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / name).rglob("*")} == files
    feed(tmp_path / "in", 1)
    query = start(spark, tmp_path, name, state=ow.State("rocksdb", snapshots="full"))  # snapshots may change
    query.wait(120)
    assert query.epochs_committed > 0


def test_a_session_that_says_otherwise_is_respected(spark: SparkSession) -> None:
    with settings_of(spark, {PROVIDER_CLASS: PROVIDERS["hashmap"]}):
        assert effective(None, spark) == ("hashmap", "full")
        assert effective(ow.State(), spark) == ("rocksdb", "incremental")
    with settings_of(spark, {PROVIDER_CLASS: "com.example.Provider"}):
        assert effective(None, spark) == ("com.example.Provider", "full")
    assert effective(None, spark) == ("rocksdb", "incremental")


def test_what_a_state_can_be() -> None:
    """E3: the heap has full snapshots only, and the error says what to choose."""
    assert (ow.State().backend, ow.State().kind) == ("rocksdb", "incremental")
    assert ow.State("hashmap").kind == "full"
    assert ow.State(snapshots="full").settings()[CHANGELOG] == "false"
    assert CHANGELOG not in ow.State("hashmap").settings()
    with pytest.raises(ConfigurationError, match=r"no incremental snapshots.*ow\.State\('rocksdb'"):
        ow.State("hashmap", snapshots="incremental")
    with pytest.raises(ConfigurationError, match="choose 'rocksdb' or 'hashmap'"):
        ow.State("heap")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="choose 'incremental' or 'full'"):
        ow.State(snapshots="some")  # type: ignore[arg-type]
