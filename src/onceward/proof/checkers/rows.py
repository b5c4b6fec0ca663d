"""The rows at the end: all of them, once, in order, from one try, the same in every sink, as the input demands."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from onceward.epoch.contract import Guarantee
from onceward.proof.history import Began, History, Place, Row

SHOWN: Final = 6


def expected(history: History) -> dict[int, list[tuple[int, int, int]]]:
    """For each planned epoch its rows (id, key, running count), recomputed from the input."""
    left_out = {record for line in history.ledger for record in line.skipped}
    counts: Counter[int] = Counter()
    begins: dict[Place, int] = {}
    found: dict[int, list[tuple[int, int, int]]] = {}
    for epoch in sorted(history.planned):
        made = found[epoch] = []
        for place, end in sorted(history.planned[epoch].items()):
            first = begins.get(place, 0)
            for offset, (identifier, key) in enumerate(history.input[place][first:end], first):
                if (place, offset) in left_out:
                    continue
                counts[key] += 1
                made.append((identifier, key, counts[key]))
            begins[place] = end
    return found


def took_part(history: History) -> dict[int, frozenset[str]]:
    """Which sinks an epoch is owed to: those of the driver whose try is visible, else those that the ledger names."""
    everyone = frozenset(history.sinks)
    of_term = {event.term: event.sinks or everyone for event in history.events if isinstance(event, Began)}
    if all(sinks == everyone for sinks in of_term.values()):
        return dict.fromkeys(history.planned, everyone)
    recorded = {line.epoch: frozenset(line.rows) for line in history.ledger if line.rows}
    found = {epoch: recorded.get(epoch, everyone) for epoch in history.planned}
    shown = {(row.epoch, row.term) for places in history.sinks.values() for row in _all(places)}
    found.update({epoch: of_term[term] for epoch, term in shown if term in of_term})
    return found


def no_loss(history: History) -> list[str]:
    """Every planned row is visible in every sink that it is owed to."""
    made, parts = expected(history), took_part(history)
    found = []
    for sink, places in history.sinks.items():
        wanted = {row[0] for epoch, rows in made.items() if sink in parts[epoch] for row in rows}
        missing = wanted - {row.id for row in _all(places)}
        if missing:
            found.append(f"{sink} lacks {_some(missing)}")
    return found


def no_duplicate(history: History) -> list[str]:
    """No row is visible twice, and none that nobody asked for."""
    wanted = {row[0] for made in expected(history).values() for row in made}
    found = []
    for sink, places in history.sinks.items():
        times = Counter(row.id for row in _all(places))
        twice = {identifier for identifier, count in times.items() if count > 1}
        if twice:
            found.append(f"{sink} shows {_some(twice)} more than once")
        if strangers := set(times) - wanted:
            found.append(f"{sink} shows {_some(strangers)}, which no epoch contains")
    return found


def order(history: History) -> list[str]:
    """In each partition of Kafka the rows of a key stand in their order, and epochs follow each other."""
    found = []
    for sink, places in history.sinks.items():
        for place, rows in places.items():
            if place not in history.log:
                continue  # a table has no order
            last: dict[int, int] = {}
            for row in rows:
                if row.number <= last.get(row.key, 0):
                    found.append(f"{sink} {place}: key {row.key} shows its row {row.number} after {last[row.key]}")
                last[row.key] = row.number
            epochs = [row.epoch for row in rows]
            if epochs != sorted(epochs):
                found.append(f"{sink} {place}: epochs out of order: {epochs}")
    return found


def state(history: History) -> list[str]:
    """The query's state, and each row made from it, equal a recomputation from the input."""
    made = expected(history)
    wanted = {row[0]: (row, epoch) for epoch, rows in made.items() for row in rows}
    highest = _with_skipped(history) if history.guarantee is Guarantee.AT_LEAST_ONCE else {}
    found: list[str] = []
    for sink, places in history.sinks.items():
        for row in _all(places):
            if row.id not in wanted:
                continue
            (_, key, number), epoch = wanted[row.id]
            fits = row.key == key and number <= row.number <= highest.get(row.id, number)
            # Under weaker guarantees a row may stem from an epoch that was planned otherwise.
            if not fits or (history.guarantee is Guarantee.EXACTLY_ONCE and row.epoch != epoch):
                found.append(f"{sink}: row {row} should be {wanted[row.id]}")
    if history.state is not None:
        counts = Counter(row[1] for row, _ in wanted.values())
        if dict(history.state) != dict(counts):
            found.append(f"the state is {dict(history.state)}, the input gives {dict(counts)}")
    return found


def _with_skipped(history: History) -> dict[int, int]:
    """Each row's number if no record was passed over: so far a driver may have written that knew nothing of it yet."""
    unskipped = replace(history, ledger=tuple(line._replace(skipped=frozenset()) for line in history.ledger))
    return {row[0]: row[2] for rows in expected(unskipped).values() for row in rows}


def one_attempt(history: History) -> list[str]:
    """All that is visible of an epoch, in all sinks, comes from one try."""
    tries: dict[int, set[tuple[int, int]]] = {}
    for places in history.sinks.values():
        for row in _all(places):
            tries.setdefault(row.epoch, set()).add((row.term, row.attempt))
    return [
        f"epoch {epoch} is visible from tries {sorted(which)} (term, attempt)"
        for epoch, which in sorted(tries.items())
        if len(which) > 1
    ]


def sinks_agree(history: History) -> list[str]:
    """The sinks of a pipeline hold the same rows, epoch by epoch, as multisets."""
    parts = took_part(history)
    by_sink = {sink: Counter((row.epoch, *row[:3]) for row in _all(places)) for sink, places in history.sinks.items()}
    if len(by_sink) < 2:
        return []
    (first, mine), *others = by_sink.items()
    found = []
    for sink, theirs in others:
        differing = {key[0] for key in (mine - theirs) + (theirs - mine)}
        epochs = sorted(epoch for epoch in differing if {first, sink} <= parts.get(epoch, frozenset()))
        if epochs:
            found.append(f"{first} and {sink} differ in epochs {epochs}")
    return found


def _all(places: Mapping[Place, tuple[Row, ...]]) -> list[Row]:
    return [row for rows in places.values() for row in rows]


def _some(numbers: set[int]) -> str:
    shown = ", ".join(map(str, sorted(numbers)[:SHOWN]))
    return f"rows {shown}" + (f" and {len(numbers) - SHOWN} others" if len(numbers) > SHOWN else "")
