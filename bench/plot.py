"""A picture of a benchmark: a bar for each system, its median, and the spread of its rounds. SVG, by hand."""

from collections.abc import Iterator
from html import escape

from bench.figures import Figure, shown
from bench.report import Report

WIDTH = 760
NAMES = 240  # room for the systems' names
VALUES = 110
BAR = 16
STEP = 24
HEAD = 34
MARGIN = 12
STYLE = (
    "text{font:12px sans-serif;fill:#333}.case{font-weight:bold}.ours{fill:#2a7f62}.other{fill:#9aa7b1}"
    ".spread{stroke:#333;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.spread{stroke:#ddd}}"
)


def svg(report: Report) -> str:
    """One panel for each case, over the first metric."""
    parts: list[str] = []
    top = MARGIN
    for case in report.cases:
        panel, top = _panel(report, case, top)
        parts += panel
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + MARGIN}" role="img" '
        f'aria-label="{escape(report.title)}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


def _panel(report: Report, case: str, top: int) -> tuple[list[str], int]:
    first: dict[str, Figure] = {}
    metric = ""
    for system in report.systems(case):
        figures = report.figures(case, system)
        if figures:
            metric = metric or next(iter(figures))
            if metric in figures:
                first[system] = figures[metric]
    if not first:
        return [], top
    longest = max(it.high for it in first.values()) or 1.0
    drawn = [f'<text class="case" x="{MARGIN}" y="{top + 14}">{escape(case)}: {escape(metric)}</text>']
    for number, (system, figure) in enumerate(first.items()):
        drawn += _bar(system, figure, longest, top + HEAD - 10 + number * STEP)
    return drawn, top + HEAD + len(first) * STEP


def _bar(system: str, figure: Figure, longest: float, top: int) -> Iterator[str]:
    room = WIDTH - NAMES - VALUES - MARGIN

    def at(value: float) -> float:
        return round(NAMES + room * value / longest, 1)

    kind = "ours" if system.startswith("onceward") else "other"
    middle = top + BAR / 2
    yield f'<text x="{NAMES - 8}" y="{top + 12}" text-anchor="end">{escape(system)}</text>'
    wide = round(at(figure.median) - NAMES, 1)
    said = f"{system}: {figure.text()}"
    yield (
        f'<rect class="{kind}" x="{NAMES}" y="{top}" width="{max(wide, 1)}" height="{BAR}">'
        f"<title>{escape(said)}</title></rect>"
    )
    if figure.low != figure.high:
        low, high = at(figure.low), at(figure.high)
        yield f'<line class="spread" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
    yield f'<text x="{at(max(figure.high, figure.median)) + 6}" y="{top + 12}">{shown(figure.median)}</text>'
