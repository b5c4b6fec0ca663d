"""Links between files of the repository, as links between pages of the site."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Documents beside docs/, and the page that each of them is on the site.
ROOT_PAGES: Final = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
LICENSE: Final = "license.md"
SOURCES: Final = "source"  # the folder of the site with the source files that pages link to
_DECISION: Final = re.compile(r"(?<![/\w`(])\(?docs/decisions/(\d{4})(?![\w-])\)?(?!`)")
_LINK: Final = re.compile(r"\]\((?!\w+:|#|/|<)([^)#\s]+)(#[^)\s]*)?\)")


def repository_path(uri: str) -> str:
    """Where in the repository a page of the site comes from."""
    roots = {page: name for name, page in ROOT_PAGES.items()}
    return roots.get(uri, f"docs/{uri}")


def source_page(path: str) -> str:
    return f"{SOURCES}/{path}.md"


def sources(text: str, place: str, root: Path) -> Iterator[str]:
    """The source files that a page links to."""
    for found in _LINK.finditer(text):
        path = _target(found[1], place)
        if _is_source(path, root):
            yield path


def rewritten(text: str, place: str, root: Path) -> str:
    """A page's text with links that hold on the site; what leads nowhere stays, and MkDocs complains of it."""

    def link(found: re.Match[str]) -> str:
        page = _page(_target(found[1], place), root)
        if page is None:
            return found[0]
        here = posixpath.dirname(_page(place, root) or "")
        return f"]({posixpath.relpath(page, here or '.')}{found[2] or ''})"

    return _LINK.sub(link, text)


def with_decisions(text: str, place: str, root: Path) -> str:
    """`docs/decisions/0013` in a text, as a link to that page."""
    back = posixpath.relpath("docs/decisions", posixpath.dirname(place) or ".")

    def link(found: re.Match[str]) -> str:
        (file,) = (root / "docs" / "decisions").glob(f"{found[1]}-*.md")
        return found[0].replace(f"docs/decisions/{found[1]}", f"[decision {int(found[1])}]({back}/{file.name})")

    return _DECISION.sub(link, text)


def _target(link: str, place: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), link))


def _page(path: str, root: Path) -> str | None:
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path == "LICENSE":
        return LICENSE
    if _is_source(path, root):
        return source_page(path)
    if not path.startswith("docs/"):
        return None
    page = path.removeprefix("docs/")
    if not (root / path).is_dir():
        return page
    return f"{page}/README.md" if (root / path / "README.md").is_file() else f"{page}/index.md"


def _is_source(path: str, root: Path) -> bool:
    return path.startswith(("src/", "bench/", "tests/")) and path.endswith(".py") and (root / path).is_file()
