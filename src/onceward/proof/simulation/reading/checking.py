"""Whether a reader got exactly what it had to get, or a named error that something excuses. Pure."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from onceward.errors import OncewardError, PartitionSilent
from onceward.kafka.cursor import MOST_THROTTLED_S, OffsetsMissing
from onceward.sinks.kafka.functions import CopyFailed


class Broken(Exception):
    """A promise that was broken where nobody but the world itself can see it."""

    def __init__(self, checker: str, told: str) -> None:
        super().__init__(told)
        self.checker = checker


@dataclass(frozen=True, slots=True)
class Seen:
    """What one reader had to get of one partition, and what it got."""

    what: str
    wanted: Sequence[Hashable]
    got: Sequence[Hashable]
    is_whole: bool = True  # it came to its end; otherwise an error ended it, and what came before it counts


@dataclass(frozen=True, slots=True)
class Excuses:
    """What befell a reader: which errors are no false alarms."""

    refused: bool = False  # the log begins later now, or begins with a format that this reader leaves to others
    missing: bool = False  # batches are missing, and nobody said that they may be
    silent_s: float = 0.0  # since something new was given
    throttled_s: float = 0.0  # of these, how long brokers had asked to be left alone
    patience_s: float = 0.0


def compared(seen: Seen) -> dict[str, list[str]]:
    """Fewer, more, or in another order."""
    broken = defaultdict[str, list[str]](list)
    wanted, got = list(seen.wanted), list(seen.got)
    if seen.is_whole and got == wanted:
        return {}
    if twice := [it for it in dict.fromkeys(got) if got.count(it) > wanted.count(it)]:
        broken["no-duplicate"].append(f"{seen.what}: {twice[0]} came {got.count(twice[0])} times")
    known = [it for it in got if it in wanted]
    upto = wanted if seen.is_whole else wanted[: max((wanted.index(it) + 1 for it in known), default=0)]
    if lost := [it for it in upto if it not in got]:
        broken["no-loss"].append(f"{seen.what}: {lost[0]} did not come, of {len(lost)}")
    if not broken and known != sorted(known, key=wanted.index):
        broken["order"].append(f"{seen.what}: {known}")
    return broken


def judged(error: Exception, partitions: Sequence[Excuses]) -> dict[str, list[str]]:
    """An error has to have a name, and a reason in one of the partitions that were read."""
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, Broken):
        return {error.checker: [str(error)]}
    if not isinstance(error, OncewardError):
        return {"named-error": [told]}
    cause = error.__cause__ if isinstance(error, CopyFailed) and error.__cause__ is not None else error
    return {} if any(_excuses(cause, it) for it in partitions) else {"no-false-alarm": [told]}


def _excuses(error: BaseException, found: Excuses) -> bool:
    if isinstance(error, PartitionSilent):
        return found.silent_s >= min(found.throttled_s, MOST_THROTTLED_S) + found.patience_s
    return found.missing if isinstance(error, OffsetsMissing) else found.refused


def together(parts: Collection[dict[str, list[str]]]) -> dict[str, list[str]]:
    """By checker."""
    broken = defaultdict[str, list[str]](list)
    for part in parts:
        for name, lines in part.items():
            broken[name] += lines
    return dict(broken)
