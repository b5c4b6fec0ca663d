"""I7: the documentation site builds with every link checked, loads nothing from elsewhere, and leaves nothing out."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import onceward as ow
from onceward import errors
from onceward.cli.main import app
from onceward.kafka.transaction import diagram

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
LINKS_ONLY = {"canonical", "next", "prev", "alternate"}  # relations that no browser loads


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Loads(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if tag in LOADED and named.get("rel") not in LINKS_ONLY:
            self.found += [named[name] for name in (LOADED[tag], "srcset") if name in named]
        self.found += re.findall(r"url\(([^)]*)\)", named.get("style", ""))


def test_nothing_of_the_site_is_loaded_from_elsewhere(site: Path) -> None:
    """I7: it can be read where there is no network, and tells nobody that it is read."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    loaded = {it for page in pages for it in Loads(page.read_text("utf-8")).found}
    assert any(it.endswith(".css") for it in loaded)
    assert [it for it in loaded if re.match(r"\s*['\"]?(\w+:)?//", it)] == []
    styles = "".join(it.read_text("utf-8") for it in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:\w+:)?//[^)\"']*", styles) == []
    scripts = "".join(page.read_text("utf-8") for page in pages) + "".join(
        it.read_text("utf-8") for it in (site / "assets").glob("*.js")
    )
    assert "unpkg" not in scripts


def test_it_is_searched_without_a_server(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text("utf-8")
    assert all(word in index for word in ("PipelineFenced", "savepoint create", "read_kafka"))


def test_every_error_has_its_entry_and_no_entry_is_without_its_error() -> None:
    """I7, I3: cause, what is safe, way out, for each class that can be raised."""
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    entries = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE))
    there = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert set(entries) == there
    parts = ["**Cause.**", "**What is safe.**", "**Way out.**"]
    begins = {name: re.findall(r"^\*\*[\w ]+\.\*\*", entry, re.MULTILINE) for name, entry in entries.items()}
    assert {name: found for name, found in begins.items() if found != parts} == {}


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    shown = re.findall(r"^::: onceward\.(\w+)$", text, re.MULTILINE)
    assert sorted([*shown, "errors"]) == sorted(ow.__all__)
    page = (site / "reference" / "api.html").read_text("utf-8")
    assert [name for name in shown if f'id="onceward.{name}"' not in page] == []


def test_every_command_is_in_the_reference(site: Path) -> None:
    def names(group: TyperGroup, path: str) -> list[str]:
        inside = [(f"{path} {name}", it) for name, it in group.commands.items()]
        return [name for full, it in inside for name in (names(it, full) if isinstance(it, TyperGroup) else [full])]

    top = get_command(app)
    assert isinstance(top, TyperGroup)
    page = (site / "reference" / "command-line.html").read_text("utf-8")
    assert [name for name in names(top, "onceward") if f'id="{name.replace(" ", "-")}"' not in page] == []
    assert "--new-lineage" in page


def test_the_glossary_explains_the_words_of_the_messages() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    entries = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    words = [word.lower() for word, _ in entries]
    assert words == sorted(words)
    wanted = (
        "boundary committable decider deed digest epoch fence home ledger lineage marker savepoint snapshot term vote"
    )
    assert {*wanted.split(), "in doubt", "zombie"} <= set(words)
    assert [word for word, text in entries if len(text.split()) > 70] == []  # two or three sentences


def test_the_pictures_are_as_the_code_draws_them() -> None:
    """`python -m website.pictures` draws them anew; the one of the transaction comes from its table."""
    text = "import json, website.pictures; print(json.dumps(website.pictures.drawn()))"
    command = [sys.executable, "-c", text]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    pictures: dict[str, str] = json.loads(drawn)
    for name, picture in pictures.items():
        assert (ROOT / "docs" / "pictures" / name).read_text("utf-8") == picture, name
    arrows = re.findall(r"<title>(\w+) --&gt; (\w+): (\w+)</title>", pictures["transaction.svg"])
    assert set(arrows) == set(re.findall(r"(\w+) --> (\w+): (\w+)", diagram()))


def test_a_new_page_finds_its_place_in_the_navigation(site: Path) -> None:
    """Folders are taken as a whole, and what nobody has named is under More."""
    text = """
from website.navigation import expanded
nav = [{"Home": "index.md"}, {"How to": ["how-to/index.md", "how-to/*"]}, {"Deploy": ["deploy/*"]}, {"More": ["**"]}]
pages = ["how-to/b.md", "how-to/index.md", "index.md", "new.md", "other/x.md", "source/a.py.md"]
how, more = {"How to": ["how-to/index.md", "how-to/b.md"]}, {"More": ["new.md", "other/x.md"]}
assert expanded(nav, pages) == [{"Home": "index.md"}, how, more], expanded(nav, pages)
"""
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, timeout=60, check=True)
