"""The note in a checkpoint that says which topics its positions are about, by Kafka's ids."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from onceward.epoch.sealed import unseal
from onceward.errors import SourceReplaced

FORMAT: Final = 1
FILE: Final = "sources.json"


class SourceTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the topics by their names, of each source by its number: two clusters may have topics of one name."""

    format: int = FORMAT
    ids: list[dict[str, str]]


def require_same(known: Sequence[Mapping[str, str]], now: Sequence[Mapping[str, str]]) -> SourceTopics:
    """Compare what is read now with what was noted, source by source; both together are to be noted from here on."""
    ids: list[dict[str, str]] = []
    for was, found in zip_longest(known, now, fillvalue=dict[str, str]()):
        for topic, number in found.items():
            if was.get(topic, number) != number:
                raise SourceReplaced(
                    f"source topic {topic!r} was deleted and made again (its id was {was[topic]}, now {number}): the "
                    "home's positions are those of the old one, and the new one's first events would be skipped. Begin "
                    "anew: onceward reset HOME --file FILE.py says what that means for each sink; or, if the state "
                    "must be kept, write the events to a topic of another name and read that one as well."
                )
        ids.append({**was, **found})
    return SourceTopics(ids=ids)


def of_sources(data: bytes | None) -> list[dict[str, str]]:
    """Of the file; none if there is no file."""
    return unseal(data, SourceTopics, FILE, FORMAT).ids if data is not None else []


def ids_in(data: bytes | None) -> dict[str, str]:
    """Of all sources together, without names that stand for several topics."""
    pairs = {pair for ids in of_sources(data) for pair in ids.items()}
    names = [name for name, _ in pairs]
    return {name: number for name, number in pairs if names.count(name) == 1}
