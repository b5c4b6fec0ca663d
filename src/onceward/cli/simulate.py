"""`onceward simulate`: the real protocol in a world that crashes, delays, doubles, loses and pauses, by a seed."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.output import EXIT_USAGE, EXIT_VIOLATION, AsJson, progress, result

if TYPE_CHECKING:
    from onceward.cli.simulate_reading import Told
    from onceward.proof.simulation.campaign import Tally, Violation
    from onceward.proof.simulation.patching import Patches

BOUND = 10_000  # schedules within which a planted bug has to be found


def simulate(
    schedules: Annotated[int, typer.Option(help="How many schedules to run.")] = 10_000,
    seed: Annotated[int | None, typer.Option(help="The first seed; alone, with --schedules 1, it replays one.")] = None,
    plant: Annotated[str | None, typer.Option(help="Switch on a planted bug, by name.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes to use; the result is the same.")] = 1,
    *,
    reading: Annotated[bool, typer.Option(help="Only what reads and writes Kafka's partitions.")] = False,
    story: Annotated[bool, typer.Option(help="Tell the schedule of --seed step by step.")] = False,
    exhaustive: Annotated[bool, typer.Option(help="Visit every way that a small model can go instead.")] = False,
    full: Annotated[bool, typer.Option(help="With --exhaustive: more at once goes wrong; takes hours.")] = False,
    planted: Annotated[bool, typer.Option(help="Show for each planted bug which checker caught it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the coordinator, the take-over, the transaction and the readers against simulated Kafka, disk and Spark."""
    from onceward.cli import simulate_reading
    from onceward.proof.planted import PLANTS

    if plant is not None and plant not in PLANTS:
        progress(f"onceward: no planted bug is called {plant!r}; known are {', '.join(PLANTS)}")
        raise typer.Exit(EXIT_USAGE)
    bug = PLANTS[plant] if plant is not None else None
    patches, reading = (bug.patches, bug.of_reading) if bug is not None else (None, reading)
    seeds = range(seed or 0, (seed or 0) + schedules)
    if planted:
        _show_planted(jobs, as_json=as_json)
    elif exhaustive:
        _visit_all(patches, jobs, full=full, as_json=as_json)
    elif reading and story:
        simulate_reading.tell(seed or 0, patches, as_json=as_json)
    elif reading:
        simulate_reading.conclude(simulate_reading.run(seeds, patches, jobs), as_json=as_json)
    elif story:
        _tell(seed or 0, patches, as_json=as_json)
    else:
        _run(seeds, patches, jobs, as_json=as_json)


def _run(seeds: range, patches: "Patches | None", jobs: int, *, as_json: bool) -> None:
    from onceward.cli import simulate_reading
    from onceward.proof.simulation.campaign import campaign

    began = time.perf_counter()
    tally = campaign(
        seeds, patches, jobs=jobs, report=lambda so_far: progress(f"{so_far.schedules:,} schedules, no violation")
    )
    seconds = time.perf_counter() - began
    also = simulate_reading.run(seeds, None, jobs) if patches is None and tally.violation is None else None
    _conclude(tally, seconds, also, as_json=as_json)


def _visit_all(patches: "Patches | None", jobs: int, *, full: bool, as_json: bool) -> None:
    from onceward.proof.simulation.exhaustive import FULL, SHORT, visit_all

    began = time.perf_counter()
    bounds = FULL if full else SHORT
    census = visit_all(
        patches, bounds, jobs=jobs, report=lambda so_far: progress(f"{so_far.moments:,} moments, no violation")
    )
    seconds, found = time.perf_counter() - began, census.violation
    limits = [{"crashes": bound.crashes, "delays": bound.delays} for bound in bounds]
    facts: dict[str, object] = {
        "bounds": limits,
        "moments": census.moments,
        "starts": census.starts,
        "lives": census.lives,
        "steps": census.steps,
        "met_again": census.met_again,
        "seconds": round(seconds, 2),
        "violation": _facts(found) if found is not None else None,
    }
    at_most = " or ".join(f"{bound.crashes} + {bound.delays}" for bound in bounds)
    text = (
        f"2 tasks, 2 partitions, 3 epochs, crashes + delayed messages at most {at_most}: "
        f"{census.moments:,} different moments; {census.met_again:,} ways led to one that was known. "
        f"{census.starts:,} starts, {census.lives:,} lives of drivers, {census.steps:,} steps in {seconds:.1f} s. "
    )
    text += "No violation." if found is None else "\n" + _text(found)
    result(facts, text, as_json=as_json)
    if found is not None:
        raise typer.Exit(EXIT_VIOLATION)


def _conclude(tally: "Tally", seconds: float, also: "Told | None", *, as_json: bool) -> None:
    found, (reading, in_words, is_broken) = tally.violation, also or (None, "", False)
    facts: dict[str, object] = {
        "schedules": tally.schedules,
        "steps": tally.steps,
        "drivers": tally.drivers,
        "fault_and_step_pairs": len(tally.reached),
        "seconds": round(seconds, 2),
        "schedules_per_second": round(tally.schedules / max(seconds, 1e-9)),
        "violation": _facts(found) if found is not None else None,
        "reading": reading,
    }
    text = (
        f"{tally.schedules:,} schedules, {tally.steps:,} steps, {tally.drivers:,} drivers in {seconds:.1f} s "
        f"({facts['schedules_per_second']} a second); {len(tally.reached)} pairs of fault and step were met. "
    )
    text += f"No violation.\n{in_words}".rstrip() if found is None else "\n" + _text(found)
    result(facts, text, as_json=as_json)
    if found is not None or is_broken:
        raise typer.Exit(EXIT_VIOLATION)


def _tell(seed: int, patches: "Patches | None", *, as_json: bool) -> None:
    from onceward.proof.simulation.campaign import quick
    from onceward.proof.simulation.schedule import scheduled
    from onceward.proof.simulation.simulate import simulate as run_one

    lines: list[str] = []
    schedule = scheduled(seed)
    with quick():
        run = run_one(schedule, patches, lines)
    facts = {
        "seed": seed,
        "pipeline": schedule.shape.name,
        "faults": [list(fault) for fault in schedule.faults],
        "story": lines,
        "violations": dict(run.violations),
    }
    broken = [f"{name}: {line}" for name, found in run.violations.items() for line in found]
    end = "\n".join(["VIOLATION", *broken]) if broken else "No violation."
    result(facts, "\n".join([_heading(schedule), *lines, end]), as_json=as_json)
    if broken:
        raise typer.Exit(EXIT_VIOLATION)


def _show_planted(jobs: int, *, as_json: bool) -> None:
    from onceward.proof.planted import PLANTS
    from onceward.proof.planted.hunt import hunt
    from onceward.proof.simulation.campaign import in_order

    rows: list[dict[str, object]] = []
    for name, caught in zip(PLANTS, in_order(hunt, [(name, BOUND) for name in PLANTS], jobs), strict=True):
        found = {"checkers": caught.checkers, "schedules": caught.schedules, "seed": caught.seed}
        rows.append({"bug": name, "says": PLANTS[name].says, **found})
        progress(f"{name}: {', '.join(caught.checkers) or 'NOT CAUGHT'} after {caught.schedules:,}")
    missed = [row["bug"] for row in rows if not row["checkers"]]
    width = max(len(name) for name in PLANTS)
    lines = [f"{'planted bug':{width}}  schedules  caught by"]
    for row in rows:
        checkers = row["checkers"]
        assert isinstance(checkers, list)
        lines.append(f"{row['bug']:{width}}  {row['schedules']:9,}  {', '.join(checkers) or 'NOT CAUGHT'}")
    lines.append(f"{len(rows) - len(missed)} of {len(rows)} caught.")
    result({"planted": rows, "missed": missed}, "\n".join(lines), as_json=as_json)
    if missed:
        raise typer.Exit(EXIT_VIOLATION)


def _facts(found: "Violation") -> dict[str, object]:
    return {
        "seed": found.schedule.seed,
        "pipeline": found.schedule.shape.name,
        "broken": found.broken,
        "shortest": {"epochs": found.shortest.epochs, "faults": [list(fault) for fault in found.shortest.faults]},
        "shortest_broken": found.shortest_broken,
        "story": found.story,
    }


def _text(found: "Violation") -> str:
    broken = [f"  {name}: {line}" for name, lines in found.shortest_broken.items() for line in lines]
    return "\n".join(
        [
            f"VIOLATION with seed {found.schedule.seed}: {', '.join(found.broken)}",
            f"The shortest schedule like it: {_heading(found.shortest)}",
            *found.story,
            *broken,
            f"Replay the whole one: onceward simulate --seed {found.schedule.seed} --story",
        ]
    )


def _heading(schedule: object) -> str:
    from onceward.proof.simulation.schedule import Schedule

    assert isinstance(schedule, Schedule)
    faults = ", ".join(f"{fault.kind}@{fault.step}" for fault in schedule.faults)
    return f"pipeline {schedule.shape.name!r}, {schedule.epochs} epochs, faults: {faults or 'none'}"
