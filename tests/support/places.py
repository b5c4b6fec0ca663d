"""Places where no home can be, each in the way that systems make one useless."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NOBODY: Final = 65534


@contextmanager
def a_file(folder: Path) -> Iterator[Path]:
    (folder / "file").touch()
    yield folder / "file"


@contextmanager
def below_a_file(folder: Path) -> Iterator[Path]:
    (folder / "file").touch()
    yield folder / "file" / "home"


@contextmanager
def a_link_to_nothing(folder: Path) -> Iterator[Path]:
    (folder / "link").symlink_to(folder / "nowhere")
    yield folder / "link"


@contextmanager
def too_long_a_name(folder: Path) -> Iterator[Path]:
    yield folder / ("x" * 300)


@contextmanager
def without_rights(folder: Path) -> Iterator[Path]:
    """Root has them all, so that it is somebody else meanwhile."""
    closed = folder / "closed"
    closed.mkdir(mode=0)
    as_root = os.geteuid() == 0
    if as_root:
        os.seteuid(NOBODY)
    try:
        yield closed / "home"
    finally:
        if as_root:
            os.seteuid(0)
        closed.chmod(0o700)


USELESS: Final[list[Callable[[Path], object]]] = [
    a_file, below_a_file, a_link_to_nothing, too_long_a_name, without_rights,
]  # fmt: skip
