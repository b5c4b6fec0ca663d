"""Benchmarks by their ids; `onceward bench` is the same.

    python -m bench [IDS] [--rounds N] [--records N] [--seconds N] [--systems A,B] [--json] [--list] [--update-page]

Without ids: the set that fits into ten minutes, in short form. Progress goes to standard error; each benchmark's table
to standard output and, with JSON and a picture, into bench/results/. Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 an
output was wrong, so that a system has no result.
"""

import argparse
import importlib
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from bench import results
from bench.cpu import adopt_orphans
from bench.report import Report
from bench.rounds import Failed
from bench.stage import Options, staged
from onceward.errors import OncewardError

MODULES = {
    "P0": "p0_ceiling",
    "P1": "p1_write",
    "P2": "p2_copy",
    "P3": "p3_function",
    "P4": "p4_guarantee",
    "P5": "p5_latency",
    "P6": "p6_ads",
    "P7": "p7_sinks",
    "P8": "p8_recovery",
    "P9": "p9_commits",
    "P11": "p11_state",
    "G1": "g1_epochs",
    "G2": "g2_partitions",
    "G3": "g3_sinks",
    "G4": "g4_memory",
    "G5": "g5_ledger",
}
TEN_MINUTES = ("P0", "P1", "P2", "P4", "P5", "P9")
WRONG, FAILED = 3, 1


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def module(identifier: str) -> ModuleType:
    return importlib.import_module(f"bench.{MODULES[identifier]}")


def measure(identifier: str, options: Options, folder: Path) -> Report:
    """One benchmark, its results written."""
    made = module(identifier)
    with staged(identifier, made.TITLE, options, say) as stage:
        stage.report.base = made.BASE
        made.run(stage)
    say(f"{identifier}: {results.write(stage.report, folder)}")
    return stage.report


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="onceward bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", metavar="ID", type=str.upper, help="P2 G1 ...; all of them: --list")
    parser.add_argument("--rounds", type=int, help="of each system; the default is the benchmark's own")
    parser.add_argument("--records", type=int, help="of each round")
    parser.add_argument("--epoch-records", type=int, help="of P2 and P3; 0: everything in one epoch")
    parser.add_argument("--seconds", type=int, help="of each round, where records are sent on schedule")
    parser.add_argument("--systems", default="", help="some of a benchmark's systems, joined by commas")
    parser.add_argument("--short", action="store_true", help="smaller and fewer, as without ids")
    parser.add_argument("--repeats", type=int, default=2, help="of a round that others disturbed")
    parser.add_argument("--results", type=Path, default=results.FOLDER, help="a folder for what was found")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--list", action="store_true", help="what there is, and end")
    parser.add_argument("--update-page", action="store_true", help="put quiet results into docs/benchmarks.md, and end")
    given = parser.parse_args(arguments)
    unknown = [it for it in given.ids if it not in MODULES]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(MODULES)}")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # servers and folders are cleared away
        adopt_orphans()
    given = parsed(sys.argv[1:] if arguments is None else arguments)
    if given.list:
        for name in MODULES:
            print(f"{name:4} {module(name).TITLE}{'  (ten minutes)' if name in TEN_MINUTES else ''}")
        return 0
    if given.update_page:
        done, refused = results.update_page(given.ids or MODULES, folder=given.results)
        for line in refused:
            say(line)
        print(f"docs/benchmarks.md: {', '.join(done) or 'nothing'} updated")
        return FAILED if given.ids and refused else 0
    options = Options(
        rounds=given.rounds,
        records=given.records,
        seconds=given.seconds,
        epoch_records=given.epoch_records,
        systems=tuple(it.strip() for it in given.systems.split(",") if it.strip()),
        short=given.short or not given.ids,
        repeats=given.repeats,
    )
    reports: list[Report] = []
    try:
        for name in given.ids or TEN_MINUTES:
            report = measure(name, options, given.results)
            reports.append(report)
            if not given.json:
                print(f"\n{results.document(report)}", flush=True)
    except (Failed, OncewardError, TimeoutError) as error:
        say(f"onceward bench: {error}")
        return FAILED
    if given.json:
        print(json.dumps({report.id: report.facts() for report in reports}))
    return WRONG if any(report.void for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
