"""A chaos run in the terminal: the verdict, and what was done to deserve it, on one screen."""

import textwrap
from collections.abc import Iterator
from typing import Final

from onceward.proof.chaos import report_words as words
from onceward.proof.chaos.record import Result

_WIDTH: Final = 100
_FINDINGS: Final = 15  # lines for all checkers together, so that the rest stays on the screen
_OF_ONE: Final = 5


def text(result: Result) -> str:
    """The verdict first, then what was done to deserve it."""
    top = textwrap.wrap(f"{words.verdict(result)}. {words.because(result)}", _WIDTH)
    top += textwrap.wrap(words.meaning(result), _WIDTH)
    rows = [*_findings(result), *_facts(result)]
    margin = max(len(name) for name, _ in rows) + 2
    return "\n".join([*top, "", *(line.rstrip() for name, what in rows for line in _row(name, what, margin))])


def _row(name: str, what: str, margin: int) -> list[str]:
    # A command is one line whatever its length: people copy it.
    clean = words.printable(what, 2_000)
    lines = [clean] if name in {"again", ""} else textwrap.wrap(clean, _WIDTH - margin) or [""]
    return [f"{name:<{margin}}{lines[0]}", *(" " * margin + line for line in lines[1:])]


def _findings(result: Result) -> Iterator[tuple[str, str]]:
    if not result.broken:
        return
    most = max(1, min(_OF_ONE, _FINDINGS // len(result.broken)))
    for checker, found in result.broken.items():
        lines = words.first(found, most)
        yield from zip([checker, *[""] * (len(lines) - 1)], lines, strict=True)
    yield "", ""


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    yield "subject", f"{result.subject}, {result.guarantee}, into {', '.join(result.sinks)}"
    yield (
        "ran",
        (
            f"{words.duration(result.seconds)} from {result.began}, with {words.counted(result.brokers, 'broker')}, "
            f"on {result.machine}"
        ),
    )
    by_target = words.listed(words.kills_by_target(result))
    yield "kills", f"{result.kills:,}" + (f": {by_target}" if by_target else "")
    yield "other faults", words.listed(words.other_faults(result), "; ") or "none"
    yield "points", _points(result)
    yield "records in", f"{result.records_in:,}"
    yield "records out", words.listed(result.records_out) or "none"
    yield "epochs", f"{result.epochs:,}"
    yield "recovery", _recovery(result)
    yield "in doubt", words.doubts(result)
    yield "watched", "; ".join(part for part in (_seen(result), words.thrown_away(result)) if part)
    yield "seed", str(result.seed)
    yield "again", result.command


def _points(result: Result) -> str:
    if not result.points:
        return "none: Spark's own sink has none"
    reached = f"{len(result.points) - len(result.missed)} of {len(result.points)} reached"
    return f"{reached}, missed: {', '.join(result.missed)}" if result.missed else reached


def _recovery(result: Result) -> str:
    if not result.recoveries_s:
        return "no driver had to come back"
    p50, p95, most = (words.seconds(value) for value in (*map(result.recovery_s, (50, 95)), max(result.recoveries_s)))
    return f"p50 {p50}, p95 {p95}, max {most}, over {words.counted(len(result.recoveries_s), 'loss')} of a driver"


def _seen(result: Result) -> str:
    kinds = {f"read_{kind}": count for kind, count in result.watched.items() if kind != "aborted"}
    return words.listed(kinds)
