"""bench/results/: each benchmark's last run as JSON, table and picture; and the page, which shows quiet runs."""

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from bench.machine import ROOT
from bench.plot import svg
from bench.report import Report

FOLDER = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"


def write(report: Report, folder: Path = FOLDER) -> Path:
    """What this run found, in place of an older run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{report.id}.json").write_text(json.dumps(report.facts(), indent=1) + "\n", "utf-8")
    (folder / f"{report.id}.md").write_text(document(report), "utf-8")
    (folder / f"{report.id}.svg").write_text(svg(report), "utf-8")
    return folder / f"{report.id}.md"


def _said(value: object) -> str:
    return "; ".join(f"{name} {it:,}" for name, it in value.items()) if isinstance(value, dict) else str(value)


def document(report: Report) -> str:
    return f"# {report.id}: {report.title}\n\n{_taken(report)}\n\n{report.markdown()}\n"


def _taken(report: Report) -> str:
    about = report.circumstances
    settings = ", ".join(f"{name} {_said(value)}" for name, value in report.settings.items())
    return (
        f"Taken {about.get('date', '')} at {about.get('commit', '') or 'an unknown commit'} "
        f"on {about.get('machine', '')}, which also ran the broker, the feeder and the reader ({settings})."
    )


def update_page(
    ids: Iterable[str], *, folder: Path = FOLDER, page: Path = PAGE, pictures: Path = PICTURES
) -> tuple[list[str], list[str]]:
    """Put results between their markers. Returns which, and why others were not: a disturbed run is no figure."""
    text = page.read_text("utf-8")
    done, refused = [], []
    for name in ids:
        file = folder / f"{name}.json"
        marked = re.compile(rf"(<!-- bench:{name} -->\n).*?(<!-- /bench:{name} -->)", re.DOTALL)
        if not file.exists():
            refused.append(f"{name}: there is no result; run `onceward bench {name}`")
            continue
        report = Report.read(json.loads(file.read_text("utf-8")))
        if report.disturbed or report.void:
            refused.append(f"{name}: the run was {'disturbed' if report.disturbed else 'wrong'}; take it again")
            continue
        place = marked.search(text)
        if place is None:
            refused.append(f"{name}: {page.name} has no place for it (<!-- bench:{name} -->)")
            continue
        text = f"{text[: place.end(1)]}{_section(report)}\n{text[place.start(2) :]}"
        pictures.mkdir(exist_ok=True)
        shutil.copy(folder / f"{name}.svg", pictures / f"bench-{name}.svg")
        done.append(name)
    page.write_text(text, "utf-8")
    return done, refused


def _section(report: Report) -> str:
    return f"![{report.title}](pictures/bench-{report.id}.svg)\n\n{report.markdown()}\n\n{_taken(report)}\n"
