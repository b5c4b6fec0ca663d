"""How long it took to come back, as a small histogram with its numbers."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from onceward.proof.chaos import report_words as words
from onceward.proof.chaos.record import Result
from onceward.proof.chaos.report_lanes import step_s

_BINS: Final = 12
_TOP: Final = 48  # px: the percentiles' names, one below the other
_TALL: Final = 96
_LABELS: Final = 10


def histogram(result: Result) -> str:
    taken = result.recoveries_s
    if not taken:
        return "<p>No driver had to come back.</p>"
    step = step_s(max(taken), _BINS)
    parts = int(max(taken) / step) + 1
    base = _TOP + _TALL
    said = (
        f"Recovery times in bins of {step:g} s: median {words.seconds(result.recovery_s(50))}, "
        f"95 percent within {words.seconds(result.recovery_s(95))}, longest {words.seconds(max(taken))}"
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Histogram"><svg class="histogram" '
        f'height="{base + 22}" role="img" aria-label="{said}">'
        f"{_percentile(result, 50, step * parts, 12)}{_percentile(result, 95, step * parts, 28)}"
        f"{_bars(taken, step, parts)}{_axis(step, parts)}</svg></div>"
    )


def _bars(taken: Sequence[float], step: float, parts: int) -> str:
    counts = Counter(int(value / step) for value in taken)
    most = max(counts.values())
    drawn = []
    for place, count in sorted(counts.items()):
        tall = max(1.5, _TALL * count / most)
        top = _TOP + _TALL - tall
        span = f"{place * step:g} to {(place + 1) * step:g} s"
        drawn.append(
            f'<rect class="back" x="{100 * place / parts + 0.2:.2f}%" width="{100 / parts - 0.4:.2f}%" y="{top:.1f}" '
            f'height="{tall:.1f}"><title>{span}: {count:,}</title></rect>'
            f'<text x="{100 * (place + 0.5) / parts:.2f}%" y="{top - 4:.1f}">{count:,}</text>'
        )
    return "".join(drawn)


def _axis(step: float, parts: int) -> str:
    base = _TOP + _TALL
    every = -(-parts // _LABELS)
    labels = "".join(
        f'<text x="{100 * place / parts:.2f}%" y="{base + 16}">{place * step:g}{" s" * (place == 0)}</text>'
        for place in range(0, parts + 1, every)
    )
    return f'<line class="edge" x1="0" x2="100%" y1="{base}" y2="{base}"/>{labels}'


def _percentile(result: Result, percent: int, length: float, y: int) -> str:
    value = result.recovery_s(percent) or 0.0
    at = f"{100 * value / length:.2f}%"
    aside, anchor = (-5, "end") if value > length / 2 else (5, "start")  # towards the roomier side
    return (
        f'<g class="percentile"><line x1="{at}" x2="{at}" y1="{y - 10}" y2="{_TOP + _TALL}"/>'
        f'<text x="{at}" dx="{aside}" y="{y}" style="text-anchor:{anchor}">p{percent} {words.seconds(value)}</text></g>'
    )
