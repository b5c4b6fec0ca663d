"""Names of topics while a file's pipelines are built as a copy of others (`onceward snapshot restore --as PREFIX`).

The file is the same and says the same names. What the copy's pipelines write goes to topics of the copy's own, and they
read what they write from there; what nobody among them writes, they read where the originals do. Rows show the names
of the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Copy:
    """`topics`: those that the original pipelines write."""

    prefix: str
    topics: frozenset[str]

    def name(self, topic: str) -> str:
        """Of a topic that the copy writes."""
        return f"{self.prefix}-{topic}"

    def source(self, topic: str) -> str:
        """Of a topic that the copy reads."""
        return self.name(topic) if topic in self.topics else topic


_current: ContextVar[Copy | None] = ContextVar("onceward_copy", default=None)


def current() -> Copy | None:
    """The copy that is being built, if one is."""
    return _current.get()


@contextmanager
def building(copy: Copy | None) -> Iterator[None]:
    """Pipelines that are made meanwhile are those of the copy."""
    before = _current.set(copy)
    try:
        yield
    finally:
        _current.reset(before)


def topic(name: str) -> str:
    """The name of a topic to read, for a source that is not made by `ow.read_kafka`: another one in a copy."""
    copy = current()
    return copy.source(name) if copy is not None else name


def copy_prefix() -> str:
    """`PREFIX-` in a copy that `onceward snapshot restore --as PREFIX` makes, else nothing: for tables and folders."""
    copy = current()
    return f"{copy.prefix}-" if copy is not None else ""
