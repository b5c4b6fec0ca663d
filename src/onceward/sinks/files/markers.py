"""What was published last, kept apart from the published data, so that people may archive or delete that.

One small file for each lineage, named by its epoch and never changed: a paused driver that wakes adds an old name
again, and the highest one counts. Lineages follow each other by generation, given at a lineage's first commit.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from onceward.epoch.sealed import seal, unseal
from onceward.sinks.files.staging import Staging, names_in

FORMAT: Final = 1
FOLDER: Final = "committed"
_NAME: Final = re.compile(r"(\d+)-(\d+)-(.+)\.json")


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The last published epoch of a lineage."""

    format: int = FORMAT
    pipeline: str
    sink: str
    generation: int = 0
    lineage: str
    epoch: int
    term: int
    rows: int
    digest: int

    @property
    def name(self) -> str:
        return f"{FOLDER}/{self.generation:06d}-{self.epoch:012d}-{self.lineage}.json"


def newest(staging: Staging, lineage: str | None = None) -> Marker | None:
    """The newest marker of a lineage, or of all."""
    names = [name for name in _names(staging.root) if lineage is None or name[2] == lineage]
    for generation, epoch, found in sorted(names, reverse=True):
        name = f"{FOLDER}/{generation:06d}-{epoch:012d}-{found}.json"
        try:
            data = (staging.root / name).read_bytes()
        except FileNotFoundError:  # a newer one has just taken its place
            return newest(staging, lineage)
        return unseal(data, Marker, f"{staging.root}/{name}", FORMAT)
    return None


def highest_epoch(staging: Staging, lineage: str) -> int | None:
    """The last published epoch of a lineage."""
    return max((epoch for _, epoch, found in _names(staging.root) if found == lineage), default=None)


def record(staging: Staging, marker: Marker) -> None:
    """Make it last, then forget the lineage's older ones."""
    names = _names(staging.root)
    own = [generation for generation, _, lineage in names if lineage == marker.lineage]
    generation = max(own) if own else max((generation for generation, _, _ in names), default=0) + 1
    marker = msgspec.structs.replace(marker, generation=generation)
    staging.put(marker.name, seal(marker))
    for older, epoch, lineage in names:
        if lineage == marker.lineage and epoch < marker.epoch:
            (staging.root / FOLDER / f"{older:06d}-{epoch:012d}-{lineage}.json").unlink(missing_ok=True)


def _names(root: Path) -> list[tuple[int, int, str]]:
    found = [parsed for name in names_in(root / FOLDER) if (parsed := _NAME.fullmatch(name))]
    return [(int(parsed[1]), int(parsed[2]), parsed[3]) for parsed in found]
