"""Records that no application should count: each kind of spoiled value, and ads that nobody knows."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from onceward.apps.ads.words import AHEAD_MS, CLICK, MINUTE_MS, ORDER
from onceward.apps.ads.world.records import Event, Record

Fields: TypeAlias = dict[str, Any]
Spoiler: TypeAlias = Callable[[Fields, int, random.Random], bytes | None]

COPIED: Final = 0.1  # most reasons are given to each copy on its own
CLOSE_MS: Final = 10_000
FAR_MS: Final = 60 * MINUTE_MS
NO_OBJECTS: Final = (b"", b"null", b"42", b"true", b'"soon"', b"no json at all", b"\xff\x00\xfe")
NO_TYPES: Final = ("view", "Click", "", "refund")


class Kind(NamedTuple):
    of: str  # what it looks like: a click, or an order
    spoil: Spoiler
    copy_within_ms: int = 0


def spoiled(number: int, order: Event, ads: Sequence[str], dice: random.Random) -> list[Record]:
    """The `number`th invalid record, with its copies if it has any. Kind follows upon kind, so that each run has all.

    It lies just before `order`, of the same user and store: taken for a touch, it would be owed that order.
    """
    kind = KINDS[number % len(KINDS)]
    name = f"x-{number:07d}"
    event = order._replace(at=order.at - dice.randrange(CLOSE_MS))
    if kind.of == CLICK:
        event = event._replace(type=CLICK, ad=dice.choice(ads))
    arrived = event.at + dice.randrange(CLOSE_MS)
    value = kind.spoil(json.loads(event.encode(name)), arrived, dice)
    arrivals = [arrived]
    if kind.copy_within_ms:
        arrivals.append(arrived + dice.randrange(kind.copy_within_ms))
    elif dice.random() < COPIED:
        arrivals.append(arrived)  # at once: what was from the future must not have become the present
    return [Record(event.topic, name.encode("ascii"), value, it) for it in arrivals]


def _json(fields: Fields | list[Fields]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def _null(_fields: Fields, _arrived: int, _dice: random.Random) -> None:
    return None


def _truncated(fields: Fields, _arrived: int, dice: random.Random) -> bytes:
    whole = _json(fields)
    return whole[: dice.randrange(1, len(whole))]


def _array(fields: Fields, _arrived: int, dice: random.Random) -> bytes:
    return _json([fields] * dice.choice((0, 1, 2)))


def _no_object(_fields: Fields, _arrived: int, dice: random.Random) -> bytes:
    return dice.choice(NO_OBJECTS)


def _text_for(name: str) -> Spoiler:
    return lambda fields, _arrived, _dice: _json(fields | {name: "soon"})


def _without(name: str) -> Spoiler:
    def spoil(fields: Fields, _arrived: int, dice: random.Random) -> bytes:
        if dice.random() < 0.5:
            return _json(fields | {name: None})
        del fields[name]
        return _json(fields)

    return spoil


def _unknown_type(fields: Fields, _arrived: int, dice: random.Random) -> bytes:
    return _json(fields | {"type": dice.choice(NO_TYPES)})


def _just_ahead(fields: Fields, arrived: int, _dice: random.Random) -> bytes:
    return _json(fields | {"at": arrived + AHEAD_MS + 1})


def _far_ahead(fields: Fields, arrived: int, dice: random.Random) -> bytes:
    return _json(fields | {"at": arrived + AHEAD_MS + dice.randint(1, FAR_MS)})


def _unknown_ad(fields: Fields, _arrived: int, dice: random.Random) -> bytes:
    return _json(fields | {"ad": f"ad-of-nobody-{dice.randrange(5)}"})


KINDS: Final = (
    Kind(CLICK, _null),
    Kind(CLICK, _truncated),
    Kind(ORDER, _truncated),
    Kind(CLICK, _array),
    Kind(CLICK, _no_object),
    Kind(CLICK, _text_for("at")),
    Kind(ORDER, _text_for("amount")),
    Kind(CLICK, _without("id")),
    Kind(CLICK, _without("type")),
    Kind(CLICK, _without("at")),
    Kind(CLICK, _without("user")),
    Kind(CLICK, _without("store")),
    Kind(CLICK, _without("ad")),
    Kind(ORDER, _without("amount")),
    Kind(CLICK, _unknown_type),
    Kind(CLICK, _just_ahead),
    Kind(ORDER, _far_ahead),
    Kind(CLICK, _unknown_ad),
    Kind(CLICK, _unknown_ad, copy_within_ms=4 * MINUTE_MS),  # a copy on time adds nothing; a late one is late
)
