"""What each sink must still hold: the last epoch that this driver committed there.

A database may forget what it has confirmed (a failover to a replica that lagged, a restored backup), and Kafka a
group's offsets. Whoever forgets is noticed before the next epoch is written, not at the next start
(docs/decisions/0014).
"""

from collections.abc import Mapping

from onceward.epoch.contract import DecidingSink, LastCommit, TwoPhaseCommitSink
from onceward.epoch.patience import of_sink
from onceward.epoch.recovery import NEVER
from onceward.errors import HomeMismatch, MarkerMissing


class Markers:
    """What this driver has committed to each sink, and must find there."""

    def __init__(self, pipeline: str, lineage: str, found: Mapping[str, LastCommit | None]) -> None:
        """`found`: what each sink that remembers held when the driver had recovered."""
        self._pipeline = pipeline
        self._lineage = lineage
        self._expected = dict(found)

    def last(self, sink: str) -> LastCommit | None:
        """What a sink holds, as far as this driver knows."""
        return self._expected.get(sink)

    def has_ours(self, sink: str) -> bool:
        """Whether it holds anything of this lineage: until then, after a reset, it holds the old one's."""
        last = self.last(sink)
        return last is not None and last.lineage == self._lineage

    def note(self, last: LastCommit, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
        """An epoch is committed everywhere."""
        self._expected.update((name, last) for name, sink in sinks.items() if sink.remembers)

    def require(self, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
        """Ask every sink that remembers."""
        for name, sink in sinks.items():
            if sink.remembers:
                with of_sink(name):
                    now = sink.last_commit()
                self._compare(name, self._expected.get(name), now, isinstance(sink, DecidingSink))

    def _compare(self, sink: str, was: LastCommit | None, now: LastCommit | None, decides: bool) -> None:  # noqa: FBT001
        before = was.epoch if was is not None else NEVER
        found = now.epoch if now is not None else NEVER
        if now is not None and was is not None and (now.lineage, now.epoch) == (was.lineage, was.epoch):
            return  # also what a sink held before this lineage began
        if now is not None and now.lineage != self._lineage:
            raise HomeMismatch(
                f"sink {sink!r} now holds epoch {now.epoch} of {self._pipeline!r} under lineage {now.lineage}: another "
                "home runs under the same name. Nothing more is written; stop one of them."
            )
        if found < before or (was is not None and now is None and decides):
            says = "has no marker any more" if now is None else f"now says {found}"
            raise MarkerMissing(
                f"sink {sink!r} confirmed epoch {before} of {self._pipeline!r} to this driver, and {says}: it was set "
                "back (a failover to a replica that lagged, a restored backup), or somebody removed its marker. "
                "Nothing more is written. Restore what it has lost, or check what it holds and start with "
                "--trust-ledger (trust_ledger=True) to go on after the last epoch without it."
            )
        if found > before:
            raise HomeMismatch(
                f"sink {sink!r} holds epoch {found} of {self._pipeline!r}, but this driver committed only up to "
                f"{before} there: somebody else writes under the pipeline's name. Nothing more is written."
            )
