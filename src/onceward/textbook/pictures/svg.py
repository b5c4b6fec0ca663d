"""SVG, as little of it as the pictures need. Whole numbers only, so that the same picture is the same text."""

from collections.abc import Iterable
from html import escape
from typing import Final

from onceward.textbook.pictures.grid import Tone

COLOURS: Final = {
    Tone.PLAIN: "#1f2933",
    Tone.QUIET: "#8794a1",
    Tone.GOOD: "#1a7f4b",
    Tone.BAD: "#c0392b",
    Tone.MARK: "#2563c9",
}
FONT: Final = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


def document(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """With a white ground of its own: it is looked at on dark pages too."""
    heads = "".join(
        f'<marker id="head-{tone}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
        for tone, colour in COLOURS.items()
    )
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{FONT}" font-size="13" role="img">'
    )
    lines = [
        opening,
        f"<title>{escape(title)}</title>",
        f"<defs>{heads}</defs>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def text(x: int, y: int, words: str, tone: Tone = Tone.PLAIN, *, anchor: str = "middle", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    # The white rim keeps words readable where a line passes behind them.
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{COLOURS[tone]}"{weight} stroke="#ffffff" '
        f'stroke-width="4" paint-order="stroke" stroke-linejoin="round">{escape(words)}</text>'
    )


def line(
    x1: int, y1: int, x2: int, y2: int, tone: Tone = Tone.PLAIN, *, head: bool = False, dashed: bool = False
) -> str:
    end = f' marker-end="url(#head-{tone})"' if head else ""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{COLOURS[tone]}" stroke-width="1.6"{dash}{end}/>'


def band(points: Iterable[tuple[int, int]], tone: Tone) -> str:
    """A broad pale line, for what lies behind everything else."""
    way = " ".join(f"{x},{y}" for x, y in points)
    return (
        f'<polyline points="{way}" fill="none" stroke="{COLOURS[tone]}" stroke-width="12" stroke-opacity="0.22" '
        'stroke-linejoin="round"/>'
    )


def dot(x: int, y: int, tone: Tone = Tone.PLAIN, *, radius: int = 5) -> str:
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{COLOURS[tone]}"/>'


def box(x: int, y: int, width: int, height: int, tone: Tone = Tone.PLAIN, *, filled: bool = False) -> str:
    fill = COLOURS[tone] if filled else "#ffffff"
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" '
        f'stroke="{COLOURS[tone]}" stroke-width="1.6"/>'
    )
