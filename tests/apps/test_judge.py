"""The judge can tell every kind of failure in every output from a good run; a judge that cannot fail proves nothing."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from onceward.apps.ads.words import CLICK, IMPRESSION
from onceward.apps.ads.world.catalogue import Ad, Campaign, Catalogue
from onceward.apps.ads.world.generator import generate
from onceward.apps.ads.world.judge import Finding, Judgement, Seen, charges, judge
from onceward.apps.ads.world.truth import Attributed, Charge, Minute, truth

MADE = generate(2_000, seed=7)
TRUTH = truth(MADE.records, MADE.catalogue)
MINUTES = list(TRUTH.minutes.items())
ORDERS = list(TRUTH.attributed.values())
GOOD = Seen(
    events=sorted(TRUTH.events),
    orders=sorted(TRUTH.orders),
    late=list(TRUTH.late.elements()),
    dead=list(TRUTH.dead.elements()),
    minutes=MINUTES,
    attributed=ORDERS,
    served_minutes=MINUTES,
    served_orders=ORDERS,
    history_minutes=MINUTES,
    history_orders=ORDERS,
)
# What a reader calls it, and what the finding calls it.
OUTPUTS = {
    "events": "ad_events",
    "orders": "orders",
    "late": "ad_events_late",
    "dead": "ad_events_dead",
    "minutes": "ad_minutes",
    "attributed": "attributed_orders",
    "served_minutes": "served_minutes",
    "served_orders": "served_orders",
    "history_minutes": "history_minutes",
    "history_orders": "history_orders",
}
OF_MINUTES = ("minutes", "served_minutes", "history_minutes")
OF_ORDERS = ("attributed", "served_orders", "history_orders")


def with_output(name: str, change: Callable[[list[Any]], Sequence[Any]]) -> Judgement:
    return judge(TRUTH, replace(GOOD, **{name: change(list(getattr(GOOD, name)))}), MADE.catalogue)


def only_finding(judgement: Judgement, name: str) -> Finding:
    """That output's finding, after a look at the others: they must be clean."""
    assert not judgement.exact
    (found,) = [it for it in judgement.findings if not it.clean]
    assert found.output == OUTPUTS[name]
    return found


def counts(found: Finding) -> tuple[int, int, int]:
    return found.lost, found.duplicated, found.wrong


def foreign(name: str) -> Any:
    if name in OF_MINUTES:
        return "ad-00|click|0", Minute("ad-00", CLICK, 0, 1)
    if name in OF_ORDERS:
        return Attributed("o-unheard-of", "u", "s", 1, 1)
    return {"late": (b"{}", 1), "dead": ("unknown ad", b"{}")}.get(name, "e-unheard-of")


def test_what_must_be_there_is_exact() -> None:
    """F1, F5"""
    found = judge(TRUTH, GOOD, MADE.catalogue)
    assert found.exact
    assert found.off_cents == 0
    assert [it.output for it in found.findings] == list(OUTPUTS.values())
    assert all(it.expected == it.seen > 0 for it in found.findings)
    assert all(it.charged_cents == it.truth_cents > 0 for it in found.bill)


def test_every_output_that_can_be_seen_is_judged() -> None:
    assert {it.name for it in fields(Seen)} == OUTPUTS.keys()


def test_the_order_of_records_does_not_matter() -> None:
    shuffled = {it: random.Random(1).sample(getattr(GOOD, it), len(getattr(GOOD, it))) for it in OUTPUTS}
    assert judge(TRUTH, Seen(**shuffled), MADE.catalogue).exact


def test_nothing_at_all_is_all_lost() -> None:
    found = judge(TRUTH, Seen(), MADE.catalogue)
    assert all(it.lost == it.expected and it.seen == 0 for it in found.findings)
    assert found.off_cents == sum(it.total_cents for it in TRUTH.bill.values())


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_missing_is_lost(name: str) -> None:
    found = only_finding(with_output(name, lambda it: it[3:]), name)
    assert counts(found) == (3, 0, 0)
    assert found.seen == found.expected - 3


@pytest.mark.parametrize("name", OUTPUTS)
def test_each_further_copy_is_a_duplicate(name: str) -> None:
    assert counts(only_finding(with_output(name, lambda it: [*it, it[0], it[0], it[1]]), name)) == (0, 3, 0)


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_has_no_place_in_the_truth_is_wrong(name: str) -> None:
    """Each copy of it."""
    assert counts(only_finding(with_output(name, lambda it: [*it, foreign(name), foreign(name)]), name)) == (0, 0, 2)


@pytest.mark.parametrize("name", OUTPUTS)
def test_one_lost_and_one_twice_do_not_cancel_each_other(name: str) -> None:
    found = only_finding(with_output(name, lambda it: [*it[1:], it[-1]]), name)
    assert counts(found) == (1, 1, 0)
    assert found.seen == found.expected


@pytest.mark.parametrize("name", OF_MINUTES)
@pytest.mark.parametrize("change", [{"count": 999}, {"ad": "ad-59"}, {"type": "view"}, {"minute_ms": 0}])
def test_a_minute_that_says_something_else_is_wrong(name: str, change: dict[str, Any]) -> None:
    judgement = with_output(name, lambda it: [(it[0][0], replace(it[0][1], **change)), *it[1:]])
    assert counts(only_finding(judgement, name)) == (0, 0, 1)


@pytest.mark.parametrize("name", OF_ORDERS)
@pytest.mark.parametrize("field", [it.name for it in fields(Attributed) if it.name != "id"])
def test_an_order_that_says_something_else_is_wrong(name: str, field: str) -> None:
    """Every field is compared."""
    changed = 999_999 if isinstance(getattr(ORDERS[0], field), int) else "something else"
    judgement = with_output(name, lambda it: [replace(it[0], **{field: changed}), *it[1:]])
    assert counts(only_finding(judgement, name)) == (0, 0, 1)


@pytest.mark.parametrize("name", [*OF_MINUTES, *OF_ORDERS])
def test_a_copy_that_says_something_else_is_one_too_many_and_wrong(name: str) -> None:
    def differing(it: Any) -> Any:
        return (it[0], replace(it[1], count=0)) if name in OF_MINUTES else replace(it, amount_cents=0)

    assert counts(only_finding(with_output(name, lambda it: [*it, differing(it[0])]), name)) == (0, 1, 1)


def test_a_dead_letter_with_another_reason_is_lost_and_wrong() -> None:
    """F4: the reason is part of the letter."""
    judgement = with_output("dead", lambda it: [("a whim", it[0][1]), *it[1:]])
    assert counts(only_finding(judgement, "dead")) == (1, 0, 1)


def test_a_late_record_with_another_time_is_lost_and_wrong() -> None:
    judgement = with_output("late", lambda it: [(it[0][0], it[0][1] + 1), *it[1:]])
    assert counts(only_finding(judgement, "late")) == (1, 0, 1)


def test_as_many_copies_as_came_are_expected() -> None:
    """Two late copies of one event are two records; one is too few and three are too many."""
    twice = replace(TRUTH, late=Counter({(b"a", 1): 2}), dead=Counter({("empty", None): 2}))
    for copies, expected in ((1, (1, 0, 0)), (2, (0, 0, 0)), (3, (0, 1, 0))):
        seen = replace(GOOD, late=[(b"a", 1)] * copies, dead=[("empty", None)] * copies)
        found = {it.output: counts(it) for it in judge(twice, seen, MADE.catalogue).findings}
        assert found["ad_events_late"] == found["ad_events_dead"] == expected


@pytest.mark.parametrize("seed", range(20))
def test_only_the_truth_itself_is_exact(seed: int) -> None:
    """Whatever is taken away, repeated or changed at random: a clean finding and an equal output are the same thing."""
    dice = random.Random(seed)
    name = dice.choice(list(OUTPUTS))
    seen = list(getattr(GOOD, name))
    for _ in range(dice.randint(1, 4)):
        deed, place = dice.choice(("drop", "copy", "add")), dice.randrange(len(seen))
        if deed == "drop":
            del seen[place]
        else:
            seen.append(seen[place] if deed == "copy" else foreign(name))
    same = Counter(seen) == Counter(getattr(GOOD, name))
    assert with_output(name, lambda _: seen).exact == same


# --- the bill --------------------------------------------------------------------------------------------------------


def test_a_minute_served_twice_is_charged_twice() -> None:
    minute = next(it for it in MINUTES if it[1].type == CLICK)
    ad = next(it for it in MADE.catalogue.ads if it.name == minute[1].ad)
    price = next(it.click_price_cents for it in MADE.catalogue.campaigns if it.name == ad.campaign)
    judgement = with_output("served_minutes", lambda it: [*it, minute])
    (line,) = [it for it in judgement.bill if it.off_cents]
    assert line.campaign == ad.campaign
    assert line.off_cents == judgement.off_cents == minute[1].count * price
    assert line.clicks_charged - line.clicks_truth == minute[1].count


def test_a_lost_order_is_not_charged() -> None:
    lost = next(it for it in ORDERS if it.price_cents)
    judgement = with_output("served_orders", lambda it: [order for order in it if order != lost])
    (line,) = [it for it in judgement.bill if it.off_cents]
    assert (line.campaign, line.currency) == (lost.campaign, lost.currency)
    assert -line.off_cents == judgement.off_cents == lost.price_cents
    assert line.orders_truth - line.orders_charged == 1


def test_an_order_charged_to_another_campaign_is_off_twice() -> None:
    """One pays too much and one too little: that does not even out."""
    order = next(it for it in ORDERS if it.campaign == "campaign-00")
    assert order.price_cents is not None
    moved = replace(order, campaign="campaign-01")
    judgement = with_output("served_orders", lambda it: [moved if one == order else one for one in it])
    assert [it.off_cents for it in judgement.bill if it.off_cents] == [-order.price_cents, order.price_cents]
    assert judgement.off_cents == 2 * order.price_cents


def test_the_bill_is_made_of_what_is_served() -> None:
    assert with_output("minutes", lambda it: it[1:]).off_cents == 0
    assert with_output("history_orders", lambda it: it[1:]).off_cents == 0


def test_an_order_of_an_unknown_campaign_is_on_the_bill_of_nobody() -> None:
    strange = Attributed("o-x", "u", "s", 1, 1, "e", CLICK, "ad", "campaign-of-nobody", 77, "EUR")
    judgement = with_output("served_orders", lambda it: [*it, strange])
    (line,) = [it for it in judgement.bill if it.off_cents]
    assert (line.campaign, line.currency, line.truth_cents, line.charged_cents) == ("campaign-of-nobody", "?", 0, 77)


def test_a_wrong_bill_alone_is_not_exact() -> None:
    """Not even where every output is as it must be."""
    off = TRUTH.bill | {"campaign-03": replace(TRUTH.bill["campaign-03"], click_cents=1)}
    judgement = judge(replace(TRUTH, bill=off), GOOD, MADE.catalogue)
    assert all(it.clean for it in judgement.findings)
    assert not judgement.exact


def test_charges_are_clicks_times_price_and_the_orders_prices() -> None:
    """F5: integers of cents, nothing is rounded."""
    catalogue = Catalogue(
        campaigns=(Campaign("shoes", "EUR", 13), Campaign("hats", "GBP", 29), Campaign("idle", "USD", 7)),
        ads=(Ad("boot", "shoes", "s"), Ad("sandal", "shoes", "s"), Ad("cap", "hats", "s")),
        prices=(),
    )
    minutes = [
        Minute("boot", CLICK, 0, 3),
        Minute("boot", CLICK, 60_000, 4),
        Minute("sandal", CLICK, 0, 1),
        Minute("boot", IMPRESSION, 0, 1_000),  # impressions are free
        Minute("cap", CLICK, 0, 2),
        Minute("nobody's", CLICK, 0, 5),
    ]
    order = Attributed("o", "u", "s", 1, 5_000, "e", CLICK, "cap", "hats", 701, "GBP")
    orders = [order, order, replace(order, price_cents=None), Attributed("p", "u", "s", 1, 5_000)]
    found = charges(minutes, orders, catalogue)
    assert found == {"shoes": Charge(8, 104, 0, 0), "hats": Charge(2, 58, 3, 1_402), "idle": Charge()}
    assert found["hats"].total_cents == 1_460
