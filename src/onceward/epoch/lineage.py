"""A savepoint against what the sinks hold: may a new lineage begin with it, and what would be doubled or lost? Pure."""

from collections.abc import Iterable, Mapping

from onceward.epoch.checkpoint import kafka_positions
from onceward.epoch.contract import LastCommit
from onceward.epoch.ledger import Entry
from onceward.errors import SavepointOutdated

Inherited = dict[str, tuple[str, int]]


def inherited(
    saved: Entry,
    pipeline: str,
    found: Mapping[str, LastCommit | None],
    since: Iterable[Entry] = (),
    *,
    held: Mapping[str, tuple[str, int]] | None = None,
    knowingly: bool = False,
) -> Inherited:
    """What each sink that remembers holds as the lineage begins; an error if that is not what the savepoint knows.

    `saved`: the ledger's entry of the savepoint's epoch. `since`: what the home has committed, where it is known.
    `held`: what sinks held at that moment that is of an older lineage still. `knowingly`: a person has read the error
    and wants it all the same.
    """
    since = list(since)
    told = [
        line
        for name, last in sorted(found.items())
        if (last is None or pipeline != saved.pipeline or (held or {}).get(name) != (last.lineage, last.epoch))
        and (line := _difference(saved, pipeline, name, last, since))
    ]
    if told and not knowingly:
        lines = "".join(f"\n  - {line}" for line in told)
        raise SavepointOutdated(
            f"the savepoint is of epoch {saved.epoch} of pipeline {saved.pipeline!r} (lineage {saved.lineage[:8]}), "
            f"and its sinks hold something else:{lines}\nNothing was touched. Restore a savepoint that fits, or put "
            "the sinks right first; or start with --new-lineage (new_lineage=True) to begin a new lineage knowingly: "
            "what the sinks hold stays there, and everything after the savepoint is committed as new."
        )
    return {name: (last.lineage, last.epoch) for name, last in found.items() if last is not None}


def _difference(saved: Entry, pipeline: str, sink: str, last: LastCommit | None, since: list[Entry]) -> str:
    """In words; empty: it is as the savepoint says."""
    if last is None:
        return _nothing(saved, pipeline, sink)
    if pipeline != saved.pipeline:
        return (
            f"sink {sink!r} holds epoch {last.epoch} of a pipeline named {pipeline!r} already: choose another name for "
            "the copy"
        )
    if last.lineage != saved.lineage:
        return (
            f"sink {sink!r} holds epoch {last.epoch} of lineage {last.lineage[:8]}, which is another one: the "
            "savepoint was restored before, or the pipeline was started anew. What that one has committed"
            f"{_told([entry for entry in since if entry.lineage == last.lineage], sink)} would be doubled"
        )
    if last.epoch > saved.epoch:
        return _ahead(saved, sink, last, since)
    if last.epoch < saved.epoch:
        return (
            f"sink {sink!r} holds epochs only up to {last.epoch}, the savepoint is newer: epochs {last.epoch + 1} to "
            f"{saved.epoch} are missing there (restored from a backup?) and would stay missing"
        )
    return ""


def _nothing(saved: Entry, pipeline: str, sink: str) -> str:
    if pipeline != saved.pipeline or sink not in saved.sinks:
        return ""
    return (
        f"sink {sink!r} holds no epoch of the pipeline, the savepoint knows of epochs up to {saved.epoch} there: it "
        "was emptied, restored from an older backup, or is another one. These epochs would be missing"
    )


def _ahead(saved: Entry, sink: str, last: LastCommit, since: list[Entry]) -> str:
    later = [it for it in since if it.lineage == saved.lineage and saved.epoch < it.epoch <= last.epoch]
    complete = {entry.epoch for entry in later} == set(range(saved.epoch + 1, last.epoch + 1))
    rows = sum(entry.sinks[sink].rows for entry in later if sink in entry.sinks)
    records = f"{rows} records" if complete else "a number of records that only its home knows"
    begins = kafka_positions(saved.positions)
    newest = max(later, key=lambda entry: entry.epoch).positions if complete and later else None
    ends = kafka_positions(newest) if newest is not None else last.positions
    read = ", ".join(
        f"{place} from {begins.get(place, 0)} to {end}"
        for place, end in sorted(ends.items())
        if end != begins.get(place, 0)
    )
    return (
        f"sink {sink!r} has committed {_epochs(saved.epoch + 1, last.epoch)} since: {records}"
        f"{f', made of {read}' if read else ''}, would be committed a second time"
    )


def _told(entries: list[Entry], sink: str) -> str:
    """How much a lineage has committed, as far as its home knows."""
    mine = [entry for entry in entries if sink in entry.sinks]
    if not mine:
        return ""
    rows = sum(entry.sinks[sink].rows for entry in mine)
    return f" ({_epochs(mine[0].epoch, mine[-1].epoch)}, {rows} records)"


def _epochs(first: int, last: int) -> str:
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"
