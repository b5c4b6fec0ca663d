"""A chaos run as one page that can be kept, sent and shown: no script is needed, nothing is fetched."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from onceward.proof.chaos import report_lanes as lanes
from onceward.proof.chaos import report_words as words
from onceward.proof.chaos.record import Happening, Result
from onceward.proof.chaos.report_recovery import histogram
from onceward.proof.chaos.report_timeline import timeline
from onceward.proof.checkers import CHECKERS

PAGE: Final = "report.html"
FACTS: Final = "result.json"
_SIGNS: Final = {"EXACT": "✓", "VIOLATION": "✕", "NOT JUDGED": "?"}
_SHOWN: Final = 25  # findings of one checker; the rest is in result.json
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write(result: Result, folder: Path) -> Path:
    """The page, and the facts beside it; the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FACTS).write_text(json.dumps(result.facts()) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(html(result), encoding="utf-8")
    return folder / PAGE


def html(result: Result) -> str:
    """The whole page, for a file of its own."""
    title = f"{words.verdict(result)}: {words.counted(result.kills, 'kill')}, seed {result.seed}"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Onceward: {escape(title)}</title><style>{_file('report_page.css')}</style></head><body>",
            _banner(result),
            _facts(result),
            f'<p class="command" title="does it again">{_text(result.command, 1_000)}</p>',
            _section("What happened when", _happened(result)),
            _section("Recovery: from the loss of a driver to the next committed epoch", histogram(result)),
            _section("What was checked", _checkers(result)),
            _pair(
                _section("Where processes died or slept", _points(result)),
                _section("What was thrown at it", _faults(result)) + _section("What came out", _outcome(result)),
            ),
            _footer(result),
            f"<script>{_file('report_page.js')}</script></body></html>\n",
        ]
    )


def _banner(result: Result) -> str:
    said = words.verdict(result)
    style = said.lower().replace(" ", "-")
    means = words.meaning(result)
    sinks = ", ".join(result.sinks)
    return (
        f'<header class="banner {style}"><p class="kicker">{_text(result.subject)}, {_text(result.guarantee)}, '
        f'into {_text(sinks)}</p><h1><span class="sign" aria-hidden="true">{_SIGNS[said]}</span>{said}</h1>'
        f'<p class="because">{_text(words.because(result), 1_000)}</p>'
        + (f'<p class="means">{_text(means, 1_000)}</p>' if means else "")
        + "</header>"
    )


def _facts(result: Result) -> str:
    longest = max(result.recoveries_s, default=None)
    cells = [
        ("Kills", f"{result.kills:,}", words.listed(words.kills_by_target(result))),
        ("Records in", f"{result.records_in:,}", f"out: {words.listed(result.records_out) or 'none'}"),
        ("Epochs committed", f"{result.epochs:,}", f"in {words.duration(result.seconds)}"),
        ("Named points reached", _reached(result), f"missed: {', '.join(result.missed)}" if result.missed else "all"),
        (
            "Recovery, p95",
            words.seconds(result.recovery_s(95)),
            f"p50 {words.seconds(result.recovery_s(50))}, max {words.seconds(longest)}",
        ),
        ("Epochs in doubt", f"{result.resolved:,}", words.doubts(result).partition(", ")[2] or words.doubts(result)),
        ("Aborted records", f"{result.watched.get('aborted', 0):,}", words.thrown_away(result)),
        ("Seed", str(result.seed), "the command below does it again"),
    ]
    return f'<dl class="facts">{"".join(_fact(*cell) for cell in cells)}</dl>'


def _fact(name: str, value: str, more: str) -> str:
    return f"<div><dt>{name}</dt><dd>{_text(value)}</dd>{f'<dd>{_text(more, 500)}</dd>' if more else ''}</div>"


def _reached(result: Result) -> str:
    return f"{len(result.points) - len(result.missed)} of {len(result.points)}"


def _happened(result: Result) -> str:
    told = [happening for happening in lanes.ordered(result) if happening.kind != "epoch"]
    rows = (
        [words.clock(happening.at_s), happening.kind, happening.target, happening.point, _longer(happening)]
        for happening in told
    )
    table = _table(["time", "kind", "target", "point", "what happened"], rows, hidden=(2, 3))
    return (
        f'<p class="note">Time into the run, from {_text(result.began)}. Point at a mark to read what it was.</p>'
        f"<div>{timeline(result)}</div>"
        f"<details><summary>The same in words: {len(told):,} happenings without the epochs</summary>{table}</details>"
    )


def _longer(happening: Happening) -> str:
    took = words.seconds(happening.seconds) if happening.seconds is not None else ""
    return happening.what if took in happening.what else f"{happening.what}, after {took}"


def _checkers(result: Result) -> str:
    names = list(dict.fromkeys([*result.broken, *result.checked]))  # the broken ones first
    body = "".join(
        f'<tr><th scope="row">{_text(name)}</th>{_judged(name, result.broken.get(name, ()))}</tr>' for name in names
    )
    head = '<th scope="col">checker</th><th scope="col">verdict</th><th scope="col">its promise, and what broke it</th>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _judged(name: str, found: Sequence[str]) -> str:
    checker = CHECKERS.get(name)
    looks_for = _text((checker.__doc__ or "") if checker else "", 600)
    about = f'<div class="about">{looks_for}</div>' if looks_for else ""
    if not found:
        return f'<td class="passed">✓ passed</td><td>{about}</td>'
    lines = "".join(f"<li>{escape(line)}</li>" for line in words.first(found, _SHOWN))
    return f'<td class="broken">✕ {len(found):,} found</td><td>{about}<ul>{lines}</ul></td>'


def _points(result: Result) -> str:
    head = (
        '<th scope="col">point</th><th scope="col" class="number">times</th>'
        '<th scope="col">what has happened there</th>'
    )
    body = "".join(
        f'<tr><th scope="row">{_text(point)}</th>'
        + (f'<td class="number">{times:,}</td>' if times else '<td class="number missed">✕ missed</td>')
        + f'<td><span class="about">{_text(words.POINTS.get(point, ""))}</span></td></tr>'
        for point, times in result.points.items()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _faults(result: Result) -> str:
    counts = {f"{target}{words.KILLED}": times for target, times in words.kills_by_target(result).items()}
    return _counts("fault", "times", counts | words.other_faults(result))


def _outcome(result: Result) -> str:
    watched = {f"seen by {_reader(kind)}": count for kind, count in result.watched.items()}
    out = {f"visible in {sink} at the end": count for sink, count in result.records_out.items()}
    return _counts("records", "number", {"read from the input": result.records_in} | out | watched)


def _reader(kind: str) -> str:
    return "the read_uncommitted control, aborted" if kind == "aborted" else f"the read_{kind} reader"


def _counts(what: str, times: str, counts: Mapping[str, int]) -> str:
    head = f'<th scope="col">{what}</th><th scope="col" class="number">{times}</th>'
    body = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td class="number">{count:,}</td></tr>'
        for name, count in counts.items()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], hidden: Sequence[int] = ()) -> str:
    """`hidden` columns give way on a narrow screen."""
    styles = [' class="wide-only"' * (place in hidden) for place in range(len(names))]
    head = "".join(f'<th scope="col"{style}>{name}</th>' for name, style in zip(names, styles, strict=True))
    body = "".join(f"<tr>{''.join(_cells(row, styles))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], styles: Sequence[str]) -> Iterator[str]:
    for cell, style in zip(row, styles, strict=True):
        yield f"<td{style}>{_text(cell, 500)}</td>"


def _pair(left: str, right: str) -> str:
    return f'<div class="pair"><div>{left}</div><div>{right}</div></div>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _footer(result: Result) -> str:
    return (
        f"<footer>{_text(result.began)}, {words.duration(result.seconds)}, {words.counted(result.brokers, 'broker')}, "
        f"{_text(result.machine, 500)}. Everything that happened is in result.json beside this page.</footer>"
    )


def _text(said: str, most: int = 200) -> str:
    return escape(words.printable(said, most))


def _file(name: str) -> str:
    return files("onceward.proof.chaos").joinpath(name).read_text(encoding="utf-8")
