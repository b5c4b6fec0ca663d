"""`home="memory:"`: for tests, gone with the process."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.home import IN_MEMORY, is_in_memory, parse_home
from onceward.epoch.sealed import seal
from onceward.errors import ConfigurationError
from onceward.holding import this_process
from onceward.pipeline.in_memory import OWNER, SHARED_MEMORY, place_of
from pipeline.queries import deduplicated, feed, stream

MAKE = """
import sys
from pathlib import Path
from onceward.pipeline import in_memory
in_memory.SHARED_MEMORY = Path(sys.argv[1])
place = in_memory.place_of("memory:", "p")
print(place, flush=True)
Path(place).mkdir()
if sys.argv[2] == "killed":
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


def made(parent: Path, how: str) -> Path:
    told = subprocess.run(
        [sys.executable, "-c", MAKE, str(parent), how], capture_output=True, text=True, check=False, timeout=60
    )
    return Path(told.stdout.strip())


def test_a_pipeline_in_memory_goes_on_within_its_process(spark: SparkSession, name: str, tmp_path: Path) -> None:
    """E4: two starts, one home; another pipeline has its own."""
    counts = []
    for number in range(2):
        feed(tmp_path / "in", number)
        source = deduplicated(stream(spark, tmp_path / "in"))
        pipeline = ow.Pipeline(name, home="memory:", source=source).to(ow.FileSink(tmp_path / "out", format="json"))
        query = pipeline.start(trigger="once")
        query.wait(120)
        counts.append(query.epochs_committed)
    assert counts == [2, 2]  # one that moves time on, each time
    home = Path(place_of("memory:", name))
    assert (home / "pipeline.json").exists()
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    assert home.parent.name.startswith(f"{IN_MEMORY}{os.getpid()}-")
    assert is_in_memory(home)
    pipeline.rename("another")
    assert place_of(pipeline.home, pipeline.name) == home.parent / "another"
    assert place_of(tmp_path, name) == tmp_path
    assert not is_in_memory(tmp_path)
    assert home.is_relative_to(SHARED_MEMORY) or not SHARED_MEMORY.is_dir()


def test_it_is_gone_with_its_process_and_the_next_one_clears_up_after_a_kill(tmp_path: Path) -> None:
    """E4: what lives, and what is not of this user or has no owner's note, is left alone."""
    assert not made(tmp_path, "ended").parent.exists()
    killed = made(tmp_path, "killed").parent
    assert killed.exists()
    (tmp_path / f"{IN_MEMORY}1-foreign").mkdir()
    (tmp_path / f"{IN_MEMORY}2-link").symlink_to(tmp_path)
    living = tmp_path / f"{IN_MEMORY}{os.getpid()}-mine"
    living.mkdir()
    (living / OWNER).write_bytes(seal(this_process("memory:", 0)))
    made(tmp_path, "ended")
    assert sorted(it.name for it in tmp_path.iterdir()) == sorted(
        [f"{IN_MEMORY}1-foreign", f"{IN_MEMORY}2-link", living.name]
    )


def test_without_shared_memory_it_is_in_the_temporary_folder(tmp_path: Path) -> None:
    assert not made(tmp_path / "none", "ended").is_relative_to(SHARED_MEMORY)


def test_nobody_else_can_name_it() -> None:
    with pytest.raises(ConfigurationError, match="gone with it: it is for tests"):
        parse_home("memory:")
