"""What is measured when somebody asks: from a pipeline as it is seen at that moment. Pure."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from onceward.epoch.ledger import Entry
from onceward.telemetry import meters
from onceward.telemetry.meters import STATES, Meter
from onceward.watching.showing import lag_of, state_of
from onceward.watching.sight import Sight


class Reading(NamedTuple):
    """One value of one gauge; `labels` has those besides the pipeline's name."""

    meter: Meter
    value: float
    labels: tuple[str, ...] = ()


def of_start(failure: str = "") -> Iterator[Reading]:
    """While a pipeline is being started, or when that has failed."""
    yield from _states("failed" if failure else "starting", up=False, fenced=False)


def of_sight(sight: Sight) -> Iterator[Reading]:
    """A pipeline that runs, or has ended."""
    yield from _states(state_of(sight), up=sight.active, fenced=sight.fenced)
    yield Reading(meters.IN_DOUBT, float(sight.in_doubt is not None and not sight.fenced))
    if sight.waiting_for:
        yield Reading(meters.WAITING, sight.waiting_s, (sight.waiting_for,))
    for topic, behind in lag_of(sight.progress).items():
        yield Reading(meters.LAG, behind, (topic,))
    for number, operator in enumerate(sight.progress.get("stateOperators", ())):
        yield from _of_operator(f"{number}-{operator.get('operatorName', 'state')}", operator)


def of_commit(entry: Entry) -> Iterator[Reading]:
    """The last committed epoch."""
    yield Reading(meters.LAST_EPOCH, entry.epoch)
    if (at := unix_time(entry.finished_at)) is not None:
        yield Reading(meters.LAST_COMMIT, at)


def unix_time(text: str) -> float | None:
    """Of a time of day in the ledger; one without a zone is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _states(state: str, *, up: bool, fenced: bool) -> Iterator[Reading]:
    yield Reading(meters.UP, float(up))
    yield Reading(meters.FENCED, float(fenced))
    for known in STATES:
        yield Reading(meters.STATE, float(known == state), (known,))


def _of_operator(name: str, operator: Mapping[str, Any]) -> Iterator[Reading]:
    """Spark's report of one stateful operator."""
    found = {
        meters.STATE_ROWS: operator.get("numRowsTotal"),
        meters.STATE_MEMORY: operator.get("memoryUsedBytes"),
        meters.STATE_DISK: operator.get("customMetrics", {}).get("rocksdbSstFileSize"),
    }
    for meter, value in found.items():
        if value is not None:
            yield Reading(meter, float(value), (name,))
