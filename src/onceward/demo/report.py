"""The findings in words: a bill and a verdict for people, facts for programs."""

import io
from collections import Counter
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onceward.apps.ads import words
from onceward.apps.ads.world.judge import BillLine, Finding, Judgement
from onceward.demo.trial import Findings, Plan, Trial
from onceward.terminal import one_line

WIDTH: Final = 110
ALLOWED: Final = {
    "at-least-once": "Duplicates are what at-least-once allows, and no campaign would pay for them gladly.",
    "at-most-once": "Losses are what at-most-once allows.",
}


def introduction(plan: Plan) -> str:
    kills = f"killed with SIGKILL {_times(plan.kills)}, at random, and started again" if plan.kills else "never killed"
    beside = "Beside it runs the same application on Spark's own sinks. " if plan.contrast else ""
    return (
        f"{plan.events:,} ad events (seed {plan.seed}) and the orders that follow from them go into Kafka; some come "
        "twice, late or broken. Four pipelines clean them, count them by the minute, find out which ad each order is "
        f"owed to, and load the results into PostgreSQL and a Delta table. {beside}Everything is {kills}. "
        "Then every campaign gets its bill, and the bill is compared with the truth."
    )


def facts(found: Findings) -> dict[str, object]:
    return {
        "verdict": "exact" if found.exact else "violated",
        "off_cents": found.ours.off_cents,
        "outputs": _counts(found.ours),
        "bill": [_line_facts(it) for it in found.ours.bill],
        "events": found.plan.events,
        "records": found.records,
        "kills": len(found.kills),
        "killed": [kill.what for kill in found.kills],
        "seed": found.plan.seed,
        "guarantee": found.plan.guarantee,
        "seconds": round(found.seconds, 1),
        "state": found.state,
        "records_per_second": round(per_second(found), 1),
        "contrast": None
        if found.sparks is None
        else {
            "sinks": "spark",
            "verdict": _contrast(found.sparks),
            "exact": found.sparks.exact,
            "off_cents": found.sparks.off_cents,
            "outputs": _counts(found.sparks),
            "bill": [_line_facts(it) for it in found.sparks.bill],
        },
    }


def _contrast(sparks: Judgement) -> str:
    repeated = any(it["duplicated"] for it in _counts(sparks).values())
    return "duplicated" if repeated else "no kill fell between a write and its note"


def text(found: Findings) -> str:
    ours = f"{verdict(found)}{'.' if found.exact else ':'} {because(found)}"
    parts = [_bill(found), ours, about_sparks(found)]
    return "\n\n".join([*filter(None, parts), "\n".join(pace(found))])


def pace(found: Findings) -> list[str]:
    """How long it took, how large it grew, and how to do it again."""
    speed = f"{per_second(found):,.0f} records a second from the first to the last result, kills and starts included"
    sizes = [f"{name} {it['rows']:,} rows ({it['bytes'] / 1e6:,.1f} MB)" for name, it in found.state.items()]
    return [
        f"{found.seconds:.0f} s: {speed}",
        *([f"state at its largest since the last kill: {', '.join(sizes)}"] if sizes else []),
        f"the same events again: {again(found.plan)}",
    ]


def per_second(found: Findings) -> float:
    return found.records / found.flow_seconds


def again(plan: Plan) -> str:
    """The command that does the same once more."""
    parts = [f"onceward demo --events {plan.events} --kills {plan.kills} --seed {plan.seed}"]
    if plan.guarantee != "exactly-once":
        parts.append(f"--guarantee {plan.guarantee}")
    if not plan.contrast:
        parts.append("--no-contrast")
    return " ".join(parts)


def how_to_look(trial: Trial) -> str:
    """Where everything is, for `--keep`."""
    ours = trial.ours
    topics = ", ".join(ours.topic(name) for name in words.MADE)
    return "\n".join(
        [
            "The application runs on. Ctrl-C ends everything.",
            f"  topics      {ours.bootstrap}: {topics}",
            f"  tables      {words.MINUTES}, {words.ATTRIBUTED}: {trial.servers.psql()}",
            f"  lake table  {ours.history}",
            *(
                f"  epochs      onceward epochs {ours.home(name)}"
                for name in ("clean", "aggregate", "attribute", "load")
            ),
            f"  log         {trial.folder / 'job.log'}",
        ]
    )


def verdict(found: Findings) -> str:
    return "Exact, to the cent" if found.exact else f"VIOLATED under {found.plan.guarantee}"


def because(found: Findings) -> str:
    """The verdict's reason, in one sentence."""
    if found.exact:
        killed = f"Killed {_times(len(found.kills))}" if found.kills else "Never killed"
        return (
            f"{killed}, and each of the {found.records:,} records had its effect once: in every topic, in PostgreSQL "
            "and in the Delta table."
        )
    return " ".join(
        filter(
            None, [_told_all(found.ours), why_wrong(found.ours), _off(found.ours), ALLOWED.get(found.plan.guarantee)]
        )
    )


def about_sparks(found: Findings) -> str:
    sparks = found.sparks
    if sparks is None:
        return ""
    if sparks.exact:
        lucky = "were lucky: no kill fell between the writing of a batch and the note that it is done"
        return f"Spark's own sinks {lucky}." if found.kills else "Without a kill the two do not differ: try --kills 4."
    return " ".join(
        filter(
            None,
            ["On Spark's own sinks, killed at the same moments:", _told_all(sparks), why_wrong(sparks), _off(sparks)],
        )
    )


def _bill(found: Findings) -> str:
    table = Table(title="What each campaign owes", title_justify="left")
    for name in ("campaign", "clicks", "orders", "the truth", "Onceward"):
        table.add_column(name, justify="left" if name == "campaign" else "right")
    sparks = {it.campaign: it for it in found.sparks.bill} if found.sparks is not None else {}
    if sparks:
        table.add_column("Spark's own sinks", justify="right")
    ours = {it.campaign: it for it in found.ours.bill}
    for name in [*ours, *(sparks.keys() - ours.keys())]:
        line = ours.get(name) or sparks[name]
        sides = [side[name] for side in (ours, sparks) if name in side]
        truth = [f"{line.clicks_truth:,}", f"{line.orders_truth:,}", _due(line, line.truth_cents)]
        cells = [name, *truth, *([""] if name not in ours else []), *map(_charged, sides)]
        table.add_row(*(Text(one_line(cell)) for cell in cells))  # a name such as "[/red]" is no markup
    out = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False)
    with out.capture() as captured:
        out.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _charged(line: BillLine) -> str:
    off = line.charged_cents - line.truth_cents
    return _due(line, line.charged_cents) + (f" ({off / 100:+,.2f})" if off else "")


def _due(line: BillLine, cents: int) -> str:
    return f"{line.currency} {money(cents)}"


def _told_all(judged: Judgement) -> str:
    wrong = [it for it in judged.findings if not it.clean]
    return f"{'; '.join(map(_told, wrong))}." if wrong else ""


def _off(judged: Judgement) -> str:
    sums = off_by_currency(judged)
    return f"The bills are off by {', '.join(sums)}." if sums else ""


def off_by_currency(judged: Judgement) -> list[str]:
    """Summed without signs; only currencies in which a bill is off."""
    off: Counter[str] = Counter()
    for line in judged.bill:
        off[line.currency] += abs(line.off_cents)
    return [f"{currency} {money(cents)}" for currency, cents in sorted(off.items()) if cents]


def why_wrong(judged: Judgement) -> str:
    """How a row can have a wrong value though nobody wrote nonsense; empty where none has."""
    if not any(it.wrong for it in judged.findings):
        return ""
    return (
        "A wrong value is nearly always a sum: a minute's clicks, or the ad that an order is owed to, worked out by "
        "the next pipeline from records that were there twice, or not at all."
    )


def _told(finding: Finding) -> str:
    counts = {"lost": finding.lost, "twice": finding.duplicated, "with a wrong value": finding.wrong}
    return f"{finding.output}: " + ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)


def _counts(judged: Judgement) -> dict[str, dict[str, int]]:
    return {
        it.output: {
            "expected": it.expected,
            "seen": it.seen,
            "lost": it.lost,
            "duplicated": it.duplicated,
            "wrong": it.wrong,
        }
        for it in judged.findings
    }


def _line_facts(line: BillLine) -> dict[str, object]:
    return {
        "campaign": line.campaign,
        "currency": line.currency,
        "truth_cents": line.truth_cents,
        "charged_cents": line.charged_cents,
    }


def money(cents: int) -> str:
    return f"{cents / 100:,.2f}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
