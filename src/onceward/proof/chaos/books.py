"""What the job writes down about itself, collected while it runs: both Spark and we forget old epochs.

Read as plain files, beside the code that wrote them: Spark's offset and commit logs, and our ledger.
"""

import json
import re
from pathlib import Path
from typing import Final

from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home
from onceward.epoch.inspection import epochs
from onceward.epoch.ledger import RETAIN, Entry
from onceward.errors import OncewardError
from onceward.proof.history import Place

HOMES: Final = "homes.json"  # the job writes there where its pipelines live
_NUMBER: Final = re.compile(r"\d+")


class Books:
    """The logs and the ledger of one home, as they were seen so far."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.planned: dict[int, dict[Place, int]] = {}
        self.changed: list[str] = []  # a plan that is not what it was: Spark must run an epoch as it was planned
        self.ledger: dict[int, Entry] = {}
        self.starts: dict[int, terms.Start] = {}

    def last_commit(self) -> int:
        """The last epoch that Spark has finished; -1 if there is none."""
        return max(_numbers(self._checkpoint() / "commits"), default=-1)

    def look(self) -> None:
        """Note the plans that are new."""
        folder = self._checkpoint() / "offsets"
        for epoch in _numbers(folder):
            if epoch not in self.planned or epoch >= max(self.planned):
                self._note(epoch, folder / str(epoch))

    def read_closely(self) -> None:
        """Note plans, ledger and starts. Only while no driver is at work: it may be tidying up."""
        self.look()
        home = Home.at(self.home)
        try:
            self.ledger |= {entry.epoch: entry for entry in epochs(home, RETAIN)}
            self.starts |= {start.term: start for start in terms.starts(home.storage)}
        except OncewardError as error:
            if self.ledger:
                self.changed.append(f"the home cannot be read any more: {error}")

    def ends(self) -> dict[Place, int]:
        """Where the last planned epoch ends."""
        return self.planned[max(self.planned)] if self.planned else {}

    def _checkpoint(self) -> Path:
        """Spark's folder of the newest driver; while a start takes it along, what is looked for may be gone."""
        return self.home / Checkpoint.newest(Home.at(self.home)).folder

    def _note(self, epoch: int, file: Path) -> None:
        try:
            lines = file.read_text("utf-8").splitlines()
        except OSError:
            return  # being written, or tidied up
        places: dict[Place, int] = {}
        for line in lines[2:]:  # after the version and the metadata, a line for each source
            for topic, offsets in (json.loads(line) if line.startswith("{") else {}).items():
                places |= {(topic, int(number)): end for number, end in offsets.items()}
        known = self.planned.setdefault(epoch, places)
        if known != places:
            self.changed.append(f"epoch {epoch} was planned up to {known}, later up to {places}")


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(it.name) for it in folder.iterdir() if _NUMBER.fullmatch(it.name)]
    except OSError:
        return []


def homes_of(folder: Path) -> list[Path]:
    """The homes of a job's pipelines, as it has told; none before its first start."""
    try:
        return [Path(home) for home in json.loads((folder / HOMES).read_text())]
    except (OSError, ValueError):
        return []
