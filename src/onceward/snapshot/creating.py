"""Taking a snapshot of running pipelines. None of them is asked for anything, and none waits.

Read every ledger, find the newest consistent cut, pin its epochs in all homes, copy each as a savepoint, seal it all,
and give it its name by one rename. Killed at any moment, there is no snapshot or a whole one.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward import crashpoints
from onceward.epoch.home import Home
from onceward.epoch.sealed import seal
from onceward.errors import ConfigurationError, SnapshotUnusable
from onceward.holding import is_abandoned, this_process
from onceward.savepoint.creating import Saving, clear_leftovers, saving
from onceward.savepoint.manifest import FILE as SAVEPOINT_FILE
from onceward.savepoint.needed import NotThere
from onceward.savepoint.place import Place, require_savepoint_name
from onceward.snapshot.cut import Channel, Epoch, NoCut, consistent_cut, on_its_way
from onceward.snapshot.histories import Observed, channels, observe, require_apart, require_named, require_told
from onceward.snapshot.manifest import FILE, KIND, PIPELINES, Member, OnItsWay, Snapshot, checksum, savepoint_of

PATIENCE_S: Final = 60.0  # a producer that was just killed comes back, records its epoch, and then there is a cut
AGAIN_S: Final = 0.1
_OWNER: Final = re.compile(r"\.snapshot-[0-9a-f]{32}\.owner")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A cut, and what it was found from."""

    observed: Mapping[str, Observed]
    channels: Sequence[Channel]
    epochs: Mapping[str, Epoch]


def create(
    homes: Sequence[Home],
    to: str | Path,
    *,
    now: Callable[[], str],
    patience_s: float = PATIENCE_S,
    report: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    fresh: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> tuple[Place, Snapshot]:
    """A snapshot of the pipelines that live in these homes, in a local directory that is not there yet."""
    target = Place.at(to)
    require_savepoint_name(target.name)
    KIND.require_free(target)
    if not homes:
        raise ConfigurationError("name the homes of the pipelines that the snapshot is to hold")
    for home in homes:
        observe(home)  # what cannot be saved is told before anything is written
        clear_leftovers(home, report)
    identity = fresh()
    with _unfinished(target, identity) as partial:
        until, told = clock() + patience_s, ""
        while True:
            with ExitStack() as pins:
                try:
                    chosen = choose(homes)
                    under_way = _pin(chosen, partial, pins, fresh)
                except (NoCut, NotThere) as not_now:
                    reason = str(not_now)
                else:
                    crashpoints.reach("snapshot-pinned")
                    snapshot = _write(chosen, under_way, partial, identity, now)
                    KIND.put_in_place(partial, target)
                    return target, snapshot
            if clock() > until:
                raise SnapshotUnusable(
                    f"no consistent snapshot could be had within {patience_s:.0f} s: {reason}. If a pipeline is not "
                    "running, start it, or leave it out; --patience waits longer."
                )
            if reason != told:
                report(f"not yet: {reason}")
            told = reason
            sleep(AGAIN_S)


def choose(homes: Sequence[Home]) -> Chosen:
    """The newest consistent cut as of now."""
    observed = [observe(home) for home in homes]
    require_apart(observed)
    require_named(observed)
    for one in observed:
        require_told(one)
    joined = channels(observed)
    cut = consistent_cut({one.name: one.history for one in observed}, joined)
    return Chosen({one.name: one for one in observed}, joined, cut)


def _pin(chosen: Chosen, partial: Place, pins: ExitStack, fresh: Callable[[], str]) -> dict[str, Saving]:
    """All of them, before the first is copied: what a pipeline clears meanwhile is not among it."""
    found = {}
    for name, epoch in chosen.epochs.items():
        place = savepoint_of(partial, name)
        one = pins.enter_context(saving(chosen.observed[name].home, place, is_local=True, fresh=fresh))
        one.pin(epoch.number)
        if one.pinned.deed.lineage != chosen.observed[name].deed.lineage:
            raise NotThere(f"pipeline {name!r} has begun a new lineage")
        found[name] = one
    return found


def _write(
    chosen: Chosen, under_way: Mapping[str, Saving], partial: Place, identity: str, now: Callable[[], str]
) -> Snapshot:
    members = []
    for name, one in under_way.items():
        one.finish(now())
        observed, deed = chosen.observed[name], one.pinned.deed
        members.append(
            Member(
                pipeline=name,
                home=observed.home.location,
                lineage=deed.lineage,
                epoch=one.epoch,
                savepoint=one.identity,
                sha256=checksum(savepoint_of(partial, name).read(SAVEPOINT_FILE) or b""),
                writes=dict(observed.writes),
            )
        )
    crashpoints.reach("snapshot-copied")
    snapshot = Snapshot(id=identity, created_at=now(), members=members, channels=_states(chosen))
    partial.replace(FILE, seal(snapshot))
    partial.settle("")
    crashpoints.reach("snapshot-sealed")
    return snapshot


def _states(chosen: Chosen) -> list[OnItsWay]:
    observed, epochs = chosen.observed, chosen.epochs
    return [
        OnItsWay(
            topic=it.topic,
            topic_id=it.topic_id,
            producer=it.producer,
            consumer=it.consumer,
            ranges=[*on_its_way(it, observed[it.producer].history, epochs[it.producer], epochs[it.consumer])],
        )
        for it in chosen.channels
    ]


@contextmanager
def _unfinished(target: Place, identity: str) -> Iterator[Place]:
    """A hidden directory beside the target, and who is at work there; what those have left that are gone goes first."""
    around = target.around
    for file in Path(target.location).parent.glob(".snapshot-*.owner"):
        if _OWNER.fullmatch(file.name) and is_abandoned(file):
            around.clear(f"{file.stem}.partial")
            around.remove(file.name)
    partial, owner = target.beside(f".snapshot-{identity}.partial"), f".snapshot-{identity}.owner"
    around.replace(owner, seal(this_process(identity, 0)))
    try:
        around.make(partial.name)
        partial.make(PIPELINES)
        yield partial
    finally:
        around.clear(partial.name)
        around.remove(owner)
