"""Asking the driver of a home, in whatever process on whatever machine, to stop at an epoch's end.

A request is a file that names a term, so it can never stop a later start. The driver's lease looks for it; the asker
watches the lease until it is let go. Pure but for the storage: clock and sleep are passed in.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from onceward.epoch import term as terms
from onceward.epoch.home import Home
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import HomeInUse, LedgerCorrupt

FORMAT: Final = 1
FOLDER: Final = "requests"
PATIENCE_S: Final = 600.0  # an epoch may be long
POLL_S: Final = 0.1


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and when."""

    format: int = FORMAT
    term: int
    by: str
    at: str
    saves: bool = False  # a savepoint is to be made then: the checkpoint is kept, whatever the policy


def asked(storage: Storage, term: int) -> StopRequest | None:
    """What the driver of a term is asked; None: to go on."""
    name = _name(term)
    data = storage.read(name)
    try:
        return unseal(data, StopRequest, name, FORMAT) if data is not None else None
    except LedgerCorrupt:  # after a power cut, of which no driver has lived to read it
        return None


def stop_driver(
    home: Home,
    *,
    by: str,
    now: Callable[[], str],
    is_gone: Callable[[terms.Holder], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    saves: bool = False,
    patience_s: float = PATIENCE_S,
    report: Callable[[str], None] = lambda _: None,
) -> terms.Holder | None:
    """Ask, and wait until the home is free; who has stopped. None: nobody was running."""
    storage, holder = home.storage, terms.newest_holder(home.storage)
    if holder is None or is_gone(holder) or terms.read_beat(storage, holder.term).released:
        return None
    request = StopRequest(term=holder.term, by=by, at=now(), saves=saves)
    storage.replace(_name(holder.term), seal(request))
    report(f"asked {holder} to stop; waiting for its running epoch")
    watcher, until = terms.Watcher(storage, is_gone, clock), clock() + patience_s
    try:
        while not watcher.vacant():
            _require_same(home, holder, watcher.holder)
            if clock() >= until:
                raise HomeInUse(
                    f"{_said(home, holder)}: {holder} was asked to stop and has not within {patience_s:.0f} s: its "
                    "epoch takes longer. It may go on; ask again, or stop it yourself."
                )
            sleep(POLL_S)
    finally:
        storage.remove(_name(holder.term))
    _require_same(home, holder, watcher.holder)
    if terms.read_beat(storage, holder.term).released:
        return holder
    if is_gone(holder):
        return None
    raise HomeInUse(
        f"{_said(home, holder)}: {holder} was asked to stop, and its lease stands still: it is paused, cut off, or "
        "gone with its machine, and from here nobody can tell which. If it may go on, stop it there first; if it is "
        "gone, leave --stop (stop=True) out."
    )


def _require_same(home: Home, asked: terms.Holder, newest: terms.Holder | None) -> None:
    if newest is not None and newest.term > asked.term:
        raise HomeInUse(
            f"{_said(home, asked)}: {newest} has taken it over from {asked} meanwhile, and was not asked to stop"
        )


def _said(home: Home, holder: terms.Holder) -> str:
    return f"home {home.location} of pipeline {holder.pipeline!r}"


def _name(term: int) -> str:
    return f"{FOLDER}/stop-{term:06d}.json"
