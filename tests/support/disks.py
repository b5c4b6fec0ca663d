"""A small disk of a test's own, which can be filled to the last byte."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

BLOCK = 1 << 12


@dataclass(frozen=True)
class Disk:
    path: Path

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def fill(self) -> None:
        """Not a byte is left: whoever writes next is told ENOSPC."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (BLOCK << 4, BLOCK, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        assert os.statvfs(self.path).f_bavail == 0

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Disk]:
    """A file system in memory; skips where nobody may mount one, as in most containers."""
    path.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(path)]
    tried = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no disk can be mounted here (it needs root): {tried.stderr.strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
