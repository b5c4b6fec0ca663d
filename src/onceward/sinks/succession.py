"""Which epoch a staged one follows. A target that says otherwise later has forgotten commits, and nothing is added.

The predecessor is what the target had committed last when the epoch began; a committable names it under `AFTER`. Only
the commit of the staged epoch itself may change that, so a marker that is older, or gone, means that somebody has set
the target back. A committable without the key is committed without the question: a person has looked and said so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceward.epoch.contract import AFTER, LastCommit, Owner
from onceward.errors import MarkerMissing

Predecessor = list[Any] | None  # lineage and epoch, as JSON has them; None: no epoch at all


@dataclass(slots=True)
class Succession:
    """What a sink object was told by its target last; forgotten at a commit, which changes it."""

    _known: bool = False
    _after: Predecessor = None

    def told(self, last: LastCommit | None) -> LastCommit | None:
        """The target's answer to `last_commit`: whoever asked has judged it, so the next epoch follows this one."""
        self._known, self._after = True, _named(last)
        return last

    def begin(self, owner: Owner, epoch: int, last: LastCommit | None) -> None:
        """The target's answer when an epoch begins; raises if it has changed since `last_commit` was asked."""
        if self._known and self._after != _named(last):
            raise MarkerMissing(
                f"epoch {epoch} of pipeline {owner.pipeline!r} was to follow {_said(self._after)}, but the target of "
                f"sink {owner.sink!r} now says {_said(_named(last))}: {_CAUSES}. Nothing of epoch {epoch} is written. "
                "Check what the target holds, then start again."
            )
        self.told(last)

    def forget(self) -> None:
        """A commit was asked for, or the sink is opened anew."""
        self._known = False

    @property
    def noted(self) -> Mapping[str, Any]:
        return {AFTER: self._after} if self._known else {}


def require_predecessor(
    owner: Owner, epoch: int, committable: Mapping[str, Any], last: LastCommit | None, way_out: str
) -> None:
    """Raise unless the target still says what it said when the epoch began."""
    if AFTER not in committable or committable[AFTER] == _named(last):
        return
    raise MarkerMissing(
        f"epoch {epoch} of pipeline {owner.pipeline!r} is decided and follows {_said(committable[AFTER])}, but the "
        f"target of sink {owner.sink!r} now says {_said(_named(last))}: {_CAUSES}. Nothing of epoch {epoch} is "
        f"committed, and it stays staged. {way_out}"
    )


_CAUSES: Final = (
    "it was set back since the epoch began (a restored backup, a failover to a replica that lagged, a rollback), or "
    "its marker was changed or deleted"
)


def _named(last: LastCommit | None) -> Predecessor:
    return None if last is None else [last.lineage, last.epoch]


def _said(found: Predecessor) -> str:
    return "no epoch at all" if found is None else f"epoch {found[1]} of lineage {found[0]}"
