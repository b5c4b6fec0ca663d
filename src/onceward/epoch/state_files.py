"""What Spark notes beside the state of a query: its stateful operators."""

import json
from dataclasses import dataclass
from typing import Any, Final

from onceward.epoch.storage import Storage

STATE: Final = "state"


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator of a checkpoint, as Spark has numbered it."""

    number: int
    name: str
    stores: tuple[str, ...]
    variables: tuple[str, ...] = ()  # state of transformWithState, by the names that its author gave
    timers: bool = False  # of transformWithState


def operators(storage: Storage, folder: str) -> list[Operator]:
    """The stateful operators of a checkpoint, as of its newest epoch."""
    found = []
    for number in sorted(int(name) for name in storage.names(f"{folder}/{STATE}") if name.isdigit()):
        notes = f"{folder}/{STATE}/{number}/_metadata"
        versions = sorted((name for name in storage.names(f"{notes}/v2") if name.isdigit()), key=int)
        text = _read(storage, f"{notes}/v2/{versions[-1]}" if versions else f"{notes}/metadata")
        if text is not None:
            found.append(_operator(number, json.loads(text[1])))
    return found


def _read(storage: Storage, name: str) -> tuple[str, str] | None:
    """Version and JSON; None: there is none, or Spark was stopped before it was whole and writes it anew."""
    version, _, body = (storage.read(name) or b"").decode("utf-8", "replace").partition("\n")
    try:
        json.loads(body)
    except ValueError:
        return None
    return version, body


def _operator(number: int, note: dict[str, Any]) -> Operator:
    stores = tuple(store["storeName"] for store in note.get("stateStoreInfo", []))
    properties = json.loads(note.get("operatorPropertiesJson") or "{}")
    names = [str(it["stateName"]) for it in properties.get("stateVariables", [])]
    return Operator(
        number=number,
        name=str(note["operatorInfo"]["operatorName"]),
        stores=stores,
        variables=tuple(sorted(name for name in names if not name.startswith("$"))),
        timers=any("Timers_" in name for name in names if name.startswith("$")),
    )
