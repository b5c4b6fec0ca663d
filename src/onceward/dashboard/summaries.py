"""A ledger entry in the few numbers that charts need, and where an epoch's time went. Pure."""

import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from onceward.dashboard.model import EpochColumns, Phase
from onceward.epoch.ledger import Entry

STEPS: Final = ("begin", "compute", "write", "pre_commit", "decide", "commit")
OTHER: Final = "other"  # between the steps: the term and the markers are asked, the ledger is written


class Layer(NamedTuple):
    """A part of an epoch's time, in milliseconds."""

    name: str
    sink: str | None
    ms: float


class Summary(NamedTuple):
    """One epoch. `layers` add up to `total_ms`."""

    epoch: int
    term: int
    phase: str
    at: str
    attempts: int
    rows_in: int | None
    rows_out: tuple[tuple[str, int], ...]  # by sink
    by_topic: tuple[tuple[str, int], ...]  # of sinks that write to topics
    layers: tuple[Layer, ...]
    total_ms: float
    skipped: tuple[str, ...]


def summary_of(entry: Entry) -> Summary:
    """Names are shared between thousands of summaries."""
    topics: dict[str, int] = {}
    for part in entry.sinks.values():
        for topic, _, rows, _ in part.partitions:
            topics[sys.intern(topic)] = topics.get(topic, 0) + rows
    layers = layers_of(entry)
    return Summary(
        entry.epoch,
        entry.term,
        sys.intern(entry.phase),
        entry.finished_at,
        entry.attempts,
        entry.input_rows,
        tuple((sys.intern(name), part.rows) for name, part in entry.sinks.items()),
        tuple(topics.items()),
        layers,
        round(sum(layer.ms for layer in layers), 2),
        tuple(entry.skipped),
    )


def layers_of(entry: Entry) -> tuple[Layer, ...]:
    """By phase and sink. What no sink's step accounts for is `other`, so that nothing of the whole is missing."""
    found: list[Layer] = []
    for sink, part in entry.sinks.items():
        took = dict(part.milliseconds)
        if "compute" in took:  # measured within "write"
            took["write"] = max(0.0, took.get("write", 0.0) - took["compute"])
        found += [Layer(step, sys.intern(sink), round(took[step], 2)) for step in STEPS if took.get(step)]
    rest = sum(entry.milliseconds.values()) - sum(layer.ms for layer in found)
    return tuple([*found, Layer(OTHER, None, round(rest, 2))] if rest > 0.005 else found)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The nearest value at or above that share of them."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)


def columns(summaries: Sequence[Summary]) -> EpochColumns:
    """One list for each column; a sink or a step that an epoch did not have is 0 there."""
    sinks = dict.fromkeys(name for it in summaries for name, _ in it.rows_out)
    layers = dict.fromkeys((layer.name, layer.sink) for it in summaries for layer in it.layers)
    order = sorted(layers, key=lambda key: (key[0] == OTHER, list(sinks).index(key[1]) if key[1] in sinks else 0))
    took = [{(layer.name, layer.sink): layer.ms for layer in it.layers} for it in summaries]
    rows = [dict(it.rows_out) for it in summaries]
    return EpochColumns(
        epoch=[it.epoch for it in summaries],
        at=[it.at for it in summaries],
        term=[it.term for it in summaries],
        attempts=[it.attempts for it in summaries],
        rows_in=[it.rows_in for it in summaries],
        rows_out={name: [each.get(name, 0) for each in rows] for name in sinks},
        phases=[Phase(name=name, sink=sink, ms=[it.get((name, sink), 0.0) for it in took]) for name, sink in order],
    )
