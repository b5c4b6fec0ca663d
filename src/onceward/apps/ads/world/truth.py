"""What must come out, computed from the raw records' bytes by the application's rules, without Spark.

It trusts nothing that the generator meant: it parses the records again. Each rule stands here once more, in plain
Python, so that the pipelines are compared with something that shares no code with them.
"""

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeAlias

from onceward.apps.ads.words import (
    AHEAD_MS,
    CLICK,
    HEARTBEAT,
    HORIZON_MS,
    IMPRESSION,
    MINUTE_MS,
    ORDER,
    WINDOW_MS,
)
from onceward.apps.ads.world.bill import Attributed, Charge, Minute, charges
from onceward.apps.ads.world.catalogue import Catalogue
from onceward.apps.ads.world.records import Record

__all__ = ["Attributed", "Charge", "Minute", "Truth", "truth"]

Fields: TypeAlias = dict[str, Any]
Touch: TypeAlias = tuple[int, str, str]  # at, id, ad: compared in this order

TYPES: Final = {"id": str, "type": str, "user": str, "store": str, "ad": str, "at": int, "amount": int}
NEEDED_BY_ALL: Final = ("id", "type", "at")
NEEDED: Final = {
    IMPRESSION: ("user", "store", "ad"),
    CLICK: ("user", "store", "ad"),
    ORDER: ("user", "store", "amount"),
    HEARTBEAT: (),
}


@dataclass(frozen=True, slots=True)
class Truth:
    events: set[str]
    orders: set[str]
    late: Counter[tuple[bytes, int]]  # value, arrived_ms
    dead: Counter[tuple[str, bytes | None]]  # reason, value
    minutes: dict[str, Minute]
    attributed: dict[str, Attributed]
    bill: dict[str, Charge]


def truth(records: Iterable[Record], catalogue: Catalogue) -> Truth:
    sorted_out = _SortedOut({it.name for it in catalogue.ads})
    for record in records:
        sorted_out.take(record)
    minutes = {it.id: it for it in (Minute(*key, count) for key, count in sorted_out.counts.items())}
    attributed = _attributed(sorted_out, catalogue)
    return Truth(
        events=sorted_out.events,
        orders=set(attributed),
        late=sorted_out.late,
        dead=sorted_out.dead,
        minutes=minutes,
        attributed=attributed,
        bill=charges(minutes.values(), attributed.values(), catalogue),
    )


class _SortedOut:
    """Each record in its place: valid once, late, or dead with a reason."""

    def __init__(self, ads: set[str]) -> None:
        self.ads = ads
        self.values: dict[str, bytes] = {}  # by id, of the first on-time record
        self.events: set[str] = set()
        self.orders: list[Fields] = []
        self.touches: dict[tuple[str, str, str], list[Touch]] = defaultdict(list)  # by type, user, store
        self.counts: Counter[tuple[str, str, int]] = Counter()  # by ad, type, minute
        self.late: Counter[tuple[bytes, int]] = Counter()
        self.dead: Counter[tuple[str, bytes | None]] = Counter()

    def take(self, record: Record) -> None:
        value, arrived = record.value, record.arrived_ms
        if value is None:
            self.dead["empty", None] += 1
        elif (fields := _parsed(value)) is None:
            self.dead["malformed", value] += 1
        elif (reason := _fault(fields, arrived)) is not None:
            self.dead[reason, value] += 1
        elif fields["type"] == HEARTBEAT:
            pass  # it only says that time has passed, whenever it comes
        elif arrived - fields["at"] > HORIZON_MS:
            self.late[value, arrived] += 1
        elif fields["id"] not in self.values:
            self.values[fields["id"]] = value
            self._keep(fields, value)
        elif self.values[fields["id"]] != value:
            raise ValueError(f"id {fields['id']} has two contents: which one is the truth depends on the order")

    def _keep(self, fields: Fields, value: bytes) -> None:
        kind, at = fields["type"], fields["at"]
        if kind == ORDER:
            self.orders.append(fields)
            return
        name, ad = fields["id"], fields["ad"]
        if ad not in self.ads:
            self.dead["unknown ad", value] += 1
            return
        self.events.add(name)
        self.touches[kind, fields["user"], fields["store"]].append((at, name, ad))
        self.counts[ad, kind, at - at % MINUTE_MS] += 1


def _parsed(value: bytes) -> Fields | None:
    """None: malformed. JSON's null for a field is the same as no field."""
    try:
        found = json.loads(value.decode("utf-8"))
    except ValueError:
        return None
    if type(found) is not dict:
        return None
    fields = {name: it for name, it in found.items() if it is not None}
    for name, it in fields.items():
        if name in TYPES and type(it) is not TYPES[name]:
            return None
    return fields


def _fault(fields: Fields, arrived: int) -> str | None:
    for name in NEEDED_BY_ALL:
        if name not in fields:
            return f"missing {name}"
    if fields["type"] not in NEEDED:
        return "unknown type"
    for name in NEEDED[fields["type"]]:
        if name not in fields:
            return f"missing {name}"
    if fields["at"] > arrived + AHEAD_MS and fields["type"] != HEARTBEAT:
        return "from the future"
    return None


def _attributed(sorted_out: _SortedOut, catalogue: Catalogue) -> dict[str, Attributed]:
    for touches in sorted_out.touches.values():
        touches.sort()
    campaign_of = {it.name: it.campaign for it in catalogue.ads}
    currency_of = {it.name: it.currency for it in catalogue.campaigns}
    prices: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for price in sorted(catalogue.prices, key=lambda it: it.valid_from_ms):
        prices[price.campaign].append((price.valid_from_ms, price.cents))
    attributed = {}
    for it in sorted_out.orders:
        order = (it["id"], it["user"], it["store"], it["at"], it["amount"])
        kind, touch = _owed_to(it, sorted_out.touches)
        if touch is None:
            attributed[it["id"]] = Attributed(*order)
            continue
        _, touch_id, ad = touch
        campaign = campaign_of[ad]
        valid = bisect_right(prices[campaign], it["at"], key=itemgetter(0))
        cents = prices[campaign][valid - 1][1] if valid else None
        attributed[it["id"]] = Attributed(*order, touch_id, kind, ad, campaign, cents, currency_of[campaign])
    return attributed


def _owed_to(order: Fields, touches: dict[tuple[str, str, str], list[Touch]]) -> tuple[str | None, Touch | None]:
    """The last click within the window, else the last impression."""
    for kind in (CLICK, IMPRESSION):
        candidates = touches.get((kind, order["user"], order["store"]), [])
        before = bisect_right(candidates, order["at"], key=itemgetter(0))
        if before and candidates[before - 1][0] >= order["at"] - WINDOW_MS:
            return kind, candidates[before - 1]
    return None, None
