"""What came of the demo as one page that can be kept, sent and shown: no script, nothing is fetched."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Final

from onceward.apps.ads import words
from onceward.apps.ads.world.judge import (
    HISTORY_MINUTES,
    HISTORY_ORDERS,
    SERVED_MINUTES,
    SERVED_ORDERS,
    Finding,
    Judgement,
)
from onceward.demo import page_bars, page_bill, page_glance, page_timeline, report
from onceward.demo.page_text import OURS, SPARKS, text
from onceward.demo.trial import Findings
from onceward.proof.chaos.report_words import counted, duration, listed

PAGE: Final = "bill.html"
FACTS: Final = "result.json"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
# Where an output is, and its name there, by the name that the judge gives it.
_KEPT: Final = {
    "Kafka topics": {name: name for name in words.MADE},
    "PostgreSQL tables": {SERVED_MINUTES: words.MINUTES, SERVED_ORDERS: words.ATTRIBUTED},
    "History in Delta": {HISTORY_MINUTES: words.MINUTES, HISTORY_ORDERS: words.ATTRIBUTED},
}
_MEANS: Final = (
    "Lost: in the truth, and not there. Twice: there more often than in the truth. Wrong: there, with another value "
    "than in the truth, such as a minute whose clicks were counted from records that were there twice."
)
_COUNTS: Final = ("expected", "seen", "lost", "twice", "wrong")


def write(found: Findings, folder: Path) -> Path:
    """The page, and the facts beside it; the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FACTS).write_text(json.dumps(report.facts(found)) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(html(found), encoding="utf-8")
    return folder / PAGE


def html(found: Findings) -> str:
    """The whole page, for a file of its own."""
    style = files("onceward.demo").joinpath("page.css").read_text(encoding="utf-8")
    title = f"{report.verdict(found)}: {counted(len(found.kills), 'kill')}, seed {found.plan.seed}"
    rows = page_bill.rows(found)
    off = "By how much each bill is off"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Onceward: {text(title)}</title><style>{style}</style></head><body>",
            _banner(found),
            page_glance.cards(found),
            _section("What each campaign owes", _note(report.about_sparks(found)), page_bill.table(rows)),
            _section(off, page_bars.charts(rows)),
            _section("What was visible when", page_timeline.chart(found)),
            _section("Every output against the truth", _note(_MEANS), _outputs(found)),
            _section("Once more", _again(found)),
            "</body></html>\n",
        ]
    )


def _banner(found: Findings) -> str:
    style, sign = ("exact", "✓") if found.exact else ("violation", "✕")
    killed = listed(Counter(kill.what for kill in found.kills))
    about = [
        f"{found.plan.events:,} ad events, seed {found.plan.seed}",
        found.plan.guarantee,
        counted(len(found.kills), "kill") + (f" ({killed})" if killed else ""),
        duration(found.seconds),
    ]
    return (
        f'<header class="banner {style}"><p class="kicker">{text(", ".join(about))}</p>'
        f'<h1><span class="sign" aria-hidden="true">{sign}</span>{text(report.verdict(found))}</h1>'
        f'<p class="because">{text(report.because(found), 1_000)}</p></header>'
    )


def _outputs(found: Findings) -> str:
    """One table for each side, beside each other where there is room."""
    sides = [(OURS, found.ours)] + ([(SPARKS, found.sparks)] if found.sparks is not None else [])
    tables = "".join(f"<div>{_output_table(name, judged)}</div>" for name, judged in sides)
    return f'<div class="{"pair" if len(sides) > 1 else "single"}">{tables}</div>'


def _output_table(side: str, judged: Judgement) -> str:
    named = "".join(f'<th scope="col" class="number">{name}</th>' for name in _COUNTS)
    groups = "".join(
        f'<tbody><tr><th scope="rowgroup" colspan="{1 + len(_COUNTS)}">{where}</th></tr>{"".join(rows)}</tbody>'
        for where, rows in _groups(judged.findings)
    )
    return (
        f'<table class="outputs"><caption>{text(side)}</caption>'
        f'<thead><tr><th scope="col">output</th>{named}</tr></thead>{groups}</table>'
    )


def _groups(findings: Sequence[Finding]) -> Iterator[tuple[str, list[str]]]:
    """By where they are; one that has no place there is shown all the same."""
    known = set(chain.from_iterable(_KEPT.values()))
    for where, names in _KEPT.items():
        rows = [_output(it, names[it.output]) for it in findings if it.output in names]
        if rows:
            yield where, rows
    others = [_output(it, it.output) for it in findings if it.output not in known]
    if others:
        yield "Elsewhere", others


def _output(finding: Finding, name: str) -> str:
    style, sign = ("passed", "✓") if finding.clean else ("broken", "✕")
    cells = [f'<td class="number">{count:,}</td>' for count in (finding.expected, finding.seen)]
    cells += [
        f'<td class="number {"broken" if count else "none"}">{count:,}</td>'
        for count in (finding.lost, finding.duplicated, finding.wrong)
    ]
    return f'<tr><th scope="row"><span class="{style}">{sign}</span> {text(name)}</th>{"".join(cells)}</tr>'


def _again(found: Findings) -> str:
    command, *options = report.again(found.plan).split(" --")
    said = [text(command), *(f"<span>--{text(option)}</span>" for option in options)]  # no line ends inside an option
    return (
        _note(
            "The seed decides the events, the prices and what is killed. The instant at which a kill falls depends on "
            "the machine too: the bill of Onceward must not change with it."
        )
        + f'<p class="command">{" ".join(said)}</p>'
    )


def _note(said: str) -> str:
    return f'<p class="note">{text(said, 1_000)}</p>' if said else ""


def _section(title: str, *body: str) -> str:
    return f"<section><h2>{title}</h2>{''.join(body)}</section>"
