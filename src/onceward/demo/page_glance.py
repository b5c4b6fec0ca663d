"""What it comes down to, for each side: by how much its bills are off, and what its outputs lack or have twice."""

from collections import Counter
from collections.abc import Iterator

from onceward.apps.ads.world.judge import Judgement
from onceward.demo.page_text import OURS, SPARKS, text
from onceward.demo.report import off_by_currency
from onceward.demo.trial import Findings
from onceward.proof.chaos.report_words import counted


def cards(found: Findings) -> str:
    sides = [(OURS, found.ours)] + ([(SPARKS, found.sparks)] if found.sparks is not None else [])
    return f'<div class="glance">{"".join(_card(name, judged) for name, judged in sides)}</div>'


def _card(name: str, judged: Judgement) -> str:
    style = "right" if judged.exact else "off"
    amounts = "".join(f"<li>{text(amount, 40)}</li>" for amount in _amounts(judged))
    facts = "".join(f"<li>{text(fact)}</li>" for fact in _facts(judged))
    return (
        f'<div class="card {style}"><h3>{text(name)}</h3><ul class="amounts">{amounts}</ul>'
        f'<ul class="facts">{facts}</ul></div>'
    )


def _amounts(judged: Judgement) -> Iterator[str]:
    off = off_by_currency(judged)
    yield from off or ["0.00"]


def _facts(judged: Judgement) -> Iterator[str]:
    right = sum(not line.off_cents for line in judged.bill)
    yield "charged wrongly, too much and too little added up" if judged.off_cents else "charged wrongly"
    yield f"{right:,} of {counted(len(judged.bill), 'bill')} right"
    sums: Counter[str] = Counter()
    for it in judged.findings:
        sums.update(lost=it.lost, twice=it.duplicated, wrong=it.wrong)
    yield f"{counted(sums['lost'], 'record')} lost, {sums['twice']:,} there twice, {sums['wrong']:,} with a wrong value"
