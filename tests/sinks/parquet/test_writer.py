"""Rows into files, with bounded memory; only what is reported counts."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from onceward.epoch.outcome import Outcome
from onceward.errors import InvalidRows
from onceward.sinks.delta.layout import DeltaLayout
from onceward.sinks.parquet import writer
from onceward.sinks.parquet.staging import Place, StagedFile
from onceward.sinks.parquet.writer import WriteFiles, collected
from onceward.sinks.rows import HASH

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int64())])


def work(root: Path, partition_by: tuple[str, ...] = ()) -> WriteFiles:
    place = Place(fs.LocalFileSystem(), str(root))
    names = ("id", "part")
    return WriteFiles(place=place, prefix="staged/1-1-", epoch=0, names=names, layout=DeltaLayout(SCHEMA, partition_by))


def batches(count: int, rows: int = 100, parts: int = 1) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        ids = list(range(number * rows, (number + 1) * rows))
        columns = [pa.array(values, pa.int64()) for values in (ids, [id_ % parts for id_ in ids], ids)]
        yield pa.RecordBatch.from_arrays(columns, names=["a", "b", HASH])  # other names: they are put right


def run(root: Path, data: Iterator[pa.RecordBatch], **options: tuple[str, ...]) -> tuple[Outcome, list[StagedFile]]:
    return collected(list(work(root, **options)(data)))


def ids_in(root: Path, files: list[StagedFile]) -> list[int]:
    return sorted(id_ for file in files for id_ in pq.read_table(root / file.name)["id"].to_pylist())


def test_a_report_counts_rows_and_names_files(tmp_path: Path) -> None:
    outcome, files = run(tmp_path, batches(3))
    assert outcome == Outcome(rows=300, digest=sum(range(300)))
    assert [file.rows for file in files] == [300]
    assert [file.size for file in files] == [(tmp_path / file.name).stat().st_size for file in files]
    assert ids_in(tmp_path, files) == list(range(300))


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert run(tmp_path, iter([])) == (Outcome(), [])
    assert run(tmp_path, batches(1, rows=0)) == (Outcome(), [])
    assert list(tmp_path.iterdir()) == []


def test_a_large_file_is_closed_and_another_one_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", 2000)
    monkeypatch.setattr(writer, "FILE_BYTES", 1000)
    _, files = run(tmp_path, batches(20))
    assert len(files) > 2
    assert ids_in(tmp_path, files) == list(range(2000))
    assert pq.read_metadata(tmp_path / files[0].name).num_row_groups > 1


def test_a_task_holds_a_bounded_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many partitions with little each: the fullest are written before they are whole row groups."""
    monkeypatch.setattr(writer, "BUFFER_BYTES", 10_000)
    files = writer._Files(work(tmp_path, ("part",)))
    for batch in batches(20, parts=7):
        files.add(batch.drop_columns([HASH]).rename_columns(["id", "part"]))
        assert sum(file.waiting_bytes for file in files._open.values()) <= 10_000
    finished = files.finish()
    assert len(finished) == 7
    assert ids_in(tmp_path, finished) == list(range(2000))


def test_a_task_holds_a_bounded_number_of_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "OPEN_FILES", 5)
    outcome, files = run(tmp_path, batches(3, parts=30), partition_by=("part",))
    assert outcome.rows == 300
    assert {file.partition[0] for file in files} == {str(part) for part in range(30)}
    assert ids_in(tmp_path, files) == list(range(300))
    for file in files:
        assert {id_ % 30 for id_ in ids_in(tmp_path, [file])} == {int(file.partition[0] or "")}


def test_a_failed_try_takes_its_files_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(2)
        assert list((tmp_path / "staged").iterdir())
        raise InvalidRows("on purpose")

    with pytest.raises(InvalidRows):
        run(tmp_path, failing())
    assert list((tmp_path / "staged").iterdir()) == []


def test_two_tries_never_share_a_file(tmp_path: Path) -> None:
    first, second = run(tmp_path, batches(1))[1], run(tmp_path, batches(1))[1]
    assert {file.name for file in first}.isdisjoint(file.name for file in second)


CRASHING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_writer import batches, run
run(Path(sys.argv[1]), batches(3))
"""


def test_a_crash_point_stops_a_write_with_something_written(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", CRASHING, str(tmp_path), str(Path(__file__).parent)],
        env={**os.environ, "ONCEWARD_CRASH_AT": "writing@0"},
        check=False,
    )
    assert process.returncode == -9
    assert len(list((tmp_path / "staged").iterdir())) == 1
