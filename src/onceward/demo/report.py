"""The findings in words: a table and a verdict for people, facts for programs."""

import io
from typing import Final

from rich.console import Console
from rich.table import Table

from onceward.demo.events import ACCOUNTS
from onceward.demo.judge import Judgement
from onceward.demo.trial import Findings, Plan

ROWS: Final = ("records visible", "lost", "duplicated", "wrong", "sum of payments off by", "latest balances off by")


def introduction(plan: Plan) -> str:
    return (
        f"{plan.events:,} payments on {ACCOUNTS} accounts (seed {plan.seed}) go into a Kafka topic. A Spark job keeps "
        "each account's balance in its state and writes one record per payment, with the balance after it. "
        "It writes to two topics: to one through Onceward, to the other through Spark's own Kafka sink. "
        f"The whole job is killed (SIGKILL) {_times(plan.kills)}, at random, and started again. "
        "Then another Kafka client reads both topics."
    )


def facts(found: Findings) -> dict[str, object]:
    return {
        "verdict": "exact" if found.exact else "violated",
        **found.ours.facts(),
        "live_reader_agrees": found.agreed,
        "events": found.plan.events,
        "kills": found.plan.kills,
        "seconds": round(found.seconds, 1),
        "seed": found.plan.seed,
        "contrast": {"sink": "spark", **found.sparks.facts()},
    }


def text(found: Findings) -> str:
    plan = found.plan
    again = f"onceward demo --events {plan.events} --kills {plan.kills} --seed {plan.seed}"
    return "\n\n".join(
        [
            _table(found),
            _about_ours(found),
            _about_sparks(found),
            f"{found.seconds:.0f} s; the same payments again: {again}",
        ]
    )


def _about_ours(found: Findings) -> str:
    events, kills = found.plan.events, _times(found.plan.kills)
    if found.exact:
        return (
            f"Exact. The job was killed {kills}, and each of the {events:,} payments is visible once, with the right "
            "balance. After a kill an event may be computed again; its effect is once."
        )
    if not found.agreed and found.ours.exact:
        return (
            "VIOLATED: a reader that was there all the time saw other records than one that came afterwards, "
            "so something was visible that is not there any more, or the other way round."
        )
    return (
        f"VIOLATED: what Onceward put out is not what {events:,} payments should give. This is a bug: please report it."
    )


def _about_sparks(found: Findings) -> str:
    sparks = found.sparks
    if not found.plan.kills:
        return "Without a kill the two sinks do not differ: try --kills 4."
    if sparks.exact:
        return (
            "Spark's own sink was lucky: no kill fell between its writing of a batch and its note that the batch is "
            "done. More kills (--kills) or another seed will show it."
        )
    said = []
    if sparks.duplicated:
        said.append(
            f"put {sparks.duplicated:,} records out again, because a restart repeats the batch that was in hand"
        )
    if sparks.lost:
        said.append(f"lost {sparks.lost:,} payments")
    if sparks.wrong:
        said.append(f"put out {sparks.wrong:,} wrong records")
    text = f"Spark's own sink, in the same job, killed at the same moments, {' and '.join(said)}."
    if sparks.payments_off_cents:
        text += f" Whoever adds its payments up is off by {_money(sparks.payments_off_cents)}."
    return text


def _table(found: Findings) -> str:
    table = Table(
        title=f"What a read_committed reader sees after {found.plan.kills} kill{'s' * (found.plan.kills != 1)}",
        title_justify="left",
    )
    table.add_column("")
    table.add_column("Onceward", justify="right")
    table.add_column("Spark's own sink", justify="right")
    table.add_row("payments fed", *[f"{found.plan.events:,}"] * 2)
    for name, ours, sparks in zip(ROWS, _cells(found.ours), _cells(found.sparks), strict=True):
        table.add_row(name, ours, sparks)
    out = Console(file=io.StringIO(), width=100)
    with out.capture() as captured:
        out.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _cells(found: Judgement) -> list[str]:
    counts = (found.visible, found.lost, found.duplicated, found.wrong)
    return [
        *(f"{count:,}" for count in counts),
        _money(found.payments_off_cents),
        _money(found.balances_off_cents),
    ]


def _money(cents: int) -> str:
    return f"{cents / 100:,.2f}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
