"""The marker in an Iceberg table: which epoch of which lineage a pipeline's sink has committed last.

It is written twice, in the same commit: as properties of the snapshot, for people and as a second witness, and as
properties of the table, which stay when snapshots expire.

    onceward/<pipeline>/<sink>             what was committed last, whatever its lineage: {lineage, epoch, term} as JSON
    onceward/<pipeline>/<sink>/<lineage>   the last epoch of that lineage; another lineage never changes it

Pure: no table here.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from onceward.epoch.contract import LastCommit, Owner
from onceward.errors import HomeMismatch, TargetUnusable

FORMAT: Final = 1

Texts = Mapping[str, str]


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    lineage: str
    epoch: int
    term: int


def last_commit(owner: Owner, properties: Texts, summaries: Iterable[Texts]) -> LastCommit | None:
    """Of this pipeline and sink, whatever the lineage. Summaries: of the table's snapshots, the newest first."""
    if (text := properties.get(_base(owner))) is not None:
        found = _parse(text, _base(owner))
        return LastCommit(lineage=found.lineage, epoch=found.epoch, term=found.term)
    return _newest(owner, summaries)


def in_sight(
    owner: Owner, told: LastCommit | None, history: Iterable[Texts], undone: Iterable[Texts]
) -> LastCommit | None:
    """The last commit that readers see: a table that was rolled back keeps its properties, and its old snapshots.

    history: summaries of the current snapshot and those it was made from, the newest first, as far as they are known;
    undone: of snapshots that are newer than the current one. Where ours have all expired, the properties count.
    """
    found = _newest(owner, history)
    return told if found is None and _newest(owner, undone) is None else found


def last_epoch(owner: Owner, properties: Texts, summaries: Iterable[Texts]) -> int | None:
    """Of this pipeline, sink and lineage."""
    found = [
        int(summary["onceward.epoch"])
        for summary in summaries
        if _is_ours(owner, summary) and summary["onceward.lineage"] == owner.lineage
    ]
    if (text := properties.get(_of_lineage(owner))) is not None:
        found.append(int(text))
    return max(found, default=None)


def for_table(owner: Owner, epoch: int) -> dict[str, str]:
    """What the table's properties have to say."""
    marker = _Marker(format=FORMAT, lineage=owner.lineage, epoch=epoch, term=owner.term)
    return {_base(owner): msgspec.json.encode(marker).decode(), _of_lineage(owner): str(epoch)}


def for_snapshot(owner: Owner, epoch: int) -> dict[str, str]:
    """What the snapshot's summary has to say."""
    return {
        "onceward.pipeline": owner.pipeline,
        "onceward.sink": owner.sink,
        "onceward.lineage": owner.lineage,
        "onceward.epoch": str(epoch),
        "onceward.term": str(owner.term),
    }


def _parse(text: str, name: str) -> _Marker:
    try:
        found = msgspec.json.decode(text, type=_Marker)
    except msgspec.DecodeError as error:
        raise TargetUnusable(
            f"the table's property {name!r} is no marker of ours ({error}): somebody changed it. Restore it from the "
            "newest snapshot's summary (onceward.lineage, onceward.epoch, onceward.term)."
        ) from error
    if found.format > FORMAT:
        raise HomeMismatch(
            f"the table's property {name!r} has format {found.format}, written by a newer Onceward; this one reads up "
            f"to {FORMAT}"
        )
    return found


def _newest(owner: Owner, summaries: Iterable[Texts]) -> LastCommit | None:
    for summary in summaries:
        if _is_ours(owner, summary):
            return LastCommit(
                lineage=summary["onceward.lineage"],
                epoch=int(summary["onceward.epoch"]),
                term=int(summary["onceward.term"]),
            )
    return None


def _is_ours(owner: Owner, summary: Texts) -> bool:
    return (summary.get("onceward.pipeline"), summary.get("onceward.sink")) == (owner.pipeline, owner.sink)


def _base(owner: Owner) -> str:
    return f"onceward/{quote(owner.pipeline, safe='')}/{quote(owner.sink, safe='')}"


def _of_lineage(owner: Owner) -> str:
    return f"{_base(owner)}/{quote(owner.lineage, safe='')}"
