"""Where the file sink may write, and what it says where it may not."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.epoch.contract import Guarantee, Owner
from onceward.errors import ConfigurationError, TargetUnusable
from onceward.sinks.files import FileSink

OWNER = Owner(pipeline="p", lineage="0" * 32, term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="files")


@pytest.mark.parametrize("uri", ["s3://bucket/x", "s3a://b/x", "gs://b/x", "abfss://c@a.dfs.core.windows.net/x"])
def test_object_stores_are_refused_with_what_to_use_instead(uri: str) -> None:
    with pytest.raises(TargetUnusable, match=r"cannot rename a directory in one step.*ow\.DeltaSink"):
        FileSink(uri)


def test_hdfs_is_refused_with_words_of_its_own() -> None:
    with pytest.raises(TargetUnusable, match="does not speak HDFS"):
        FileSink("hdfs://namenode:8020/x")


@pytest.mark.parametrize("uri", ["file:{path}", "file://{path}", "file://localhost{path}", "FILE://{path}"])
def test_file_uris_are_paths(tmp_path: Path, uri: str) -> None:
    assert FileSink(uri.format(path=f"{tmp_path}/a%20b")).path == tmp_path.resolve() / "a b"


def test_a_file_uri_of_another_machine_is_refused() -> None:
    with pytest.raises(TargetUnusable, match="names the machine 'elsewhere'"):
        FileSink("file://elsewhere/x")


def test_detours_and_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert FileSink(tmp_path / "x" / ".." / "y").path == tmp_path.resolve() / "y"
    sink = FileSink(tmp_path / "link")
    assert sink.path == tmp_path.resolve() / "real"
    assert sink.staging == tmp_path.resolve() / ".real.onceward"


def test_a_relative_path_is_one_of_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert FileSink("out").path == tmp_path.resolve() / "out"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "path is empty"),
        ({"path": "/"}, "root of the file system"),
        ({"path": "/data/out", "staging": "/data/out"}, "holds the target"),
        ({"path": "/data/out", "staging": "/data"}, "holds the target"),
        ({"path": "/data/out", "staging": "/data/out/staging"}, "where readers would see it"),
        ({"path": "/data/out", "staging": "s3://b/x"}, "staging='s3://b/x'"),
        ({"path": "x", "format": "orc"}, "format 'orc'"),
        ({"path": "x", "compression": "brotli"}, "compression 'brotli' is not known for parquet"),
        ({"path": "x", "format": "json", "compression": "zstd"}, "choose one of none, gzip"),
        ({"path": "x", "partition_by": ("a", "A")}, "name a column twice"),
        ({"path": "x", "partition_by": "epoch"}, "name a column twice"),
        ({"path": "x", "partition_by": "_day"}, "pass over names"),
        ({"path": "x", "epoch_column": ""}, "pass over names"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        FileSink(**options)


def test_opening_makes_the_directories_and_leaves_no_trace_of_its_trial(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "deep" / "down" / "out")
    sink.open(OWNER)
    assert list(sink.path.iterdir()) == []
    assert sorted(entry.name for entry in sink.staging.iterdir()) == ["committed", "owner.json"]


def test_what_a_start_left_that_died_in_its_trial_is_cleared_away(tmp_path: Path) -> None:
    for left in (tmp_path / "out" / ".onceward-probe-1", tmp_path / ".out.onceward" / "trash-1"):
        left.mkdir(parents=True)
    FileSink(tmp_path / "out").open(OWNER)
    assert list((tmp_path / "out").iterdir()) == []
    assert sorted(entry.name for entry in (tmp_path / ".out.onceward").iterdir()) == ["committed", "owner.json"]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(TargetUnusable, match="is a file, not a directory"):
        FileSink(tmp_path / "out").open(OWNER)


@pytest.mark.parametrize("name", ["part-00000.parquet", "country=DE", "README.txt"])
def test_a_directory_with_other_data_is_refused(tmp_path: Path, name: str) -> None:
    """Spark passes over plain files beside `epoch=…` without a word: what was there would vanish for its readers."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).touch()
    with pytest.raises(TargetUnusable, match=f"already holds '{name}'"):
        FileSink(tmp_path / "out").open(OWNER)


def test_a_delta_table_is_refused_with_its_own_sink(tmp_path: Path) -> None:
    (tmp_path / "out" / "_delta_log").mkdir(parents=True)
    with pytest.raises(TargetUnusable, match=r"write to it with ow\.DeltaSink"):
        FileSink(tmp_path / "out").open(OWNER)


def test_hidden_files_and_other_epochs_are_no_obstacle(tmp_path: Path) -> None:
    for name in (".crc", "_SUCCESS", "epoch=000000000001-ffffffff"):
        (tmp_path / "out" / name).mkdir(parents=True)
    FileSink(tmp_path / "out").open(OWNER)


def test_staging_inside_the_target_is_fine_where_readers_do_not_look(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "out", staging=tmp_path / "out" / ".onceward")
    sink.open(OWNER)
    sink.open(OWNER)  # and is no foreign data


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory in another file system."""
    place = Path("/dev/shm") / f"onceward-{uuid.uuid4().hex}"
    place.mkdir()
    assert os.stat(place).st_dev != os.stat(tmp_path).st_dev  # noqa: PTH116 - the device is what counts
    yield place
    for entry in sorted(place.rglob("*"), reverse=True):
        entry.rmdir() if entry.is_dir() else entry.unlink()
    place.rmdir()


def test_staging_in_another_file_system_is_refused(tmp_path: Path, elsewhere: Path) -> None:
    with pytest.raises(TargetUnusable, match="must be in the same file system and the same mount"):
        FileSink(tmp_path / "out", staging=elsewhere / "staging").open(OWNER)
    assert list((elsewhere / "staging").iterdir()) == []


@pytest.mark.parametrize("other", [{"pipeline": "q"}, {"sink": "others"}])
def test_a_target_belongs_to_one_pipeline_and_sink(tmp_path: Path, other: dict[str, str]) -> None:
    FileSink(tmp_path / "out").open(OWNER)
    FileSink(tmp_path / "out").open(OWNER)
    pipeline, sink = other.get("pipeline", OWNER.pipeline), other.get("sink", OWNER.sink)
    foreign = Owner(lineage=OWNER.lineage, term=1, guarantee=OWNER.guarantee, pipeline=pipeline, sink=sink)
    with pytest.raises(TargetUnusable, match=r"belongs to sink 'files' of pipeline 'p'.*a path of its own"):
        FileSink(tmp_path / "out").open(foreign)


def test_the_sink_says_what_it_is(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "out", format="csv", partition_by="day")
    assert repr(sink) == f"FileSink('{tmp_path.resolve()}/out', format='csv')"
    assert FileSink(**sink.describe()).describe() == sink.describe()
