"""The input is the same for the same seed, and every run of some size meets every rule at the point where it turns."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from onceward.apps.ads.words import (
    AD_EVENTS_RAW,
    AHEAD_MS,
    CLICK,
    HORIZON_MS,
    IMPRESSION,
    MINUTE_MS,
    ORDER,
    ORDERS_RAW,
    START_MS,
    WINDOW_MS,
)
from onceward.apps.ads.world import generator
from onceward.apps.ads.world.catalogue import Catalogue
from onceward.apps.ads.world.edges import PRICE_TURNS, STORIES
from onceward.apps.ads.world.generator import DELAYED_MS, Generated, Record, generate
from onceward.apps.ads.world.records import Event
from onceward.apps.ads.world.sessions import LONGEST_MS
from onceward.apps.ads.world.truth import Truth, truth

SEEDS = (1, 2, 3, 4)
SMALL, LARGE = 2_000, 40_000
DIGEST = """
import hashlib
from onceward.apps.ads.world.generator import generate
print(hashlib.sha256(repr(generate(500, seed=11)).encode()).hexdigest())
"""


@dataclass(frozen=True, slots=True)
class Happened:
    """What a record says, if it says something that can be read."""

    id: str
    type: str
    user: str
    store: str
    ad: str | None
    at: int
    arrived: int


@cache
def run_of(events: int, seed: int) -> Generated:
    return generate(events, seed)


@cache
def truth_of(events: int, seed: int) -> Truth:
    made = run_of(events, seed)
    return truth(made.records, made.catalogue)


@cache
def happened(events: int, seed: int) -> list[Happened]:
    """Of every arrival of an event that was meant to be good: invalid records have ids of their own."""
    found = []
    for record in run_of(events, seed).records:
        if record.key.startswith((b"e-", b"o-")):
            fields = json.loads(record.value or b"")
            fields.setdefault("ad", None)
            fields.pop("amount", None)
            found.append(Happened(**fields, arrived=record.arrived_ms))
    return found


def touch_and_order(events: int, seed: int) -> list[tuple[Happened, Happened]]:
    """Every touch with every order of its user and store."""
    touches = defaultdict(list)
    for it in happened(events, seed):
        if it.type != ORDER:
            touches[it.user, it.store].append(it)
    orders = [it for it in happened(events, seed) if it.type == ORDER]
    return [(touch, order) for order in orders for touch in touches[order.user, order.store]]


def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    """F5: a run can be repeated from its seed."""
    assert generate(3_000, seed=5) == generate(3_000, seed=5)
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST], env=os.environ | {"PYTHONHASHSEED": order}, capture_output=True, check=True
        ).stdout.strip()
        for order in ("1", "2")
    }
    assert digests == {hashlib.sha256(repr(generate(500, seed=11)).encode()).hexdigest().encode()}


def test_another_seed_gives_other_events_and_prices() -> None:
    one, other = generate(500, seed=5), generate(500, seed=6)
    assert one.records != other.records
    assert one.catalogue.prices != other.catalogue.prices


@pytest.mark.parametrize("events", [1, 2, 17, 1_999, 2_000])
def test_there_are_as_many_ad_events_as_asked_for(events: int) -> None:
    ids = {it.id for it in happened(events, 3) if it.type != ORDER}
    assert len(ids) == events


def test_no_events_are_refused() -> None:
    with pytest.raises(ValueError, match="events: at least 1, not 0"):
        generate(0, seed=1)


def test_records_come_as_they_arrive() -> None:
    made = run_of(LARGE, 1)
    arrivals = [it.arrived_ms for it in made.records]
    assert arrivals == sorted(arrivals)
    assert made.end_ms == arrivals[-1]


def test_a_record_lies_in_its_topic_under_its_id() -> None:
    for record in run_of(SMALL, 1).records:
        if record.key.startswith((b"e-", b"o-")):
            fields = json.loads(record.value or b"")
            assert record.key.decode() == fields["id"]
            assert record.topic == (ORDERS_RAW if fields["type"] == ORDER else AD_EVENTS_RAW)


def test_an_event_is_encoded_as_json() -> None:
    click = Event(CLICK, "user-1", "store-1", 17, ad="ad-1")
    assert json.loads(click.encode("e-1")) == {
        "id": "e-1", "type": CLICK, "user": "user-1", "store": "store-1", "ad": "ad-1", "at": 17,
    }  # fmt: skip
    order = Event(ORDER, "user-1", "store-1", 17, amount=1999)
    assert json.loads(order.encode("o-1")) == {
        "id": "o-1", "type": ORDER, "user": "user-1", "store": "store-1", "amount": 1999, "at": 17,
    }  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_the_proportions_are_those_of_the_world(seed: int) -> None:
    copies = Counter((it.id, it.type) for it in happened(LARGE, seed))
    kinds = Counter(kind for _, kind in copies)
    assert 0.05 < kinds[ORDER] / LARGE < 0.07
    assert 0.2 < kinds[CLICK] / kinds[IMPRESSION] < 0.3
    assert 0.04 < sum(count > 1 for count in copies.values()) / len(copies) < 0.06
    delays = [it.arrived - it.at for it in happened(LARGE, seed)]
    assert sum(it <= 20_000 for it in delays) / len(delays) > 0.95
    assert 0.008 < sum(it > HORIZON_MS for it in delays) / len(delays) < 0.03
    invalid = len(run_of(LARGE, seed).records) - len(delays)
    assert 0.009 < invalid / LARGE < 0.013


def test_twenty_ad_events_happen_in_a_second() -> None:
    times = sorted(it.at for it in happened(LARGE, 1) if it.type != ORDER)
    assert times[0] >= START_MS
    span = START_MS + LARGE * 50
    assert sum(it < span for it in times) / len(times) > 0.95
    halves = sum(it < START_MS + LARGE * 25 for it in times) / len(times)
    assert 0.45 < halves < 0.55


def test_few_ads_and_few_users_are_popular() -> None:
    """A busy ad makes a busy partition."""
    ads = Counter(it.ad for it in happened(LARGE, 1) if it.type == IMPRESSION)
    assert ads.most_common(1)[0][1] > 10 * min(ads.values())
    assert len(ads) == 60
    users = Counter(it.user for it in happened(LARGE, 1) if it.user.startswith("user-"))
    assert 2_500 < len(users) <= 3_000
    assert users.most_common(1)[0][1] > 5 * users.total() / len(users)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_chooses_another_touch_is_found_out(seed: int) -> None:
    """F1: last click, click over impression, the window: each decides often, not once in a blue moon."""
    made, right = run_of(LARGE, seed), truth_of(LARGE, seed)
    campaign = {it.name: it.campaign for it in made.catalogue.ads}
    near: dict[str, dict[str, Happened]] = defaultdict(dict)
    for touch, order in touch_and_order(LARGE, seed):
        if touch.id in right.events and order.at - WINDOW_MS <= touch.at <= order.at:
            near[order.id][touch.id] = touch
    found: Counter[str] = Counter()
    for owed in right.attributed.values():
        touches = sorted(near[owed.id].values(), key=lambda it: (it.at, it.id))
        clicks = [it for it in touches if it.type == CLICK]
        found["first click"] += bool(clicks) and clicks[0].ad != clicks[-1].ad
        found["last touch"] += bool(clicks) and touches[-1].ad != clicks[-1].ad
        found["first touch"] += bool(touches) and campaign[touches[0].ad or ""] != owed.campaign
        found["impression"] += owed.touch_type == IMPRESSION
        found["nothing"] += owed.touch_id is None
    assert all(found[it] > 0.01 * len(right.attributed) for it in ("first click", "last touch", "first touch")), found
    assert all(found[it] > 0.1 * len(right.attributed) for it in ("impression", "nothing")), found


def test_strangers_order_too() -> None:
    seen = {it.user for it in happened(LARGE, 1) if it.type != ORDER}
    strangers = [it for it in happened(LARGE, 1) if it.type == ORDER and it.user not in seen]
    assert len(strangers) > 100


def test_some_orders_are_out_of_the_window() -> None:
    gaps: dict[str, int] = {}
    for touch, order in touch_and_order(LARGE, 1):
        if touch.at <= order.at:
            gaps[order.id] = min(gaps.get(order.id, sys.maxsize), order.at - touch.at)
    outside = sum(it > WINDOW_MS for it in gaps.values())
    assert 0.1 < outside / len(gaps) < 0.6


BOUNDARIES: dict[str, Callable[[Happened, Happened], bool]] = {
    "a touch exactly WINDOW before its order": lambda touch, order: order.at - touch.at == WINDOW_MS,
    "a touch at the order's time": lambda touch, order: order.at == touch.at,
    "a touch one ms too early": lambda touch, order: order.at - touch.at == WINDOW_MS + 1,
    "a touch one ms too late": lambda touch, order: touch.at - order.at == 1,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BOUNDARIES)
def test_every_run_has_the_windows_boundaries(name: str, seed: int) -> None:
    on_time = [
        (touch, order)
        for touch, order in touch_and_order(SMALL, seed)
        if {touch.id, order.id} <= truth_of(SMALL, seed).events | truth_of(SMALL, seed).orders
    ]
    assert any(BOUNDARIES[name](touch, order) for touch, order in on_time)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_run_has_the_boundaries_of_arrival_and_of_minutes(seed: int) -> None:
    right, arrivals = truth_of(SMALL, seed), happened(SMALL, seed)
    exactly = {it.id for it in arrivals if it.arrived - it.at == HORIZON_MS}
    too_late = {it.id for it in arrivals if it.arrived - it.at == HORIZON_MS + 1}
    assert exactly
    assert exactly <= right.events | right.orders
    assert too_late - exactly
    assert not (too_late - exactly) & (right.events | right.orders)
    assert too_late & exactly, "one copy on time, another late"
    assert any(it.arrived - it.at == -AHEAD_MS and it.id in right.events for it in arrivals)
    assert {0, MINUTE_MS - 1} <= {it.at % MINUTE_MS for it in arrivals if it.id in right.events}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [CLICK, IMPRESSION])
def test_every_run_has_an_order_after_two_touches_at_the_same_time(kind: str, seed: int) -> None:
    """The one with the larger id arrives first, so that arrival decides nothing by chance."""
    right = truth_of(SMALL, seed)
    twins = defaultdict(dict)
    for touch, order in touch_and_order(SMALL, seed):
        if touch.type == kind and touch.id in right.events:
            twins[order.id, touch.at][touch.id] = touch
    owed = [
        pair
        for (order, _), pair in twins.items()
        if len(pair) == 2 and order in right.attributed and right.attributed[order].touch_id == max(pair)
    ]
    assert any(
        pair[max(pair)].arrived < pair[min(pair)].arrived and len({it.ad for it in pair.values()}) == 2 for pair in owed
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_every_run_has_an_order_where_a_price_begins_and_one_just_before(seed: int) -> None:
    """F6: the price that is looked up changes while the application runs."""
    begins = {(it.campaign, it.valid_from_ms): it.cents for it in run_of(SMALL, seed).catalogue.prices}
    orders = [it for it in truth_of(SMALL, seed).attributed.values() if it.campaign is not None]
    assert any(begins.get((it.campaign or "", it.at)) == it.price_cents for it in orders)
    before = [it for it in orders if (it.campaign, it.at + 1) in begins]
    assert before
    assert all(begins[it.campaign or "", it.at + 1] != it.price_cents for it in before)


# What each story's order is owed to: which of its steps; None for nothing, LATE for an order that does not count.
LATE = -1
OUTCOMES = {
    "window-begins": 0,
    "window-missed": None,
    "window-ends": 0,
    "touched-after": None,
    "last-click": 1,
    "click-first": 0,
    "click-too-old": 1,
    "equal-clicks": 1,
    "equal-impressions": 1,
    "just-on-time": 0,
    "just-late": None,
    "late-copies": 0,
    "late-order": LATE,
    "ahead": 0,
    "price-before": 0,
    "price-from": 0,
}


def test_every_story_that_is_told_has_an_outcome() -> None:
    assert OUTCOMES.keys() == STORIES.keys() | PRICE_TURNS.keys()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", OUTCOMES)
def test_every_story_ends_as_it_was_meant(name: str, seed: int) -> None:
    """Nothing else that happens blurs it, in any run."""
    right = truth_of(SMALL, seed)
    story = sorted({it.id: it for it in happened(SMALL, seed) if it.user == f"edge-{name}-0"}.items())
    touches = [it for it, what in story if what.type != ORDER]  # ids count on in the order of telling
    (order,) = (it for it, what in story if what.type == ORDER)
    if OUTCOMES[name] == LATE:
        assert order not in right.attributed
    else:
        outcome = OUTCOMES[name]
        assert right.attributed[order].touch_id == (None if outcome is None else touches[outcome])


def test_no_order_is_taken_before_its_time() -> None:
    """Else its price might not be known yet when it is looked up."""
    right = truth_of(LARGE, 1)
    assert all(it.arrived >= it.at for it in happened(LARGE, 1) if it.id in right.orders)
    assert all(it.startswith("o-") for it in right.orders)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_run_has_every_reason(seed: int) -> None:
    """F4: nothing is written off without a reason, and each reason is met."""
    found = {reason for reason, _ in truth_of(SMALL, seed).dead}
    missing = {f"missing {name}" for name in ("id", "type", "at", "user", "store", "ad", "amount")}
    assert found == {"empty", "malformed", "unknown type", "from the future", "unknown ad"} | missing


@pytest.mark.parametrize("seed", SEEDS)
def test_every_run_has_every_kind_of_malformed_value(seed: int) -> None:
    kinds = {_kind(value) for reason, value in truth_of(SMALL, seed).dead if reason == "malformed"}
    assert {"cut click", "cut order", "list", "at", "amount"} <= kinds
    assert kinds - {"cut click", "cut order", "list", "at", "amount"}, "one that is neither object nor list"


def _kind(value: bytes | None) -> str:
    try:
        found: Any = json.loads((value or b"").decode())
    except ValueError:
        for record in (it for seed in SEEDS for it in run_of(SMALL, seed).records):
            if value and value.startswith(b"{") and record.value == value:
                return "cut order" if record.topic == ORDERS_RAW else "cut click"
        return "no json"
    if isinstance(found, dict):
        return next(name for name in ("at", "amount") if isinstance(found.get(name), str))
    return "list" if isinstance(found, list) else "scalar"


@pytest.mark.parametrize("seed", SEEDS)
def test_unknown_ads_come_twice_and_just_before_an_order(seed: int) -> None:
    right, made = truth_of(SMALL, seed), run_of(SMALL, seed)
    unknown = {value for reason, value in right.dead if reason == "unknown ad"}
    assert any(count > 1 for count in Counter(it.value for it in made.records if it.value in unknown).values())
    clicks = [json.loads(it or b"") for it in unknown]
    orders = [it for it in happened(SMALL, seed) if it.type == ORDER]
    for click in clicks:
        assert any(
            (it.user, it.store) == (click["user"], click["store"]) and 0 <= it.at - click["at"] < WINDOW_MS
            for it in orders
        )


def test_all_that_is_no_object_is_met_in_a_larger_run() -> None:
    values = {value for reason, value in truth_of(LARGE, 1).dead if reason == "malformed"}
    assert {b"", b"null", b"42", b"true", b'"soon"', b"no json at all", b"\xff\x00\xfe", b"[]"} <= values


def test_a_just_too_early_record_is_from_the_future_by_one_ms() -> None:
    future = {value for reason, value in truth_of(SMALL, 1).dead if reason == "from the future"}
    ahead = {
        json.loads(it.value)["at"] - it.arrived_ms for it in run_of(SMALL, 1).records if it.value and it.value in future
    }
    assert AHEAD_MS + 1 in ahead
    assert min(ahead) > AHEAD_MS


def test_records_are_plain_values() -> None:
    assert Record("t", b"k", None, 1) == Record("t", b"k", None, 1)
    assert len({Record("t", b"k", None, 1), Record("t", b"k", None, 1)}) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_catalogue_has_awkward_prices_that_change_all_the_time(seed: int) -> None:
    span = 3 * 60 * MINUTE_MS
    catalogue = Catalogue.of(seed, span)
    assert catalogue == Catalogue.of(seed, span)
    assert len(catalogue.campaigns) == 12
    assert {it.currency for it in catalogue.campaigns} == {"EUR", "USD", "GBP"}
    assert len({it.name for it in catalogue.ads}) == 60
    assert len({it.store for it in catalogue.ads}) == 25
    assert {it.campaign for it in catalogue.ads} == {it.name for it in catalogue.campaigns}
    assert all(it.click_price_cents % 5 for it in catalogue.campaigns)
    assert list(catalogue.prices) == sorted(catalogue.prices, key=lambda it: it.valid_from_ms)
    for campaign in catalogue.campaigns:
        prices = [it for it in catalogue.prices if it.campaign == campaign.name]
        assert prices[0].valid_from_ms == START_MS - 24 * 60 * MINUTE_MS
        assert 7 <= len(prices) - 1 <= 12
        assert all(START_MS < it.valid_from_ms < START_MS + span for it in prices[1:])
        assert all(it.cents % 5 for it in prices)
        assert all(one.cents != next_one.cents for one, next_one in pairwise(prices))


def test_many_events_come_closer_together_instead_of_lasting_for_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "LONGEST_SPAN_MS", MINUTE_MS)
    made = generate(3_000, seed=1)
    assert made.per_second == 50
    assert made.end_ms - START_MS < MINUTE_MS + LONGEST_MS + max(DELAYED_MS)
    assert len(truth(made.records, made.catalogue).events) > 2_500
    assert run_of(SMALL, 1).per_second == 20
