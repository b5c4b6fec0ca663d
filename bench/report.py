"""What a benchmark found, as a table for people and as JSON for programs. Pure.

A system with a void sample has no figure: a wrong answer has no speed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.figures import Figure, ratio
from bench.rounds import Sample

FASTER = ("records/s", "updates/s", "commits/s")  # more is better; everything else is a cost


@dataclass(slots=True)
class Report:
    """One benchmark. `base`: the system that the others are compared with, by their first metric."""

    id: str
    title: str
    base: str = ""
    samples: list[Sample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    circumstances: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(it.case for it in self.samples))

    def systems(self, case: str) -> list[str]:
        return list(dict.fromkeys(it.system for it in self.samples if it.case == case))

    def of(self, case: str, system: str) -> list[Sample]:
        """Of the rounds that count."""
        counted = self.counted(case)
        return [it for it in self.samples if (it.case, it.system) == (case, system) and it.round in counted]

    def counted(self, case: str) -> set[int]:
        """Rounds in which nobody was disturbed; all of them where there is no such round."""
        rounds = {it.round for it in self.samples if it.case == case}
        return rounds - {it.round for it in self.samples if it.case == case and it.busy} or rounds

    @property
    def void(self) -> list[str]:
        """Why systems have no result."""
        return [
            f"{it.case}: {it.system}: round {it.round + 1}: {'; '.join(it.wrong)}" for it in self.samples if it.wrong
        ]

    @property
    def disturbed(self) -> int:
        """Samples that count although others used the machine meanwhile."""
        return sum(it.busy for it in self.samples if it.round in self.counted(it.case))

    def values(self, case: str, system: str) -> dict[str, list[float]]:
        """Of each metric, one a round; none for a system that was wrong once."""
        samples = self.of(case, system)
        if any(it.wrong for it in self.samples if (it.case, it.system) == (case, system)):
            return {}
        found: dict[str, list[float]] = {}
        for sample in samples:
            for metric, value in sample.metrics.items():
                found.setdefault(metric, []).append(value)
        return found

    def figures(self, case: str, system: str) -> dict[str, Figure]:
        return {metric: Figure.of(values) for metric, values in self.values(case, system).items()}

    def against_base(self, case: str, system: str) -> Figure | None:
        """By the first metric of the base, round by round."""
        base = self.values(case, self.base)
        if not base:
            return None
        metric = next(iter(base))
        return ratio(self.values(case, system).get(metric, []), base[metric])

    def markdown(self) -> str:
        parts = [_table(self, case) for case in self.cases]
        notes = [f"- {it}" for it in [*self._said(), *self.notes]]
        return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])

    def _said(self) -> Iterable[str]:
        if self.disturbed:
            yield (
                f"Disturbed: during {self.disturbed} of {len(self.samples)} samples (marked *) other processes used "
                "the machine."
            )
        for case in self.cases:
            left = sorted(
                {it.round + 1 for it in self.samples if it.case == case} - {it + 1 for it in self.counted(case)}
            )
            if left:
                rounds = f"round{'s' if len(left) > 1 else ''} {', '.join(map(str, left))}"
                yield f"Left out: {rounds} of {case}, in which other processes used the machine."
        yield from (f"No result: {it}" for it in self.void)

    def facts(self) -> dict[str, Any]:
        """Everything, round by round, and what it comes to."""
        return {
            "id": self.id,
            "title": self.title,
            **self.circumstances,
            "settings": self.settings,
            "base": self.base,
            "disturbed": self.disturbed,
            "void": self.void,
            "notes": self.notes,
            "figures": {
                case: {
                    system: {metric: asdict(it) for metric, it in self.figures(case, system).items()}
                    for system in self.systems(case)
                }
                for case in self.cases
            },
            "samples": [{**asdict(it), "busy": it.busy} for it in self.samples],
        }

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> "Report":
        """What `facts` told."""
        samples = [
            Sample(
                **{name: value for name, value in it.items() if name not in ("busy", "wrong")}, wrong=tuple(it["wrong"])
            )
            for it in facts["samples"]
        ]
        about = {name: facts[name] for name in ("machine", "date", "load", "commit") if name in facts}
        return cls(
            facts["id"], facts["title"], facts["base"], samples, list(facts["notes"]), about, dict(facts["settings"])
        )


def _table(report: Report, case: str) -> str:
    systems = report.systems(case)
    figures = {system: report.figures(case, system) for system in systems}
    metrics = list(dict.fromkeys(metric for found in figures.values() for metric in found))
    compared = bool(report.base) and report.base in systems and len(systems) > 1
    head = [case, *metrics, *([f"x {report.base}"] if compared else [])]
    rows = []
    for system in systems:
        mark = " *" if any(it.busy for it in report.of(case, system)) else ""
        cells = [f"{system}{mark}", *(_cell(figures[system], metric) for metric in metrics)]
        if compared:
            times = report.against_base(case, system)
            cells.append(times.text() if times else "no result")
        rows.append(cells)
    return "\n".join(_row(it) for it in [head, ["---", *["---:"] * (len(head) - 1)], *rows])


def _cell(figures: Mapping[str, Figure], metric: str) -> str:
    if metric in figures:
        return figures[metric].text()
    return "-" if figures else "no result"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
