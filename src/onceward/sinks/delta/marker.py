"""The marker in a Delta table's log: which epoch of which lineage a pipeline's sink has committed last.

Delta keeps a whole number for each application id (its `txn` action), carries these numbers from checkpoint to
checkpoint, and never drops one that has no time on it. Everything else in a log entry goes when the log is cleaned up.
So all of the marker is told in numbers, in the log entry that names the files:

    onceward/<pipeline>/<sink>/epoch/<lineage>   the last epoch of that lineage; another lineage never changes it
    onceward/<pipeline>/<sink>/term              the term that committed last
    onceward/<pipeline>/<sink>/lineage           how many bytes the name of the lineage that committed last has,
    onceward/<pipeline>/<sink>/lineage/0, 1 ...  and these bytes, seven in each number

The lineage is spelled only by the first commit of a lineage: afterwards an entry has two numbers. Pure: no table here.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from onceward.epoch.contract import LastCommit, Owner
from onceward.errors import TargetUnusable

_BYTES: Final = 7  # what fits into a signed 64-bit number and stays positive

Versions = Callable[[str], int | None]  # what a table answers for an application id


def last_commit(owner: Owner, version_of: Versions) -> LastCommit | None:
    """Of this pipeline and sink, whatever the lineage."""
    base = _base(owner)
    length = version_of(f"{base}/lineage")
    if length is None:
        return None
    numbers = [version_of(f"{base}/lineage/{index}") for index in range(_count(length))]
    term = version_of(f"{base}/term")
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers) or term is None:
        raise _damaged(base)
    try:
        lineage = b"".join(number.to_bytes(_BYTES, "big") for number in known)[:length].decode()
    except (OverflowError, UnicodeDecodeError):
        raise _damaged(base) from None
    epoch = version_of(_epoch_id(base, lineage))
    if epoch is None:
        raise _damaged(base)
    return LastCommit(lineage=lineage, epoch=epoch, term=term)


def last_epoch(owner: Owner, version_of: Versions) -> int | None:
    """Of this pipeline, sink and lineage."""
    return version_of(_epoch_id(_base(owner), owner.lineage))


def numbers(owner: Owner, epoch: int, last: LastCommit | None) -> dict[str, int]:
    """What a log entry that commits this epoch has to carry."""
    base = _base(owner)
    marks = {_epoch_id(base, owner.lineage): epoch, f"{base}/term": owner.term}
    if last is None or last.lineage != owner.lineage:
        spelled = owner.lineage.encode()
        marks[f"{base}/lineage"] = len(spelled)
        padded = spelled.ljust(_count(len(spelled)) * _BYTES, b"\0")
        for index in range(_count(len(spelled))):
            marks[f"{base}/lineage/{index}"] = int.from_bytes(padded[index * _BYTES : (index + 1) * _BYTES], "big")
    return marks


def _base(owner: Owner) -> str:
    return f"onceward/{quote(owner.pipeline, safe='')}/{quote(owner.sink, safe='')}"


def _epoch_id(base: str, lineage: str) -> str:
    return f"{base}/epoch/{quote(lineage, safe='')}"


def _count(length: int) -> int:
    return -(-length // _BYTES)


def _damaged(base: str) -> TargetUnusable:
    return TargetUnusable(
        f"the table's log has only a part of the marker {base}: somebody else writes under our application ids. "
        "Restore the table from a backup; going on would lose or double rows."
    )
