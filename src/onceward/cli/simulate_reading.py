"""The part of `onceward simulate` that reads and writes partitions: its runs, its stories, what it says of them."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from onceward.cli.output import EXIT_VIOLATION, progress, result

if TYPE_CHECKING:
    from onceward.proof.simulation.patching import Patches
    from onceward.proof.simulation.reading.campaign import Tally, Violation

Told = tuple[dict[str, object], str, bool]  # facts, the same in words, and whether a promise was broken


def run(seeds: Sequence[int], patches: "Patches | None", jobs: int) -> Told:
    """Every seed, until one breaks a promise."""
    from onceward.proof.simulation.reading.campaign import campaign

    began = time.perf_counter()
    tally = campaign(
        seeds, patches, jobs=jobs, report=lambda so_far: progress(f"{so_far.schedules:,} of reading, no violation")
    )
    return _told(tally, time.perf_counter() - began)


def tell(seed: int, patches: "Patches | None", *, as_json: bool) -> None:
    """One schedule, request by request."""
    from onceward.proof.simulation.campaign import quick
    from onceward.proof.simulation.patching import patched
    from onceward.proof.simulation.reading.schedule import scheduled
    from onceward.proof.simulation.reading.simulate import simulate

    story: list[str] = []
    with quick(), patched(patches or {}):
        found = simulate(scheduled(seed), story)
    broken = [f"{name}: {line}" for name, lines in found.violations.items() for line in lines]
    facts = {
        "seed": seed,
        "who": found.schedule.who,
        "ended": found.ended,
        "troubles": [list(it) for it in found.schedule.troubles],
        "story": story,
        "violations": dict(found.violations),
    }
    end = ["VIOLATION", *broken] if broken else [f"No violation: {found.ended}."]
    result(facts, "\n".join([f"{found.schedule.who}, by seed {seed}", *story, *end]), as_json=as_json)
    if broken:
        raise typer.Exit(EXIT_VIOLATION)


def conclude(told: Told, *, as_json: bool) -> None:
    """Where nothing else was run."""
    facts, text, is_broken = told
    result(facts, text, as_json=as_json)
    if is_broken:
        raise typer.Exit(EXIT_VIOLATION)


def _told(tally: "Tally", seconds: float) -> Told:
    found = tally.violation
    facts: dict[str, object] = {
        "schedules": tally.schedules,
        "requests": tally.requests,
        "reader_and_trouble_pairs": len(tally.reached),
        "ended": dict(sorted(tally.ended.items())),
        "seconds": round(seconds, 2),
        "violation": _facts(found) if found is not None else None,
    }
    text = (
        f"{tally.schedules:,} schedules of reading, {tally.requests:,} requests in {seconds:.1f} s; "
        f"{len(tally.reached)} pairs of reader and trouble were met. "
    )
    return facts, text + ("No violation." if found is None else "\n" + _text(found)), found is not None


def _facts(found: "Violation") -> dict[str, object]:
    return {
        "seed": found.schedule.seed,
        "who": found.schedule.who,
        "broken": found.broken,
        "shortest": [list(it) for it in found.shortest.troubles],
        "shortest_broken": found.shortest_broken,
        "story": found.story,
    }


def _text(found: "Violation") -> str:
    troubles = ", ".join(f"{it.kind}@{it.step}" for it in found.shortest.troubles)
    return "\n".join(
        [
            f"VIOLATION with seed {found.schedule.seed} of {found.schedule.who}: {', '.join(found.broken)}",
            f"The fewest troubles that do it: {troubles or 'none'}",
            *found.story,
            *(f"  {name}: {line}" for name, lines in found.shortest_broken.items() for line in lines),
            f"Replay the whole one: onceward simulate --reading --seed {found.schedule.seed} --story",
        ]
    )
