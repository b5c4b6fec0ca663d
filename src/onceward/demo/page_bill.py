"""The bill as a table: the truth, and what each side would charge, with every difference marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onceward.apps.ads.world.judge import BillLine
from onceward.demo.page_text import SIDES, difference, text
from onceward.demo.report import money
from onceward.demo.trial import Findings

RIGHT: Final = "✓"


@dataclass(frozen=True, slots=True)
class Row:
    """A campaign, or all that pay in one currency: ours first, then Spark's own sinks if they ran too."""

    name: str
    sides: tuple[BillLine, ...]
    marks: tuple[str, ...]  # what stands behind the amount of each

    @property
    def currency(self) -> str:
        return self.sides[0].currency


def rows(found: Findings) -> list[Row]:
    """By campaign: also one that nobody knows and that only one side charges."""
    judged = [it for it in (found.ours, found.sparks) if it is not None]
    bills = [{line.campaign: line for line in it.bill} for it in judged]
    known = {line.campaign: line for it in judged for line in it.bill}
    return [_row([bill.get(name) or _nothing(known[name]) for bill in bills]) for name in sorted(known)]


def table(bill: Sequence[Row]) -> str:
    sums = list(_sums(bill))
    sides = list(SIDES)[: max((len(row.sides) for row in bill), default=1)]
    heads = [f'<th scope="col" class="number">{name}</th>' for name in ("clicks", "orders", "the truth")]
    heads += [
        f'<th scope="col" class="number {side}">{text(SIDES[side])} <span class="mark"></span></th>' for side in sides
    ]
    body, foot = ("".join(map(_cells, part)) for part in (bill, sums))
    return (
        f'<div class="scroll"><table class="bill" style="{_room([*bill, *sums])}"><thead><tr><th scope="col">campaign'
        f"</th>{''.join(heads)}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def _row(sides: Sequence[BillLine]) -> Row:
    marks = (f"({difference(line.off_cents)})" if line.off_cents else RIGHT for line in sides)
    return Row(sides[0].campaign, tuple(sides), tuple(marks))


def _sums(bill: Sequence[Row]) -> Iterator[Row]:
    for currency in sorted({row.currency for row in bill}):
        sides = list(zip(*(row.sides for row in bill if row.currency == currency), strict=True))
        summed = _row([_sum(lines) for lines in sides])
        yield replace(summed, name=f"all in {currency}", marks=tuple(map(_sum_mark, summed.marks, sides)))


def _sum_mark(mark: str, lines: Sequence[BillLine]) -> str:
    """What is charged too much here does not pay for what is charged too little there."""
    return "(±0.00)" if mark == RIGHT and any(line.off_cents for line in lines) else mark


def _sum(lines: Sequence[BillLine]) -> BillLine:
    return BillLine(
        campaign="",
        currency=lines[0].currency,
        truth_cents=sum(it.truth_cents for it in lines),
        charged_cents=sum(it.charged_cents for it in lines),
        clicks_truth=sum(it.clicks_truth for it in lines),
        clicks_charged=sum(it.clicks_charged for it in lines),
        orders_truth=sum(it.orders_truth for it in lines),
        orders_charged=sum(it.orders_charged for it in lines),
    )


def _nothing(line: BillLine) -> BillLine:
    """The other side charges a campaign that this one has never heard of."""
    return replace(line, charged_cents=0, clicks_charged=0, orders_charged=0)


def _room(bill: Sequence[Row]) -> str:
    """As wide as the longest mark of a side: amounts stand below each other, whatever follows them."""
    longest = [max(map(len, marks)) for marks in zip(*(row.marks for row in bill), strict=True)]
    return ";".join(f"--room-{side}:{length}ch" for side, length in zip(SIDES, longest, strict=False))


def _cells(row: Row) -> str:
    truth = row.sides[0]
    charged = (
        f'<td class="number {side}">{_due(line, line.charged_cents)} '
        f'<span class="mark {"passed" if mark == RIGHT else "broken"}">{mark}</span></td>'
        for side, line, mark in zip(SIDES, row.sides, row.marks, strict=False)
    )
    return (
        f'<tr><th scope="row">{text(row.name, 80)}</th><td class="number">{truth.clicks_truth:,}</td>'
        f'<td class="number">{truth.orders_truth:,}</td><td class="number">{_due(truth, truth.truth_cents)}</td>'
        f"{''.join(charged)}</tr>"
    )


def _due(line: BillLine, cents: int) -> str:
    return f'<span class="currency">{text(line.currency, 10)}</span> {money(cents)}'
