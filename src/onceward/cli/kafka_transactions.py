"""`onceward kafka transactions`: which are open, and which of them hold readers back."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.clusters import DirOption, KafkaOption, SettingOption, connected
from onceward.cli.output import AsJson, result
from onceward.cli.savepoint_tables import table

if TYPE_CHECKING:
    from onceward.kafka.open_transactions import Ends, OpenTransaction


def transactions(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Show the ends of these, too.", show_default=False),
    ] = None,
    *,
    kafka: KafkaOption = None,
    setting: SettingOption = None,
    folder: DirOption = None,
    as_json: AsJson = False,
) -> None:
    """Open transactions, and the partitions whose readers of committed records wait for one of them.

    A pipeline's transactional id is the pipeline's name. Nothing is changed or fenced.
    """
    with connected(kafka, setting, folder) as wire:
        from onceward.kafka.open_transactions import look

        sight, now = look(wire, topics or ()), time.time()
        where = wire.cluster.bootstrap
    facts = {
        "bootstrap": where,
        "transactions": [_transaction(it, now) for it in sight.transactions],
        "partitions": [_ends(it, now) for it in sight.partitions],
    }
    opened = [
        [it.transactional_id, f"{it.producer_id}/{it.producer_epoch}", it.state, _for(it.began_ms, now), _places(it)]
        for it in sight.transactions
    ]
    shown = [it for it in sight.partitions if it.held_back or it.place.topic in (topics or ())]
    ends = [
        [it.place.topic, str(it.place.partition), _number(it.stable), _number(it.end), str(it.held_back), _who(it, now)]
        for it in shown
    ]
    lines = [
        table("", ("transactional id", "producer", "state", "open for", "partitions"), opened)
        or f"No transaction is open at {where}",
        table("readers of committed records", ("topic", "partition", "get up to", "end", "behind", "held by"), ends)
        or ("No reader is held back" if sight.partitions else ""),
    ]
    result(facts, "\n".join(line for line in lines if line), as_json=as_json)


def _transaction(it: "OpenTransaction", now: float) -> dict[str, Any]:
    return {
        "transactional_id": it.transactional_id,
        "producer_id": it.producer_id,
        "producer_epoch": it.producer_epoch,
        "state": it.state,
        "seconds": _seconds(it.began_ms, now),
        "timeout_s": it.timeout_ms / 1000,
        "coordinator": it.coordinator,
        "partitions": [place._asdict() for place in it.partitions],
    }


def _ends(it: "Ends", now: float) -> dict[str, Any]:
    holder = it.holder
    return {
        **it.place._asdict(),
        "end": it.end,
        "stable": it.stable,
        "held_back": it.held_back,
        "holder": {
            "producer_id": holder.producer_id,
            "transactional_id": holder.transactional_id,
            "seconds": _seconds(holder.began_ms, now),
        }
        if holder is not None
        else None,
    }


def _places(it: "OpenTransaction") -> list[str]:
    """A topic with the numbers of its partitions, a line each."""
    topics: dict[str, list[str]] = {}
    for place in it.partitions:
        topics.setdefault(place.topic, []).append(str(place.partition))
    return [f"{topic} {','.join(numbers)}" for topic, numbers in topics.items()] or ["none yet"]


def _who(it: "Ends", now: float) -> str:
    if it.holder is None:
        return ""
    name = it.holder.transactional_id or f"producer {it.holder.producer_id}, which no coordinator knows as open"
    return f"{name}, {_for(it.holder.began_ms, now)}"


def _for(began_ms: int | None, now: float) -> str:
    seconds = _seconds(began_ms, now)
    return "not begun" if seconds is None else f"{seconds:.1f} s"


def _seconds(began_ms: int | None, now: float) -> float | None:
    """By two clocks, the brokers' and ours."""
    return None if began_ms is None else round(max(0.0, now - began_ms / 1000), 1)


def _number(value: int | None) -> str:
    return "not told" if value is None else str(value)
