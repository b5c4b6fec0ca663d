"""Pieces of the production code, replaced by name while a run lasts: how a planted bug gets into a driver."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

Patches = Mapping[str, Any]  # by `module:name` or `module:class.method`


@contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Everything as it was afterwards."""
    before = [(*found(target), value) for target, value in patches.items()]
    kept = [(owner, name, owner.__dict__[name]) for owner, name, _ in before]
    try:
        for owner, name, value in before:
            setattr(owner, name, property(value) if isinstance(owner.__dict__[name], property) else value)
        yield
    finally:
        for owner, name, value in kept:
            setattr(owner, name, value)


def found(target: str) -> tuple[Any, str]:
    """Where a piece is, and what it is called there."""
    module, _, path = target.partition(":")
    *outer, name = path.split(".")
    owner: Any = import_module(module)
    for each in outer:
        owner = getattr(owner, each)
    return owner, name
