"""Which epoch a staged one follows. A commit that finds another one in the target stops: the target has forgotten.

A committable names its predecessor under `AFTER`: the epoch that the target had committed last when this one began.
Nothing but a commit of the staged epoch itself may change that before it is committed, so a marker that is older, or
gone, means that somebody has set the target back. A committable without the key is committed without the question: it
is of an older release, or a person has looked and said so.
"""

from collections.abc import Mapping
from typing import Any, Final

from onceward.epoch.contract import LastCommit, Owner
from onceward.errors import MarkerMissing

AFTER: Final = "after"

Predecessor = list[Any] | None  # lineage and epoch, as JSON has them; None: the first epoch of all


def predecessor(last: LastCommit | None) -> Predecessor:
    """What to write down when an epoch begins, from what the target says then."""
    return None if last is None else [last.lineage, last.epoch]


def require_predecessor(
    owner: Owner, epoch: int, committable: Mapping[str, Any], last: LastCommit | None, way_out: str
) -> None:
    """Raise unless the target still says what it said when the epoch began."""
    if AFTER not in committable or committable[AFTER] == predecessor(last):
        return
    raise MarkerMissing(
        f"epoch {epoch} of pipeline {owner.pipeline!r} is decided and follows {_said(committable[AFTER])}, but the "
        f"target of sink {owner.sink!r} now says {_said(predecessor(last))}: it was set back after the epoch began (a "
        "restored backup, a failover to a replica that lagged, a rollback), or its marker was changed or deleted. "
        f"Nothing of epoch {epoch} is committed, and it stays staged. {way_out}"
    )


def _said(found: Predecessor) -> str:
    return "no epoch at all" if found is None else f"epoch {found[1]} of lineage {found[0]}"
