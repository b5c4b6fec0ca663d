"""What readers find in each sink of a sequence's pipelines, and how that differs from what must be there."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from onceward.proof.chaos.places import read_topic

SHOWN: Final = 8  # records of a kind


def value_of(number: int) -> str:
    """Of a record: its id, and a payload that follows from it."""
    return f"{number}|{number * 7919 % 10007:05d}"


def topic(bootstrap: str, name: str) -> Counter[str]:
    """What a read_committed consumer sees."""
    return Counter(message.value().decode() for message in read_topic(bootstrap, name))


def table(connection: Any, name: str) -> Counter[str]:
    if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
        return Counter()
    return Counter(f"{number}|{payload}" for number, payload in connection.execute(f"SELECT id, payload FROM {name}"))  # noqa: S608 - ours


def files(folder: Path) -> Counter[str]:
    """As Spark reads a folder: what begins with a dot or an underscore is not looked at."""
    lines = (
        line
        for file in folder.glob("epoch=*/*.json")
        if not file.name.startswith((".", "_"))
        for line in file.read_text("utf-8").splitlines()
    )
    return Counter(f"{row['id']}|{row['payload']}" for row in map(json.loads, lines))


def differences(wanted: Counter[int], found: Counter[str]) -> list[str]:
    """In words: lost, too often, and what nobody has asked for."""
    must = Counter({value_of(number): count for number, count in wanted.items()})
    lost, extra = must - found, found - must
    strange = {value for value in extra if value not in must}
    told = {
        "lost": lost,
        "too often": Counter({it: count for it, count in extra.items() if it not in strange}),
        "not to be there": Counter({it: extra[it] for it in strange}),
    }
    return [f"{count.total()} {what}: {_some(count)}" for what, count in told.items() if count]


def _some(values: Counter[str]) -> str:
    shown = ", ".join(sorted(values)[:SHOWN])
    return f"{shown}, ..." if len(values) > SHOWN else shown
