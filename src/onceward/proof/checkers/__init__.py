"""Pure functions over a history: each returns what broke its promise, in words. None knows how the run was made."""

from collections.abc import Callable, Mapping
from typing import Final

from onceward.epoch.contract import Guarantee
from onceward.proof.checkers import ending, log, rows, visibility
from onceward.proof.history import History

Checker = Callable[[History], list[str]]

CHECKERS: Final[Mapping[str, Checker]] = {
    "no-loss": rows.no_loss,
    "no-duplicate": rows.no_duplicate,
    "no-uncommitted-read": visibility.no_uncommitted_read,
    "atomic-visibility": visibility.atomic_visibility,
    "decided-before-visible": visibility.decided_before_visible,
    "one-decision": visibility.one_decision,
    "order": rows.order,
    "state": rows.state,
    "one-attempt": rows.one_attempt,
    "sinks-agree": rows.sinks_agree,
    "nothing-left-behind": ending.nothing_left_behind,
    "progress": ending.progress,
    "no-false-alarm": ending.no_false_alarm,
    "fenced-adds-nothing": visibility.fenced_adds_nothing,
    "group-offsets": visibility.group_offsets,
    "raw-log": log.raw_log,
    "one-transaction": log.one_transaction,
    "boundaries": log.boundaries,
    "ledger-counts": ending.ledger_counts,
    "savepoints": ending.savepoints,
}
OF_ANY: Final = frozenset({"state", "progress", "no-false-alarm", "savepoints"})
OF_WEAKER: Final[Mapping[Guarantee, frozenset[str]]] = {  # what those who promise less still promise
    Guarantee.AT_LEAST_ONCE: OF_ANY | {"no-loss"},
    Guarantee.AT_MOST_ONCE: OF_ANY | {"no-duplicate"},
}


def together(*parts: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Of several histories, by checker."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: [line for part in parts for line in part.get(name, ())] for name in names}


def judge(history: History) -> dict[str, list[str]]:
    """Every broken promise, by checker; empty when all is well."""
    promised = OF_WEAKER.get(history.guarantee, CHECKERS.keys())
    return {name: found for name, checker in CHECKERS.items() if name in promised and (found := checker(history))}
