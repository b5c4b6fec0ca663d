"""The truth is right: each rule by hand at the point where it turns, then all of them against a slow second account."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from onceward.apps.ads.words import (
    AD_EVENTS_RAW,
    AHEAD_MS,
    CLICK,
    HEARTBEAT,
    HORIZON_MS,
    IMPRESSION,
    MINUTE_MS,
    ORDER,
    ORDERS_RAW,
    START_MS,
    WINDOW_MS,
)
from onceward.apps.ads.world.catalogue import Ad, Campaign, Catalogue, Price
from onceward.apps.ads.world.generator import Generated, Record, generate
from onceward.apps.ads.world.truth import Attributed, Charge, Minute, Truth, truth

NOW = START_MS + 60 * MINUTE_MS
CATALOGUE = Catalogue(
    campaigns=(Campaign("shoes", "EUR", 13), Campaign("hats", "GBP", 29)),
    ads=(Ad("boot", "shoes", "s1"), Ad("sandal", "shoes", "s1"), Ad("cap", "hats", "s1")),
    prices=(
        Price("shoes", NOW + 10_000, 303),  # in no order: the truth sorts them itself
        Price("shoes", START_MS, 101),
        Price("shoes", NOW, 202),
        Price("hats", START_MS, 777),
    ),
)


def record(arrived: int | None = None, /, **fields: Any) -> Record:
    """A record of these fields that arrives when it happens, unless told otherwise."""
    topic = ORDERS_RAW if fields.get("type") == ORDER else AD_EVENTS_RAW
    value = json.dumps(fields).encode()
    return Record(topic, b"k", value, fields.get("at", NOW) if arrived is None else arrived)


def touch(
    name: str, at: int = NOW, kind: str = CLICK, ad: str = "boot", arrived: int | None = None, **more: str
) -> Record:
    return record(arrived, **{"id": name, "type": kind, "user": "u", "store": "s1", "ad": ad, "at": at} | more)


def order(name: str = "o", at: int = NOW, arrived: int | None = None, **more: Any) -> Record:
    return record(arrived, **{"id": name, "type": ORDER, "user": "u", "store": "s1", "at": at, "amount": 5_001} | more)


def of(*records: Record) -> Truth:
    return truth(records, CATALOGUE)


def owed_to(*records: Record) -> str | None:
    return of(*records).attributed["o"].touch_id


# --- clean -----------------------------------------------------------------------------------------------------------

GOOD_TOUCH = {"id": "e", "type": CLICK, "user": "u", "store": "s1", "ad": "boot", "at": NOW}
GOOD_ORDER = {"id": "o", "type": ORDER, "user": "u", "store": "s1", "amount": 5, "at": NOW}


def without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: it for name, it in fields.items() if name not in names}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        *((without(GOOD_TOUCH, name), f"missing {name}") for name in ("id", "type", "at", "user", "store", "ad")),
        *((GOOD_TOUCH | {name: None}, f"missing {name}") for name in ("id", "type", "at", "user", "store", "ad")),
        *((without(GOOD_ORDER, name), f"missing {name}") for name in ("id", "type", "at", "user", "store", "amount")),
        (GOOD_ORDER | {"amount": None}, "missing amount"),
        (without(GOOD_TOUCH, "id", "type", "at", "user"), "missing id"),
        (without(GOOD_TOUCH, "type", "at", "user"), "missing type"),
        (without(GOOD_TOUCH, "at", "user"), "missing at"),
        (without(GOOD_TOUCH, "user", "store", "ad"), "missing user"),
        (without(GOOD_TOUCH, "store", "ad"), "missing store"),
        ({"id": "e", "type": "view", "at": NOW}, "unknown type"),
        ({"id": "e", "type": "view"}, "missing at"),
        (GOOD_TOUCH | {"type": "Click"}, "unknown type"),
        (GOOD_TOUCH | {"at": "soon"}, "malformed"),
        (GOOD_TOUCH | {"at": 1.5}, "malformed"),
        (GOOD_TOUCH | {"at": True}, "malformed"),
        (GOOD_ORDER | {"amount": "much"}, "malformed"),
        (GOOD_ORDER | {"amount": {}}, "malformed"),
        (GOOD_TOUCH | {"id": 7}, "malformed"),
        (without(GOOD_TOUCH, "id") | {"at": "soon"}, "malformed"),
        (without(GOOD_TOUCH, "user") | {"at": NOW + AHEAD_MS + 1}, "missing user"),
        (GOOD_TOUCH | {"at": NOW + AHEAD_MS + 1}, "from the future"),
        (GOOD_ORDER | {"at": NOW + AHEAD_MS + 1}, "from the future"),
        (GOOD_TOUCH | {"at": NOW + AHEAD_MS + 1, "ad": "nobody's"}, "from the future"),
        (GOOD_TOUCH | {"ad": "nobody's"}, "unknown ad"),
    ],
)
def test_the_first_fault_is_the_reason(fields: dict[str, Any], reason: str) -> None:
    """F4"""
    spoiled = record(NOW, **fields)
    found = of(spoiled)
    assert found.dead == Counter({(reason, spoiled.value): 1})
    assert replace(found, dead=Counter()) == of(), "and nothing else comes of it"


@pytest.mark.parametrize(
    "value", [b"", b"{", b'{"id":"e"', b"[]", b"[{}]", b"null", b"17", b'"e"', b"true", b"e", b"\xff\xfe{}", b"{}x"]
)
def test_what_is_no_object_is_malformed(value: bytes) -> None:
    assert of(Record(AD_EVENTS_RAW, b"k", value, NOW)).dead == Counter({("malformed", value): 1})


def test_an_empty_object_lacks_its_id() -> None:
    assert of(record(NOW)).dead == Counter({("missing id", b"{}"): 1})


def test_no_value_is_empty() -> None:
    assert of(Record(AD_EVENTS_RAW, b"k", None, NOW)).dead == Counter({("empty", None): 1})


def test_every_invalid_record_is_a_dead_letter_of_its_own() -> None:
    spoiled = record(NOW, **without(GOOD_TOUCH, "user"))
    empty = Record(ORDERS_RAW, b"k", None, NOW)
    future = touch("e", NOW + AHEAD_MS + 1, arrived=NOW)
    found = of(spoiled, empty, future, spoiled, empty, future)
    assert found.dead == Counter(
        {("missing user", spoiled.value): 2, ("empty", None): 2, ("from the future", future.value): 2}
    )


def test_an_unknown_ad_is_a_dead_letter_once_for_its_id() -> None:
    strange = touch("e", ad="nobody's")
    copy = touch("e", ad="nobody's", arrived=NOW + HORIZON_MS)
    late = touch("e", ad="nobody's", arrived=NOW + HORIZON_MS + 1)
    found = of(strange, copy, strange, late)
    assert found.dead == Counter({("unknown ad", strange.value): 1})
    assert found.late == Counter({(late.value, late.arrived_ms): 1})
    assert not found.events


def test_a_clock_may_be_ahead_by_a_minute_and_no_more() -> None:
    assert of(touch("e", NOW + AHEAD_MS, arrived=NOW)).events == {"e"}
    assert of(touch("e", NOW + AHEAD_MS + 1, arrived=NOW)).events == set()


def test_an_event_may_arrive_a_horizon_late_and_no_more() -> None:
    """Each late record is kept, each copy too."""
    assert of(touch("e", arrived=NOW + HORIZON_MS)).events == {"e"}
    late = touch("e", arrived=NOW + HORIZON_MS + 1)
    found = of(late, late, order("o", arrived=NOW + HORIZON_MS + 1))
    assert found.late[late.value or b"", NOW + HORIZON_MS + 1] == 2
    assert found.late.total() == 3
    assert replace(found, late=Counter()) == of()


def test_a_copy_on_time_counts_whatever_came_before_it() -> None:
    """F1: none lost because a late copy was there first, none counted twice."""
    late, on_time = touch("e", arrived=NOW + HORIZON_MS + 1), touch("e", arrived=NOW + 5)
    for records in ((late, on_time, on_time), (on_time, late, on_time)):
        found = of(*records)
        assert found.events == {"e"}
        assert found.late.total() == 1
        assert [it.count for it in found.minutes.values()] == [1]


def test_a_copied_order_is_one_order() -> None:
    found = of(touch("e"), order(), order(arrived=NOW + 9), order())
    assert found.orders == {"o"}
    assert found.bill["shoes"].orders == 1


def test_two_contents_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="id e has two contents"):
        of(touch("e", ad="boot"), touch("e", ad="cap"))


def test_heartbeats_have_no_effect() -> None:
    beats = [
        record(arrived, id="h", type=HEARTBEAT, at=NOW) for arrived in (NOW, NOW + HORIZON_MS + 1, NOW - AHEAD_MS - 1)
    ]
    assert of(*beats) == of()
    assert of(*beats, touch("e"), order()) == of(touch("e"), order())


def test_the_topic_of_a_record_does_not_matter_its_type_does() -> None:
    astray = Record(AD_EVENTS_RAW, b"k", order().value, NOW)
    assert of(astray).orders == {"o"}


# --- aggregate -------------------------------------------------------------------------------------------------------


def test_a_minute_begins_with_its_first_ms_and_ends_before_the_next() -> None:
    """F2, F3"""
    found = of(touch("a", NOW - 1), touch("b", NOW), touch("c", NOW + MINUTE_MS - 1), touch("d", NOW + MINUTE_MS))
    assert found.minutes == {
        f"boot|click|{NOW - MINUTE_MS}": Minute("boot", CLICK, NOW - MINUTE_MS, 1),
        f"boot|click|{NOW}": Minute("boot", CLICK, NOW, 2),
        f"boot|click|{NOW + MINUTE_MS}": Minute("boot", CLICK, NOW + MINUTE_MS, 1),
    }


def test_ads_and_types_are_counted_apart() -> None:
    found = of(touch("a"), touch("b", kind=IMPRESSION), touch("c", ad="cap"), touch("d", user="other"), order())
    counts = {(it.ad, it.type): it.count for it in found.minutes.values()}
    assert counts == {("boot", CLICK): 2, ("boot", IMPRESSION): 1, ("cap", CLICK): 1}


# --- attribute -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CLICK, IMPRESSION])
@pytest.mark.parametrize(
    ("gap", "counts"),
    [(WINDOW_MS + 1, False), (WINDOW_MS, True), (1, True), (0, True), (-1, False), (-WINDOW_MS, False)],
)
def test_the_window_includes_both_its_ends(kind: str, gap: int, counts: bool) -> None:
    assert owed_to(touch("e", NOW - gap, kind), order()) == ("e" if counts else None)


def test_the_last_click_wins_in_whatever_order_things_arrive() -> None:
    things = [touch("a", NOW - 30), touch("b", NOW - 20, ad="cap"), touch("c", NOW - 25), order()]
    assert owed_to(*things) == owed_to(*reversed(things)) == "b"


def test_a_click_beats_a_later_impression() -> None:
    assert owed_to(touch("a", NOW - WINDOW_MS), touch("b", NOW, IMPRESSION), order()) == "a"


def test_an_impression_counts_where_the_click_is_too_old() -> None:
    assert owed_to(touch("a", NOW - WINDOW_MS - 1), touch("b", NOW - 9, IMPRESSION), order()) == "b"
    assert owed_to(touch("a", NOW + 1), touch("b", NOW - WINDOW_MS, IMPRESSION), order()) == "b"


@pytest.mark.parametrize("kind", [CLICK, IMPRESSION])
def test_of_two_at_the_same_time_the_larger_id_wins(kind: str) -> None:
    things = [touch("e-9", NOW - 5, kind), touch("e-10", NOW - 5, kind, ad="cap"), touch("e-99", NOW - 6, kind)]
    assert owed_to(*things, order()) == owed_to(*reversed(things), order()) == "e-9"


def test_a_touch_counts_for_its_user_and_its_store_only() -> None:
    assert owed_to(touch("a", user="v"), touch("b", store="s2"), order()) is None


def test_one_touch_may_be_owed_several_orders() -> None:
    found = of(touch("e"), order("o"), order("p", NOW + 1))
    assert {it.touch_id for it in found.attributed.values()} == {"e"}
    assert found.bill["shoes"].orders == 2


def test_late_and_unknown_touches_are_owed_nothing() -> None:
    late = touch("l", NOW - 1, arrived=NOW + HORIZON_MS)
    assert owed_to(touch("a", NOW - 9), late, touch("x", ad="nobody's"), order()) == "a"


def test_an_order_without_a_touch_comes_out_with_nothing() -> None:
    assert of(order()).attributed == {"o": Attributed("o", "u", "s1", NOW, 5_001)}


def test_an_order_carries_all_of_what_it_is_owed_to() -> None:
    found = of(touch("e", ad="cap", kind=IMPRESSION), order()).attributed["o"]
    assert found == Attributed("o", "u", "s1", NOW, 5_001, "e", IMPRESSION, "cap", "hats", 777, "GBP")


@pytest.mark.parametrize(
    ("at", "cents"), [(NOW - 1, 101), (NOW, 202), (NOW + 9_999, 202), (NOW + 10_000, 303), (NOW + 10_001, 303)]
)
def test_a_price_is_valid_from_its_first_ms(at: int, cents: int) -> None:
    """F6: the order's time decides, not the touch's and not the arrival's."""
    assert of(touch("e", NOW - 9), order(at=at, arrived=NOW + 20_000)).attributed["o"].price_cents == cents


def test_before_the_first_price_there_is_none() -> None:
    found = of(touch("e", START_MS - 1), order(at=START_MS - 1))
    assert found.attributed["o"].price_cents is None
    assert found.bill["shoes"] == Charge(1, 13, 1, 0)


# --- the bill --------------------------------------------------------------------------------------------------------


def test_the_bill_is_clicks_and_attributed_orders() -> None:
    """F5: money to the cent, per campaign, in its own currency."""
    found = of(
        touch("a", NOW - 5),
        touch("b", NOW - 4, ad="sandal"),
        touch("c", NOW - 4, kind=IMPRESSION, ad="cap"),
        order("o", NOW - 1),
        order("p", NOW),
        order("q", NOW, user="nobody"),
        touch("d", NOW + 11_000, ad="cap"),
        order("r", NOW + 11_000),
    )
    assert found.bill == {"shoes": Charge(2, 2 * 13, 2, 101 + 202), "hats": Charge(1, 29, 1, 777)}
    assert {name: it.total_cents for name, it in found.bill.items()} == {"shoes": 329, "hats": 806}


def test_a_campaign_without_events_owes_nothing() -> None:
    assert of().bill == {"shoes": Charge(), "hats": Charge()}


# --- a second account ------------------------------------------------------------------------------------------------


def naive(made: Generated) -> tuple[dict[str, tuple[Any, ...]], Counter[str], Counter[str], int, dict[str, int]]:
    """Every order against every event, every price against every order: slow, and written by other means."""
    reasons: Counter[str] = Counter()
    late, kept = 0, []
    ads = [it.name for it in made.catalogue.ads]
    for it in made.records:
        reason, event = naively_judged(it.value, it.arrived_ms)
        if reason == "late":
            late += 1
        elif reason:
            reasons[reason] += 1
        elif event not in kept:
            kept.append(event)
    unknown = [it for it in kept if it["type"] != ORDER and it["ad"] not in ads]
    reasons["unknown ad"] = len(unknown)
    touches = [it for it in kept if it["type"] != ORDER and it not in unknown]
    minutes = Counter(f"{it['ad']}|{it['type']}|{it['at'] // 60_000 * 60_000}" for it in touches)
    bill = {it.name: 0 for it in made.catalogue.campaigns}
    for campaign in made.catalogue.campaigns:
        mine = [ad.name for ad in made.catalogue.ads if ad.campaign == campaign.name]
        for touch in touches:
            mine_to_pay = touch["type"] == "click" and touch["ad"] in mine
            bill[campaign.name] += campaign.click_price_cents if mine_to_pay else 0
    attributed = {}
    for order in (it for it in kept if it["type"] == ORDER):
        attributed[order["id"]] = owed = naively_attributed(order, touches, made.catalogue)
        if owed[0] is not None:
            bill[owed[3]] += owed[4]
    return attributed, minutes, reasons, late, bill


def naively_judged(value: bytes | None, arrived: int) -> tuple[str, dict[str, Any]]:
    if value is None:
        return "empty", {}
    try:
        event = json.loads(str(value, "utf-8"))
    except ValueError:
        event = None
    if not isinstance(event, dict) or any(isinstance(event.get(it), str) for it in ("at", "amount")):
        return "malformed", {}
    kind = event.get("type")
    required = ["id", "type", "at", "user", "store", "amount" if kind == ORDER else "ad"]
    gone = [it for it in required if event.get(it) is None]
    if gone and gone[0] in ("id", "type", "at"):
        return f"missing {gone[0]}", {}
    if kind not in ("impression", "click", "order"):
        return "unknown type", {}
    if gone:
        return f"missing {gone[0]}", {}
    lag = arrived - event["at"]
    return ("from the future" if lag < -60_000 else "late" if lag > 120_000 else ""), event


def naively_attributed(it: dict[str, Any], touches: list[dict[str, Any]], catalogue: Catalogue) -> tuple[Any, ...]:
    near = [
        touch
        for touch in touches
        if touch["user"] == it["user"] and touch["store"] == it["store"] and 0 <= it["at"] - touch["at"] <= 900_000
    ]
    if not near:
        return (None, None, None, None, None, None)
    best = max(near, key=lambda touch: (touch["type"] == "click", touch["at"], touch["id"]))
    campaign = next(ad.campaign for ad in catalogue.ads if ad.name == best["ad"])
    valid = [price for price in catalogue.prices if price.campaign == campaign and price.valid_from_ms <= it["at"]]
    price = max(valid, key=lambda price: price.valid_from_ms).cents
    currency = next(one.currency for one in catalogue.campaigns if one.name == campaign)
    return best["id"], best["type"], best["ad"], campaign, price, currency


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_slow_second_account_agrees(seed: int) -> None:
    """F5: two ways of counting, one result."""
    made = generate(2_000, seed)
    found = truth(made.records, made.catalogue)
    attributed, minutes, reasons, late, bill = naive(made)
    assert {
        name: (it.touch_id, it.touch_type, it.ad, it.campaign, it.price_cents, it.currency)
        for name, it in found.attributed.items()
    } == attributed
    assert {name: it.count for name, it in found.minutes.items()} == minutes
    assert all(name == it.id for name, it in found.minutes.items())
    assert found.orders == attributed.keys()
    assert len(found.events) == minutes.total()
    counted: Counter[str] = Counter()
    for (reason, _), count in found.dead.items():
        counted[reason] += count
    assert counted == reasons
    assert found.late.total() == late
    assert {name: it.total_cents for name, it in found.bill.items()} == bill


def test_the_truth_does_not_depend_on_the_order_of_the_records() -> None:
    """F2: nor can the result, however the records fall into epochs."""
    made = generate(3_000, seed=9)
    assert truth(reversed(made.records), made.catalogue) == truth(made.records, made.catalogue)
