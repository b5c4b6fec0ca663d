"""Where Spark's part of a home is: each term has a folder of its own."""

from pathlib import Path

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home


def checkpoint_of(home: Path) -> Path:
    """The folder of the newest driver."""
    return home / Checkpoint.newest(Home.at(home)).folder
