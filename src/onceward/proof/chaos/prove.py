"""A whole proof: the stack, the campaign, the verdict, and the result that is shown."""

import datetime as dt
import os
import platform
import shlex
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from onceward.proof.chaos import verdict
from onceward.proof.chaos.campaign import Campaign
from onceward.proof.chaos.record import Result
from onceward.proof.chaos.seen import Plan
from onceward.proof.chaos.stack import Stack
from onceward.proof.chaos.subject import Subject


def prove(plan: Plan, subject: Subject, folder: Path, report: Callable[[str], None]) -> Result:
    """Everything happens below `folder`; no process outlives this call."""
    began, clock = dt.datetime.now(dt.UTC), time.monotonic()
    postgres = "postgres" in plan.sinks
    with Stack(folder / "stack", brokers=plan.brokers, postgres=postgres, report=report) as stack:
        campaign = Campaign(plan, subject, stack, folder, report)
        seen = campaign.run()
        report("judging")
        campaign.end_watchers()
        checked, broken, counts = verdict.judge(campaign)
        kinds = [it for it in seen.happenings if it.kind == "fault"]
        return Result(
            subject=subject.name,
            command=command(plan, subject),
            seed=plan.seed,
            guarantee=plan.guarantee,
            sinks=plan.sinks,
            brokers=plan.brokers,
            began=began.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - clock, 1),
            machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            records_in=campaign.feeder.acknowledged,
            records_out=counts,
            epochs=sum(len(books.planned) for books in seen.books.values()),
            kills=seen.kills,
            faults=dict(Counter(_name(it.target, it.what, kill=it.kill) for it in kinds).most_common()),
            points={point: seen.points.get(point, 0) for point in campaign.world.points},
            recoveries_s=seen.recoveries_s,
            resolved=sum(len(start.resolved) for books in seen.books.values() for start in books.starts.values()),
            watched=campaign.watched(),
            checked=checked,
            broken=broken,
            happenings=tuple(sorted(seen.happenings, key=lambda it: it.at_s)),
        )


def command(plan: Plan, subject: Subject) -> str:
    """What does it again."""
    words = ["onceward", "prove", *([str(subject.file)] if subject.file is not None else [])]
    words += ["--kills", str(plan.kills), "--seed", str(plan.seed), "--sinks", ",".join(plan.sinks)]
    words += ["--brokers", str(plan.brokers), "--guarantee", plan.guarantee, "--rate", str(plan.per_second)]
    words += ["--minutes", f"{plan.minutes:g}"] if plan.minutes is not None else []
    return shlex.join(words)


def _name(target: str, what: str, *, kill: bool) -> str:
    """Faults of one sort, for counting."""
    if target == "network":
        verbs = {
            "cut": "connection cut",
            "half": "half closed",
            "answers": "answers late",
            "answer to": "answer lost",
            "given it up": "request late",
        }
        return "network, " + next((name for sign, name in verbs.items() if sign in what), "request lost")
    return f"{target} {'killed' if kill else 'paused'}"
