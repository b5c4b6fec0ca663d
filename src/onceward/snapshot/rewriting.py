"""A savepoint of a snapshot, with other topics and positions: what a copy's pipeline begins with."""

import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from onceward.epoch import query_shape
from onceward.epoch.checkpoint import NOTES, as_text, offsets_of
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import FILE as SOURCES
from onceward.errors import SnapshotDamaged
from onceward.savepoint.manifest import CHECKPOINT, FILE, FileFacts, Savepoint
from onceward.savepoint.place import Place
from onceward.snapshot.manifest import checksum

Positions = Mapping[TopicPartition, Mapping[int, int]]  # where a position in a topic is in the copy's
_SUBSCRIBE: Final = "subscribe="


def rewrite(
    place: Place, savepoint: Savepoint, target: Path, *, renamed: Callable[[str], str], positions: Positions
) -> Place:
    """Another savepoint, of the same epoch and state, that reads the copy's topics."""
    shutil.copytree(place.location, target)
    logs, sources = f"{CHECKPOINT}/offsets/", f"{CHECKPOINT}/sources/"
    shape_note, source_note = f"{CHECKPOINT}/{NOTES}/{query_shape.FILE}", f"{CHECKPOINT}/{NOTES}/{SOURCES}"
    written = {}
    for name in savepoint.files:
        if name.startswith((logs, sources)):
            lines = (target / name).read_bytes().decode("utf-8").splitlines(keepends=True)
            is_past = name == f"{logs}{savepoint.epoch - 1}" or name.startswith(sources)
            written[name] = "".join(_line(it, renamed, positions, is_past=is_past) for it in lines).encode()
    plan = written[f"{logs}{savepoint.epoch}"].decode()
    entry = msgspec.structs.replace(savepoint.entry, plan=plan, positions=plan.splitlines()[2:])
    told = [_source(source, renamed) for source in savepoint.shape.sources]
    shape = msgspec.structs.replace(savepoint.shape, sources=told)
    files = {name: facts for name, facts in savepoint.files.items() if name != source_note}
    (target / source_note).unlink(missing_ok=True)  # the copy's topics have other ids, which its start notes
    if shape_note in files:
        written[shape_note] = seal(shape)
    for name, data in written.items():
        (target / name).write_bytes(data)
        files[name] = FileFacts(size=len(data), sha256=checksum(data))
    made = msgspec.structs.replace(savepoint, id=uuid.uuid4().hex, entry=entry, shape=shape, files=files)
    (target / FILE).write_bytes(seal(made))
    return Place.at(target)


def _line(line: str, renamed: Callable[[str], str], positions: Positions, *, is_past: bool) -> str:
    """Of an entry of Spark's, where those with a Kafka source's offsets are JSON by topic and partition."""
    found, offsets = {}, offsets_of(line)
    for place, offset in offsets.items():
        there, at = TopicPartition(renamed(place.topic), place.partition), offset
        if there != place and is_past:  # never read again, and not before the copy's topic begins
            at = min(positions.get(place, {0: 0}).values())
        elif there != place:
            if offset not in positions.get(place, {}):
                raise SnapshotDamaged(f"where {place} at {offset} is in the copy's topic is not known")
            at = positions[place][offset]
        found[there] = at
    return line if found == offsets else as_text(found) + line[len(line.rstrip("\n")) :]


def _source(source: str, renamed: Callable[[str], str]) -> str:
    kind, _, told = source.partition(_SUBSCRIBE)
    if not told:
        return source
    return f"{kind}{_SUBSCRIBE}{','.join(sorted(renamed(topic) for topic in told.split(',')))}"
