"""Sinks that a pipeline gained or lost since its last epoch: said in words, and told apart from a sink that forgot.

An epoch is for the sinks that took part in it, and the ledger's entries name them. A sink that was taken out keeps
what it has; one that comes back goes on with the next epoch, and what it missed is not in it.
"""

from collections.abc import Callable, Iterable

from onceward.epoch.ledger import Entry, Ledger


def without_decider(entry: Entry) -> bool:
    """Whether the ledger decided the epoch: no Kafka sink, of whatever name, took part in it."""
    return entry.format > 1 and entry.decider is None and bool(entry.sinks)


def since(ledger: Ledger, last: int, missed: Callable[[Entry], bool]) -> int | None:
    """The first of the newest epochs, up to `last`, that went without a sink; None: the last one did not.

    An epoch that the ledger has forgotten is not counted as one of them.
    """
    first: int | None = None
    for entry in ledger.back_from(last):
        if not missed(entry):
            break
        first = entry.epoch
    return first


def last_with(sink: str, ledger: Ledger, recorded: Entry) -> int | None:
    """The newest epoch in which a sink took part, as far as the ledger remembers; None: it is new."""
    if sink in recorded.sinks:
        return recorded.epoch
    first = since(ledger, recorded.epoch, lambda entry: bool(entry.sinks) and sink not in entry.sinks)
    before = ledger.read(first - 1) if first is not None and first > 0 else None
    return before.epoch if before is not None and sink in before.sinks else None


def in_words(recorded: Entry | None, ledger: Ledger, sinks: Iterable[str]) -> list[str]:
    """What a start says before its first epoch, if the sinks are other ones than those of the last."""
    if recorded is None or not recorded.sinks:
        return []
    now, before, last = set(sinks), set(recorded.sinks), recorded.epoch
    told = [_came(name, ledger, recorded) for name in sorted(now - before)]
    told += [
        f"sink {name!r} is no longer part of the pipeline: it keeps what it has, epochs up to {last}, and gets no more"
        for name in sorted(before - now)
    ]
    return told


def _came(sink: str, ledger: Ledger, recorded: Entry) -> str:
    last = recorded.epoch
    newest = last_with(sink, ledger, recorded)
    if newest is None:
        return f"sink {sink!r} is new: it gets epochs from {last + 1} on, and nothing of those up to {last}"
    away = f"epoch {last}" if newest + 1 == last else f"epochs {newest + 1} to {last}"
    return f"sink {sink!r} is back: {away} went without it and will not be in it; it gets epochs from {last + 1} on"
