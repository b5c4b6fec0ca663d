"""`onceward kafka groups`: how far readers are, pipelines among them."""

from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.clusters import DirOption, KafkaOption, SettingOption, connected
from onceward.cli.output import AsJson, result
from onceward.cli.savepoint_tables import table
from onceward.errors import ConfigurationError
from onceward.terminal import one_line

if TYPE_CHECKING:
    from onceward.kafka.groups import Position
    from onceward.kafka.wire import Wire


def groups(
    name: Annotated[str | None, typer.Argument(metavar="GROUP", show_default=False)] = None,
    *,
    kafka: KafkaOption = None,
    setting: SettingOption = None,
    folder: DirOption = None,
    as_json: AsJson = False,
) -> None:
    """The consumer groups there are; of one of them, how far it is. A pipeline's group has the pipeline's name."""
    with connected(kafka, setting, folder) as wire:
        facts, text = _list(wire) if name is None else _one(wire, name)
    result(facts, text, as_json=as_json)


def _list(wire: "Wire") -> tuple[dict[str, object], str]:
    from onceward.kafka.groups import listed

    found = listed(wire)
    text = table("", ("group", "state"), [[it.name, it.state] for it in found])
    return {"groups": [it._asdict() for it in found]}, text or f"There is no group at {wire.cluster.bootstrap} yet"


def _one(wire: "Wire", name: str) -> tuple[dict[str, object], str]:
    from onceward.kafka.groups import listed, positions

    state = next((it.state for it in listed(wire) if it.name == name), None)
    if state is None:
        raise ConfigurationError(
            f"there is no group {name!r} at {wire.cluster.bootstrap}; `onceward kafka groups` lists them. A pipeline's "
            "group is there from its first start on"
        )
    found = positions(wire, name)
    lag = sum(it.lag or 0 for it in found)
    rows = [
        [it.place.topic, str(it.place.partition), str(it.offset), _or_gone(it.end), _or_gone(it.lag), _epoch(it)]
        for it in found
    ]
    columns = ("topic", "partition", "position", "end", "lag", "epoch")
    lines = [
        one_line(f"{name}: {_pipeline(found) or state}; {lag} behind"),
        table("", columns, rows) or "It has no committed position",
    ]
    facts = {
        "group": name,
        "state": state,
        "lag": lag,
        "positions": [
            {
                **it.place._asdict(),
                "position": it.offset,
                "end": it.end,
                "lag": it.lag,
                "epoch": it.marker.epoch if it.marker else None,
                "lineage": it.marker.lineage if it.marker else None,
            }
            for it in found
        ],
    }
    return facts, "\n".join(lines)


def _pipeline(found: "list[Position]") -> str:
    """What the markers say, if it is a pipeline's group. Its state says nothing: it never has members."""
    markers = [it.marker for it in found if it.marker is not None]
    if not markers:
        return ""
    newest = max(markers, key=lambda it: (it.epoch, it.term))
    return f"a pipeline, committed up to epoch {newest.epoch} (lineage {newest.lineage[:8]})"


def _epoch(position: "Position") -> str:
    return "" if position.marker is None else str(position.marker.epoch)


def _or_gone(number: int | None) -> str:
    return "gone" if number is None else str(number)
