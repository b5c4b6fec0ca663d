"""What can be said of the page's files without a browser."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "src/onceward/dashboard/static"
SCRIPTS = sorted(STATIC.glob("*.js"))
PARSES_HTML = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function")
TEXT = ("ink", "soft", "good", "bad", "open", "busy", "kill")
GROUNDS = ("paper", "raised", "good-wash", "bad-wash", "open-wash", "busy-wash", "soft-wash")


def themes() -> dict[str, dict[str, str]]:
    """Colours by name: of light, of dark as the system says, of dark as the reader says."""
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", (STATIC / "base.css").read_text(encoding="utf-8"))
    names = ("light", "system-dark", "chosen-dark")
    return dict(zip(names, [dict(re.findall(r"--([\w-]+): (#\w{6})", it)) for it in blocks], strict=True))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "system-dark", "chosen-dark"])
def test_every_colour_of_text_can_be_read_on_every_ground(theme: str) -> None:
    """4.5 to 1, as WCAG asks of text."""
    colours = themes()[theme]
    for text in TEXT:
        for ground in GROUNDS:
            low, high = sorted((luminance(colours[text]), luminance(colours[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (theme, text, ground)


def test_dark_is_the_same_whoever_asked_for_it() -> None:
    assert themes()["system-dark"] == themes()["chosen-dark"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda it: it.name)
def test_no_script_hands_text_to_the_html_parser(script: Path) -> None:
    assert not PARSES_HTML.search(script.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", sorted(STATIC.iterdir()), ids=lambda it: it.name)
def test_no_file_names_another_server(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|url\((?!#)|@import|//[a-z0-9-]+\.[a-z]{2,}/", text)


def test_the_page_itself_has_no_inline_script_and_no_inline_style() -> None:
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            if tag == "style" or (tag == "script" and "src" not in given):
                found.append(tag)
            found.extend(name for name in given if name == "style" or name.startswith("on"))

    Reader().feed((STATIC / "index.html").read_text(encoding="utf-8"))
    assert found == []
