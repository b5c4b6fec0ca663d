"""The cases at which a rule turns, to the millisecond. Chance meets them too rarely, so every run gets them on purpose.

Each story has a user of its own: nothing else that happens can blur it.
"""

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from onceward.apps.ads.words import AHEAD_MS, CLICK, HORIZON_MS, IMPRESSION, MINUTE_MS, ORDER, START_MS, WINDOW_MS
from onceward.apps.ads.world.catalogue import Ad, Catalogue
from onceward.apps.ads.world.records import Event

SOON_MS: Final = 700
AMOUNT_CENTS: Final = 10_007


class Step(NamedTuple):
    """`at` counts from the story's beginning, each of `delays` is one arrival of the event after it happened."""

    type: str
    at: int
    delays: tuple[int, ...] = (SOON_MS,)
    ad: int = 0  # which of the store's ads


class Edge(NamedTuple):
    event: Event
    delays: tuple[int, ...]


STORIES: Final = {
    "window-begins": (Step(CLICK, 0), Step(ORDER, WINDOW_MS)),
    "window-missed": (Step(CLICK, 0), Step(ORDER, WINDOW_MS + 1)),
    "window-ends": (Step(CLICK, 0), Step(ORDER, 0)),
    "touched-after": (Step(ORDER, 0), Step(CLICK, 1)),
    "last-click": (Step(CLICK, 0), Step(CLICK, 20_000, ad=1), Step(ORDER, 40_000)),
    "click-first": (Step(CLICK, 0), Step(IMPRESSION, 30_000, ad=1), Step(ORDER, WINDOW_MS)),
    "click-too-old": (Step(CLICK, 0), Step(IMPRESSION, 1, ad=1), Step(ORDER, WINDOW_MS + 1)),
    # The larger id arrives first: who takes what came last takes the wrong one.
    "equal-clicks": (Step(CLICK, 0, (9_000,)), Step(CLICK, 0, (1_000,), ad=1), Step(ORDER, 5_000)),
    "equal-impressions": (Step(IMPRESSION, 0, (9_000,)), Step(IMPRESSION, 0, (1_000,), ad=1), Step(ORDER, 5_000)),
    "just-on-time": (Step(CLICK, 0, (HORIZON_MS,)), Step(ORDER, 1_000)),
    "just-late": (Step(CLICK, 0, (HORIZON_MS + 1,)), Step(ORDER, 1_000)),
    "late-copies": (Step(CLICK, 0, (HORIZON_MS + 1, HORIZON_MS, HORIZON_MS + 1)), Step(ORDER, 1_000)),
    "late-order": (Step(CLICK, 0), Step(ORDER, 1_000, (HORIZON_MS + 1,))),
    "ahead": (Step(IMPRESSION, 0, (-AHEAD_MS,)), Step(ORDER, 1_000)),
}
MINUTE_TURNS: Final = (Step(CLICK, -1), Step(CLICK, 0), Step(IMPRESSION, 0))
PRICE_TURNS: Final = {
    "price-before": (Step(CLICK, -30_000), Step(ORDER, -1)),
    "price-from": (Step(CLICK, -30_000), Step(ORDER, 0)),
}
TOUCHES: Final = sum(  # in one call of `edges`
    step.type != ORDER for steps in (*STORIES.values(), MINUTE_TURNS, *PRICE_TURNS.values()) for step in steps
)


def edges(number: int, catalogue: Catalogue, span_ms: int, dice: random.Random) -> Iterator[Edge]:
    """Every story once; `number` tells them from those of another call."""
    for name, steps in STORIES.items():
        begins = START_MS + AHEAD_MS + dice.randrange(span_ms)
        yield from _told(f"edge-{name}-{number}", steps, begins, dice.choice(catalogue.ads), catalogue)
    minute = START_MS + MINUTE_MS * (1 + dice.randrange(span_ms) // MINUTE_MS)
    yield from _told(f"edge-minute-{number}", MINUTE_TURNS, minute, dice.choice(catalogue.ads), catalogue)
    price = dice.choice([it for it in catalogue.prices if it.valid_from_ms >= START_MS])
    ad = dice.choice([it for it in catalogue.ads if it.campaign == price.campaign])
    for name, steps in PRICE_TURNS.items():
        yield from _told(f"edge-{name}-{number}", steps, price.valid_from_ms, ad, catalogue)


def _told(user: str, steps: tuple[Step, ...], begins: int, ad: Ad, catalogue: Catalogue) -> Iterator[Edge]:
    other = next(it for it in catalogue.ads if it.store == ad.store and it.campaign != ad.campaign)
    for step in steps:
        if step.type == ORDER:
            event = Event(ORDER, user, ad.store, begins + step.at, amount=AMOUNT_CENTS)
        else:
            event = Event(step.type, user, ad.store, begins + step.at, ad=(ad, other)[step.ad].name)
        yield Edge(event, step.delays)
