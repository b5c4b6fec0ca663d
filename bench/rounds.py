"""Interleaved rounds: A B C A B C ..., each measured, checked, and repeated while others use the machine.

A sample whose output is wrong is void: its system has no figure at all. A sample that others disturbed is taken again,
a bounded number of times; then the least disturbed one counts, and says so.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.cpu import Snapshot, used

BUSY = 0.05  # of the machine, taken by others: above this a sample is disturbed
REPEATS = 2


class Failed(Exception):
    """A system did not do what it was asked; it has no figure."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one system did in one round. `check` looks at the output afterwards and returns what is wrong with it."""

    metrics: Mapping[str, float]
    records: int = 0  # for CPU per million records; 0: not told
    check: Callable[[], Sequence[str]] = lambda: ()


@dataclass(frozen=True, slots=True)
class Subject:
    """A system under measurement. `parts`: roots of its processes by name, as of now; "job" is told by kind.

    `ready`: what makes it one that has been running, before each round; nobody measures it.
    """

    name: str
    run: Callable[[], Outcome]
    parts: Callable[[], Mapping[str, int]] = dict
    ready: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class Sample:
    case: str
    system: str
    round: int
    metrics: Mapping[str, float]
    seconds: float
    others: float  # share of the machine
    wrong: tuple[str, ...] = ()
    attempts: int = 1

    @property
    def busy(self) -> bool:
        return self.others > BUSY


class Rounds:
    """Takes samples; the clock of /proc can be another one, for tests."""

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        repeats: int = REPEATS,
        look: Callable[[], Snapshot] = lambda: Snapshot.take(time.monotonic()),
    ) -> None:
        self.samples: list[Sample] = []
        self._say, self._repeats, self._look = say, repeats, look

    def interleave(self, case: str, subjects: Sequence[Subject], rounds: int) -> None:
        for number in range(rounds):
            for subject in subjects:
                sample = self._settled(case, subject, number)
                self.samples.append(sample)
                self._say(f"{case}: round {number + 1} of {rounds}, {subject.name}: {_told(sample)}")

    def _settled(self, case: str, subject: Subject, number: int) -> Sample:
        best: Sample | None = None
        for attempt in range(1, self._repeats + 2):
            sample = self._sample(case, subject, number, attempt)
            if sample.wrong or not sample.busy:
                return sample
            if best is None or sample.others < best.others:
                best = sample
            if attempt <= self._repeats:
                self._say(f"{case}: {subject.name}: others took {sample.others:.0%} of the machine, once more")
        assert best is not None
        return best

    def _sample(self, case: str, subject: Subject, number: int, attempt: int) -> Sample:
        subject.ready()
        parts = subject.parts()
        before = self._look()
        try:
            outcome = subject.run()
        except Failed as failed:
            said = f"failed: {str(failed)[:300]}"
            outcome = Outcome({}, check=lambda: [said])
        usage = used(before, self._look(), ours=os.getpid(), parts=parts)
        metrics = dict(outcome.metrics)
        if outcome.records:
            millions = outcome.records / 1e6
            metrics |= {f"{kind} CPU s/M": spent / millions for kind, spent in usage.cpu.items()}
            if "job" in parts:
                metrics["all CPU s/M"] = sum(usage.cpu.values()) / millions
        wrong = _judged(outcome)
        return Sample(case, subject.name, number, metrics, usage.seconds, usage.others, wrong, attempt)


def _judged(outcome: Outcome) -> tuple[str, ...]:
    try:
        return tuple(outcome.check())
    except Exception as error:  # noqa: BLE001 - an output that cannot be read is no result; the others go on
        return (f"its output could not be read: {type(error).__name__}: {str(error)[:200]}",)


def _told(sample: Sample) -> str:
    if sample.wrong:
        return f"VOID: {'; '.join(sample.wrong)}"
    first, value = next(iter(sample.metrics.items()), ("", 0.0))
    busy = f" (disturbed: others took {sample.others:.0%} of the machine)" if sample.busy else ""
    return f"{value:,.4g} {first}{busy}"
