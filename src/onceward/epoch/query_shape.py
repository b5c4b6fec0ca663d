"""What a savepoint has to know of a query, so that another query can be told apart from it before anything is touched.

Noted in the checkpoint by whoever knows the engine (`onceward.pipeline.shape`), and compared at every start.
"""

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final

import msgspec

from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage

FORMAT: Final = 1
FILE: Final = "query.json"


class OperatorShape(msgspec.Struct, frozen=True, kw_only=True):
    """A stateful operator: what it is, what it is keyed by, and what it keeps; in the engine's words."""

    name: str
    keys: list[str] = []
    details: list[str] = []


class QueryShape(msgspec.Struct, frozen=True, kw_only=True):
    """A query as far as its state depends on it."""

    format: int = FORMAT
    sources: list[str] = []
    operators: list[OperatorShape] = []  # in the engine's order, which numbers their state
    output: list[str] = []  # columns with their types
    output_mode: str = ""
    backend: str = "rocksdb"
    snapshots: str = "incremental"


def read(data: bytes | None) -> QueryShape | None:
    """What the last query that ran has said; None: none has."""
    return unseal(data, QueryShape, FILE, FORMAT) if data is not None else None


def write(notes: Storage, shape: QueryShape) -> None:
    """In a checkpoint that is ours, before the first epoch of a query is committed; most starts do not change it."""
    if notes.read(FILE) != seal(shape):
        notes.replace(FILE, seal(shape))
    else:
        notes.sync(FILE)  # whoever wrote it may have been stopped before it was synced


def differences(was: QueryShape, now: QueryShape) -> list[str]:
    """Why the state of one query cannot be that of another, in words; empty: it can be.

    Columns that come out do not count, nor does the backend: state can be carried over to another.
    """
    told = list(_sources(was.sources, now.sources))
    matcher = SequenceMatcher(
        None, [it.name for it in was.operators], [it.name for it in now.operators], autojunk=False
    )
    for _, before, until, at, to in matcher.get_opcodes():
        pairs = zip_longest(range(before, until), range(at, to))
        for old, new in pairs:
            if new is None:
                told.append(f"operator {old}, {_told(was.operators[old])}, is missing")
            elif old is None:
                told.append(f"there is an additional operator {new}, {_told(now.operators[new])}")
            else:
                told += _operators(old, was.operators[old], now.operators[new])
    if (was.operators or now.operators) and was.output_mode != now.output_mode:
        told.append(f"the output mode was {was.output_mode}, now {now.output_mode}: other rows would come out again")
    return told


def _sources(was: list[str], now: list[str]) -> Iterator[str]:
    for number, (before, after) in enumerate(zip_longest(was, now)):
        if before is None:
            yield f"there is an additional source {number}, {after}"
        elif after is None:
            yield f"source {number}, {before}, is missing"
        elif not _covers(before, after):
            yield f"source {number} was {before}, now {after}"


def _covers(before: str, after: str) -> bool:
    """A source that reads more topics than before goes on where it was in the others."""
    kind, _, topics = before.partition("subscribe=")
    kind_now, _, topics_now = after.partition("subscribe=")
    return kind == kind_now and set(topics.split(",")) <= set(topics_now.split(","))


def _operators(number: int, was: OperatorShape, now: OperatorShape) -> Iterator[str]:
    if was.name != now.name:
        yield f"operator {number} was {_told(was)}, now {_told(now)}"
        return
    names = [[key.split(" ", 1)[0] for key in shape.keys] for shape in (was, now)]
    if names[0] != names[1]:
        yield f"operator {number} was {_told(was)}, now {_told(now)}"
    else:
        for before, after in zip(was.keys, now.keys, strict=True):
            if before != after:
                yield f"a key of operator {number}, {was.name}, was {before}, now {after}"
    gone = [it for it in was.details if it not in now.details]
    new = [it for it in now.details if it not in was.details]
    if gone or new:
        yield f"operator {number}, {was.name}, had {'; '.join(gone) or 'nothing else'}, now {'; '.join(new) or 'not'}"
    elif was.details != now.details:
        yield f"operator {number}, {was.name}, keeps the same in another order: {'; '.join(now.details)}"


def _told(operator: OperatorShape) -> str:
    return f"{operator.name} by {', '.join(operator.keys)}" if operator.keys else operator.name
