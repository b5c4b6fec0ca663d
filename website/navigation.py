"""The site's navigation: a name with `*` in mkdocs.yml takes the pages of a folder, so a new page finds its place."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from website.links import SOURCES


def expanded(nav: Sequence[Any], pages: Sequence[str]) -> list[Any]:
    """Patterns replaced by the pages that nothing else names; a section without pages is left out."""
    taken = {it for it in _names(nav) if "*" not in it}
    folders = {posixpath.dirname(it) for it in _names(nav) if it.endswith("/*")}
    return list(_filled(nav, [it for it in pages if it not in taken], folders))


def _filled(nav: Sequence[Any], free: Sequence[str], folders: set[str]) -> Iterator[Any]:
    for entry in nav:
        if isinstance(entry, str):
            yield from _matching(entry, free, folders) if "*" in entry else [entry]
            continue
        ((title, inside),) = entry.items()
        if isinstance(inside, str):
            yield entry
        elif filled := list(_filled(inside, free, folders)):
            yield {title: filled}


def _matching(pattern: str, free: Sequence[str], folders: set[str]) -> list[str]:
    if pattern == "**":
        return [it for it in free if posixpath.dirname(it) not in folders and not it.startswith(f"{SOURCES}/")]
    return [it for it in free if posixpath.dirname(it) == posixpath.dirname(pattern)]


def _names(nav: Sequence[Any]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            (inside,) = entry.values()
            yield from [inside] if isinstance(inside, str) else _names(inside)
