"""Asking the driver of a home, in whatever process on whatever machine, to stop at an epoch's end, to be saved.

A request is a file that names a term, so it can never stop a later start. The driver's lease looks for it; the asker
watches the lease until it is let go. Pure but for the storage: clock and sleep are passed in.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def asked(storage: Storage, term: int) -> StopRequest | None:
    """What the driver of a term is asked; None: to go on."""
    name = _name(term)
    data = storage.read(name)
    try:
        return unseal(data, StopRequest, name, FORMAT) if data is not None else None
    except LedgerCorrupt:  # after a power cut, of which no driver has lived to read it
        return None


@contextmanager
def stopped(
    home: Home,
    *,
    by: str,
    now: Callable[[], str],
    is_gone: Callable[[terms.Holder], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    patience_s: float = PATIENCE_S,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[terms.Holder | None]:
    """Ask, and wait until the home is free: who has stopped. None: nobody was running.

    The request stands to the end of the block, so that the checkpoint is kept for what is done in it.
    """
    storage, holder = home.storage, terms.newest_holder(home.storage)
    if holder is None or is_gone(holder) or terms.read_beat(storage, holder.term).released:
        yield None
        return
    storage.replace(_name(holder.term), seal(StopRequest(term=holder.term, by=by, at=now())))
    report(f"asked {holder} to stop; waiting for its running epoch")
    try:
        watcher, until = terms.Watcher(storage, is_gone, clock), clock() + patience_s
        while not watcher.vacant():
            _require_same(home, holder, watcher.holder)
            if clock() >= until:
                raise HomeInUse(
                    f"{_said(home, holder)}: {holder} was asked to stop and has not within {patience_s:.0f} s: its "
                    "epoch takes longer. It may go on; ask again, or stop it yourself."
                )
            sleep(POLL_S)
        _require_same(home, holder, watcher.holder)
        let_go = terms.read_beat(storage, holder.term).released
        if not let_go and not is_gone(holder):
            raise HomeInUse(
                f"{_said(home, holder)}: {holder} was asked to stop, and its lease stands still: it is paused, cut "
                "off, or gone with its machine, and from here nobody can tell which. If it may go on, stop it there "
                "first; if it is gone, leave --stop (stop=True) out."
            )
        yield holder if let_go else None
    finally:
        storage.remove(_name(holder.term))


def _require_same(home: Home, asked: terms.Holder, newest: terms.Holder | None) -> None:
    if newest is not None and newest.term > asked.term:
        raise HomeInUse(
            f"{_said(home, asked)}: {newest} has taken it over from {asked} meanwhile, and was not asked to stop"
        )


def _said(home: Home, holder: terms.Holder) -> str:
    return f"home {home.location} of pipeline {holder.pipeline!r}"


def _name(term: int) -> str:
    return f"{FOLDER}/stop-{term:06d}.json"
