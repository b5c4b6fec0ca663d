"""`make prove`: the long proof. A million simulated schedules, a thousand real kills in several runs, and sequences.

    python -m bench.proof [--kills N] [--schedules N] [--sequences N] [--folder DIR]
    python -m bench.proof --table [--folder DIR]     only the table of the runs that are there

Each run leaves its page and its result in DIR; the table is made of these (docs/proof.md holds the last one).
A run that is there already is not done again, so an interrupted proof goes on where it was.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# Seed, share of the kills, brokers, sinks.
RUNS = (
    (101, 0.12, 1, "kafka,postgres,files,delta"),
    (102, 0.12, 1, "kafka,postgres,files,delta"),
    (103, 0.12, 1, "kafka,postgres"),
    (104, 0.10, 1, "kafka"),
    (105, 0.10, 1, "postgres,files"),
    (106, 0.10, 1, "kafka,files,delta"),
    (107, 0.10, 1, "kafka,postgres,files,delta"),
    (301, 0.12, 3, "kafka,postgres,files,delta"),
    (302, 0.12, 3, "kafka,files"),
)
FIRST_SEQUENCE = 501  # its seed


def simulate(schedules: int, folder: Path) -> None:
    file = folder / "simulation.json"
    if schedules and not file.exists():
        command = [sys.executable, "-m", "onceward", "simulate", "--schedules", str(schedules), "--jobs", "2", "--json"]
        told = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        file.write_text(told.stdout.splitlines()[-1])


def kill(kills: int, folder: Path) -> None:
    for seed, share, brokers, sinks in RUNS:
        target = folder / f"seed-{seed}"
        if (target / "result.json").exists():
            continue
        command = [
            sys.executable, "-m", "onceward", "prove", "--kills", str(round(kills * share)), "--seed", str(seed),
            "--brokers", str(brokers), "--sinks", sinks, "--report", str(target),
        ]  # fmt: skip
        print(f"\n== {' '.join(command[2:])}", flush=True)
        subprocess.run(command, check=True)


def play(sequences: int, folder: Path) -> None:
    """What people do to pipelines. A broken one is told in the result, too; that ends the proof."""
    file = folder / "sequences.json"
    if sequences and not file.exists():
        asked = ("--sequences", str(sequences), "--seed", str(FIRST_SEQUENCE), "--json")
        told = subprocess.run(
            [sys.executable, "-m", "onceward", "prove", *asked], stdout=subprocess.PIPE, check=False, text=True
        )
        if told.returncode in (0, 3):
            file.write_text(told.stdout.splitlines()[-1])
        told.check_returncode()


def table(folder: Path) -> str:
    results = [json.loads(file.read_text()) for file in sorted(folder.glob("seed-*/result.json"))]
    columns = [
        "seed",
        "brokers",
        "sinks",
        "kills",
        "others",
        "points",
        "records",
        "epochs",
        "resolved",
        "aborted",
        "violations",
        "recovery",
    ]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *(_line(it) for it in results)]
    if results:
        lines.append(_total(results))
    file = folder / "simulation.json"
    if file.exists():
        it = json.loads(file.read_text())
        found = "a violation" if it["violation"] else "no violation"
        lines.append(
            f"\nSimulated: {it['schedules']:,} schedules, {it['steps']:,} steps, {it['drivers']:,} drivers, "
            f"{it['schedules_per_second']:,} schedules a second: {found}."
        )
    file = folder / "sequences.json"
    if file.exists():
        it = json.loads(file.read_text())
        found = f"{len(it['broken'])} not exact: {', '.join(it['broken'])}" if it["broken"] else "all exact"
        lines.append(
            f"\nSequences: {it['sequences']:,} with {sum(it['actions'].values()):,} actions, "
            f"{sum(it['kills'].values()):,} kills at {len(it['kills'])} points, "
            f"{sum(it['refusals'].values()):,} refusals, {it['records']:,} records compared: {found}."
        )
    return "\n".join(lines)


def _line(it: dict[str, Any]) -> str:
    hit = sum(times > 0 for times in it["points"].values())
    others = sum(it["faults"].values()) - it["kills"]
    recovery = f"{it['recovery_p50_s']:.1f} / {it['recovery_p95_s']:.1f} s" if it["recoveries_s"] else ""
    broken = ", ".join(it["broken"]) or "0"
    return (
        f"| {it['seed']} | {it['brokers']} | {', '.join(it['sinks'])} | {it['kills']} | {others} "
        f"| {hit} of {len(it['points'])} | {it['records_in']:,} | {it['epochs']:,} | {it['resolved']} "
        f"| {it['watched']['aborted']:,} | {broken} | {recovery} |"
    )


def _total(results: list[dict[str, Any]]) -> str:
    times = sorted(took for it in results for took in it["recoveries_s"])
    p50, p95 = (times[max(0, -(-len(times) * percent // 100) - 1)] for percent in (50, 95))
    total = {name: sum(it[name] for it in results) for name in ("kills", "records_in", "epochs", "resolved")}
    others = sum(sum(it["faults"].values()) for it in results) - total["kills"]
    aborted, broken = (sum(it["watched"]["aborted"] for it in results), sum(bool(it["broken"]) for it in results))
    hit = {point for it in results for point, times in it["points"].items() if times}
    known = {point for it in results for point in it["points"]}
    return (
        f"| **all** | | | **{total['kills']}** | {others} | {len(hit)} of {len(known)} | {total['records_in']:,} "
        f"| {total['epochs']:,} | {total['resolved']} | {aborted:,} | **{broken}** | {p50:.1f} / {p95:.1f} s |"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--schedules", type=int, default=1_000_000)
    options.add_argument("--sequences", type=int, default=500)
    options.add_argument("--folder", type=Path, default=Path("build/proof"))
    options.add_argument("--table", action="store_true")
    given = options.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if not given.table:
        simulate(given.schedules, given.folder)
        play(given.sequences, given.folder)
        kill(given.kills, given.folder)
    print(table(given.folder))


if __name__ == "__main__":
    main()
