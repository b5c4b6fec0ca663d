"""How a run ends: everything processed, no error without a cause, nothing left lying about, books in order."""

from collections import Counter
from typing import Final

from onceward.proof.history import Damaged, Ended, History

# What a driver may say under the faults of a run. Anything else claims damage that nobody did.
EXPECTED: Final = frozenset(
    {
        "finished", "killed", "PipelineFenced", "CommitUnproven", "CommitUnfinished", "HomeInUse",
        "BrokerUnreachable", "SinkUnreachable", "OutageTooLong", "OSError", "Stopping", "ConcurrentUpdate",
        "SavepointOutdated", "SavepointUnusable",  # whoever restores an old savepoint, or too early, is told so
        "ResetRefused",  # and whoever resets with an epoch in doubt, or before there is anything
    }
)  # fmt: skip
# And where something outside forgot or was altered: what names it.
OF_DAMAGE: Final = frozenset({"MarkerMissing", "HomeMismatch"})


def nothing_left_behind(history: History) -> list[str]:
    """No open transaction, no staged data, and readers can read to the end of every partition."""
    return list(history.left_behind)


def progress(history: History) -> list[str]:
    """After the last fault the pipeline goes on to the end of its input."""
    ends = history.planned[max(history.planned)] if history.planned else {}
    return [
        f"the input {place} has {len(records)} records, the last epoch ends at {ends.get(place, 0)}"
        for place, records in history.input.items()
        if ends.get(place, 0) < len(records)
    ]


def no_false_alarm(history: History) -> list[str]:
    """Who says that something is damaged is right: an operator would act on it."""
    expected, found = EXPECTED | history.expected, list[str]()
    for event in history.events:
        if isinstance(event, Damaged):
            expected |= OF_DAMAGE
        elif isinstance(event, Ended) and event.how not in expected:
            found.append(f"driver {event.driver} stopped with {event.how}: {event.says}")
    return found


def savepoints(history: History) -> list[str]:
    """What is called a savepoint holds the state of its epoch, and what was to be saved is."""
    return list(history.savepoints)


def ledger_counts(history: History) -> list[str]:
    """For every committed epoch the ledger has a finished entry, and its counts are those of the sinks."""
    shown = {
        sink: Counter(row.epoch for rows in places.values() for row in rows) for sink, places in history.sinks.items()
    }
    done = {line.epoch: line for line in history.ledger if line.phase == "done"}
    found = [f"the ledger has no finished entry of epoch {epoch}" for epoch in sorted({*history.planned} - {*done})]
    for epoch, line in done.items():
        counts = {sink: shown[sink][epoch] for sink in line.rows if sink in shown}
        if counts != dict(line.rows):
            found.append(f"epoch {epoch}: the ledger counts {dict(line.rows)} rows, the sinks hold {counts}")
    return found
