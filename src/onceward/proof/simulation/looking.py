"""What somebody finds who looks at stores, logs and savepoints from outside."""

from collections.abc import Iterable, Iterator, Mapping

from onceward.epoch.checkpoint import Checkpoint, offsets_of
from onceward.epoch.home import Home
from onceward.errors import OncewardError
from onceward.proof.history import LogBatch, Part, Place, Row
from onceward.proof.simulation import state
from onceward.proof.simulation.broker import ABORTING, COMMITTING, ONGOING, Transaction
from onceward.proof.simulation.disk import Mount
from onceward.proof.simulation.engine import Engine, began, counts_of, ends_of
from onceward.proof.simulation.lineages import Lineages
from onceward.proof.simulation.partition import PartitionLog
from onceward.proof.simulation.store import Store
from onceward.savepoint.manifest import CHECKPOINT, load
from onceward.savepoint.place import SAVEPOINTS
from onceward.savepoint.place import Place as SavepointPlace
from onceward.savepoint.verifying import verify


def rows_of(where: Store | PartitionLog) -> list[Row]:
    """What is visible in it."""
    if isinstance(where, Store):
        return where.rows
    return [row for batch in where.visible() for row in batch.rows]


def parts_of(rows: list[Row]) -> tuple[Part, ...]:
    counts: dict[tuple[int, int, int], int] = {}
    for row in rows:
        which = row[3:]
        counts[which] = counts.get(which, 0) + 1
    return tuple(Part(*which, count) for which, count in counts.items())


def raw(log: PartitionLog) -> tuple[LogBatch, ...]:
    """Every entry, end markers too."""
    return tuple(
        LogBatch(
            stored.kind,
            stored.producer_id,
            stored.producer_epoch,
            stored.sequence,
            stored.count if stored.kind == "data" else 0,
            stored.rows[0].epoch if stored.kind == "data" else -1,
            stored.offset if stored.kind == "data" else -1,
        )
        for stored in log.batches
    )


def still_staged(stores: Iterable[Store]) -> list[str]:
    return [f"{store.name} still has {which} staged" for store in stores for which in store.staged]


def still_open(name: str, held: Transaction | None, logs: Mapping[Place, PartitionLog]) -> Iterator[str]:
    """A pipeline's transaction, and where readers do not reach the end."""
    if held is not None and held.state in {ONGOING, COMMITTING, ABORTING}:
        yield f"transaction of {name} is {held.state}"
    for place, log in logs.items():
        if log.stable != log.end:
            yield f"{place}: readers stop at {log.stable} of {log.end}"


def broken_savepoints(storage: Mount, files: Mapping[str, bytes], engine: Engine, lineages: Lineages) -> Iterator[str]:
    """What is called a savepoint and is not whole, or holds another state than its epoch's."""
    for name in storage.names(SAVEPOINTS):
        place = SavepointPlace.within(Home(storage, "home", "home"), name)
        try:
            saved = load(place)
            verify(place)
        except OncewardError as error:
            yield f"savepoint {name}: {error}"
            continue
        inside = f"{SAVEPOINTS}/{name}/{CHECKPOINT}"
        ends = ends_of(map(offsets_of, saved.entry.positions))
        begins = began(Checkpoint(storage, inside, inside))
        passed = lineages.passed()
        wanted = engine.counted(ends, passed) - engine.counted({0: 0, 1: 0, **begins}, passed)
        held = counts_of(state.read(files, inside, saved.epoch + 1, saved.partitions))
        if held != dict(wanted):
            yield f"savepoint {name} of epoch {saved.epoch} holds the state {held}, its input gives {dict(wanted)}"
