"""A full disk, a read-only one, and processes that die in the middle of a write: real ones."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import SinkUnreachable, TargetUnusable

ROOT = os.geteuid() == 0
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Disk:
    """A place with an end to it. `ways` are those on which the end is met: the driver, and tasks too."""

    path: Path
    make_room: Callable[[], None]
    ways: tuple[int | None, ...]


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    """For root a file system of one megabyte; for others a limit on the size of this process's files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with ExitStack() as undo:
        if ROOT:
            mount("-t", "tmpfs", "-o", "size=1m", "none", str(disk))
            undo.callback(subprocess.run, ["umount", "-l", str(disk)], check=True)
            yield Disk(disk, lambda: mount("-o", "remount,size=64m", str(disk)), (1, None))
        else:
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            undo.callback(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
            resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE // 4, limits[1]))
            yield Disk(disk, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits), (1,))


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None], Callable[[], None]]]:
    """A directory, and how to forbid and allow writing to it; rights do not bind root, so a mount for root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with ExitStack() as undo:
        if ROOT:
            mount("-t", "tmpfs", "-o", "size=64m", "none", str(disk))
            undo.callback(subprocess.run, ["umount", "-l", str(disk)], check=True)
            yield disk, lambda: mount("-o", "remount,ro", str(disk)), lambda: mount("-o", "remount,rw", str(disk))
        else:
            places = [disk / "out", disk / ".out.onceward", disk]
            undo.callback(lambda: [place.chmod(0o755) for place in places if place.exists()])
            yield (
                disk,
                lambda: [place.chmod(0o555) for place in places if place.exists()] and None,
                lambda: [place.chmod(0o755) for place in reversed(places) if place.exists()] and None,
            )


@pytest.mark.parametrize("options", [{"compression": "none"}, {"format": "json"}, {"format": "csv"}])
def test_a_full_disk_is_named_and_the_epoch_redone_once_there_is_room(
    rehearse: Any, small_disk: Disk, options: dict[str, Any]
) -> None:
    target = small_disk.path / "out"
    rehearsal = rehearse(target, **options)
    process = rehearsal.start()
    large = rehearsal.frame(range(20_000)).selectExpr("id", "sha2(cast(id as string), 512) as text")
    for attempt, input_rows in enumerate(small_disk.ways, start=1):
        context = process.begin(0, attempt=attempt, input_rows=input_rows)
        with pytest.raises(SinkUnreachable, match=rf"cannot write into {small_disk.path}.*Make room there"):
            process.write(context, large)
        process.abort(0, attempt=attempt)
        assert list(target.iterdir()) == []
        assert list((small_disk.path / ".out.onceward").glob("*-*")) == []
    small_disk.make_room()
    context = process.begin(0, attempt=5)
    outcome = process.write(context, large)
    assert outcome.rows == 20_000
    process.publish(process.pre_commit(context, outcome, ()))
    assert len(list(target.rglob("part-*"))) >= 1
    process.expect_last_commit(0)


def test_a_read_only_place_is_refused_at_the_start(
    rehearse: Any, read_only: tuple[Path, Callable[[], None], Callable[[], None]]
) -> None:
    disk, forbid, allow = read_only
    rehearsal = rehearse(disk / "out")
    forbid()
    with pytest.raises(TargetUnusable, match=rf"cannot make the directory {disk}/out: (Read-only|Permission)"):
        rehearsal.start()
    allow()
    rehearsal.start().run(0, range(10))
    forbid()
    with pytest.raises(TargetUnusable, match=rf"{disk}.*must be writable"):
        rehearsal.start()
    allow()
    rehearsal.start().expect_last_commit(0)


def test_a_place_that_turns_read_only_stops_the_write_and_delays_the_commit(
    rehearse: Any, read_only: tuple[Path, Callable[[], None], Callable[[], None]]
) -> None:
    """Before the decision a person is needed; after it the commit is repeated until it works (requirement B5)."""
    disk, forbid, allow = read_only
    rehearsal = rehearse(disk / "out")
    process = rehearsal.start()
    prepared = process.prepare(0, range(10))
    forbid()
    with pytest.raises(SinkUnreachable, match=rf"cannot publish an epoch in {disk}/out"):
        process.commit(prepared)
    with pytest.raises(TargetUnusable, match=rf"cannot write into {disk}"):
        process.begin(1)
    allow()
    process.commit(prepared)
    rehearsal.expect_visible(range(10), when="after the place could be written again")


SCRIPT = """
import sys
import onceward as ow
from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.sinks.files import FileSink

target, pipeline, lineage, input_rows = sys.argv[1:]
spark = ow.session("killed", master="local[2,4]")
sink = FileSink(target, partition_by="bucket")
sink.open(Owner(pipeline=pipeline, lineage=lineage, term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="kit"))
context = EpochContext(epoch=0, input_rows=int(input_rows) or None)
sink.begin(context)
outcome = sink.write(context, spark.range(0, 1000, 1, 2).selectExpr("id", "id % 3 as bucket"))
sink.commit(context, sink.pre_commit(context, outcome))
print("rows", outcome.rows)
spark.stop()
"""


def run_script(rehearsal: Any, target: Path, input_rows: int, **crash: str) -> subprocess.CompletedProcess[str]:
    names = {f"ONCEWARD_CRASH_{name.upper()}": value for name, value in crash.items()}
    rehearsal.term = 1  # the script's
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(target), rehearsal.pipeline, rehearsal.lineage, str(input_rows)],
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


def test_a_driver_killed_in_the_middle_of_its_files_leaves_nothing(rehearse: Any, target: Path, staging: Path) -> None:
    """Requirement B4, with a real SIGKILL."""
    rehearsal = rehearse(partition_by="bucket")
    run = run_script(rehearsal, target, 1000, at="writing@0")
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert len(list(staging.rglob("part-*"))) == 3  # it was in the middle of something
    heir = rehearsal.start()
    assert heir.last_commit() is None
    heir.abort(0)
    rehearsal.expect_visible(when="after the kill")
    rehearsal.expect_nothing_staged("after the kill and an abort")


def test_a_worker_killed_in_the_middle_of_its_files_adds_nothing(rehearse: Any, target: Path, tmp_path: Path) -> None:
    """Spark runs the task again; what the first one wrote is not reported and not published."""
    rehearsal = rehearse(partition_by="bucket")
    run = run_script(rehearsal, target, 0, at="task-writing@0", once=str(tmp_path / "once"))
    assert (run.returncode, run.stdout.splitlines()) == (0, ["rows 1000"]), run.stderr
    assert (tmp_path / "once").exists()
    rehearsal.expect_visible(range(1000), when="after a worker was killed")
    rehearsal.expect_nothing_staged("after a worker was killed")
