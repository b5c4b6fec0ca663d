"""The note in a checkpoint that says which topics its positions are about, by Kafka's ids."""

from typing import Final

import msgspec

from onceward.epoch.sealed import unseal

FORMAT: Final = 1
FILE: Final = "sources.json"


class SourceTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the topics, by their names."""

    format: int = FORMAT
    ids: dict[str, str]


def ids_in(data: bytes | None) -> dict[str, str]:
    """Of the file; none if there is no file."""
    return unseal(data, SourceTopics, FILE, FORMAT).ids if data is not None else {}
