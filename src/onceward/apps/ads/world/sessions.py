"""What users do: they see ads of a store, click some, and order there, or order without having seen anything."""

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from onceward.apps.ads.words import CLICK, IMPRESSION, MINUTE_MS, ORDER, START_MS
from onceward.apps.ads.world.catalogue import Ad, Catalogue
from onceward.apps.ads.world.records import Event

USERS: Final = 3_000
ADS_SHOWN: Final = (1, 1, 1, 1, 2, 2, 3, 4)  # in one session, each as likely as the next
CLICKED: Final = 0.25  # of the impressions
ORDERED: Final = 0.05  # of the sessions, for each ad shown
ORDERED_AGAIN: Final = 0.1  # of those who ordered: one touch may be owed several orders
UNTOUCHED: Final = 0.02  # of the sessions: somebody else orders there too
STRANGERS: Final = 0.5  # of those: one who never saw any ad
CLICK_AFTER_MS: Final = (1_000, MINUTE_MS)
NEXT_AD_AFTER_MS: Final = (2_000, 90_000)
ORDER_AFTER_MS: Final = (30_000, 25 * MINUTE_MS)  # so that some are out of the attribution window
LONGEST_MS: Final = 35 * MINUTE_MS  # no session is longer than this, its orders included
CENTS: Final = (199, 24_999)


class Session(NamedTuple):
    touches: list[Event]
    orders: list[Event]


def sessions(catalogue: Catalogue, span_ms: int, dice: random.Random) -> Iterator[Session]:
    """Without end; each begins at any time of the span."""
    of_store: dict[str, list[Ad]] = defaultdict(list)
    for ad in catalogue.ads:
        of_store[ad.store].append(ad)
    users = [f"user-{number:04d}" for number in range(USERS)]
    user_weights = list(accumulate(1 / (rank + 100) for rank in range(USERS)))  # a mild slope
    ad_weights = list(accumulate(1 / rank for rank in range(1, len(catalogue.ads) + 1)))
    while True:
        user = dice.choices(users, cum_weights=user_weights)[0]
        shown = dice.choices(catalogue.ads, cum_weights=ad_weights)
        store = shown[0].store
        shown += dice.choices(of_store[store], k=dice.choice(ADS_SHOWN) - 1)
        touches = _touches(user, shown, START_MS + dice.randrange(span_ms), dice)
        orders = _orders(user, store, touches, len(shown), dice)
        if dice.random() < UNTOUCHED:
            other = f"stranger-{dice.randrange(1_000_000):06d}" if dice.random() < STRANGERS else dice.choice(users)
            orders.append(_order(other, store, touches[0].at, dice))
        yield Session(touches, orders)


def _touches(user: str, shown: list[Ad], at: int, dice: random.Random) -> list[Event]:
    touches = []
    for ad in shown:
        touches.append(Event(IMPRESSION, user, ad.store, at, ad=ad.name))
        if dice.random() < CLICKED:
            touches.append(Event(CLICK, user, ad.store, at + dice.randint(*CLICK_AFTER_MS), ad=ad.name))
        at += dice.randint(*NEXT_AD_AFTER_MS)
    return touches


def _orders(user: str, store: str, touches: list[Event], shown: int, dice: random.Random) -> list[Event]:
    orders: list[Event] = []
    chance = ORDERED * shown
    while dice.random() < chance:
        orders.append(_order(user, store, max(it.at for it in touches), dice))
        chance = ORDERED_AGAIN if len(orders) == 1 else 0
    return orders


def _order(user: str, store: str, after: int, dice: random.Random) -> Event:
    return Event(ORDER, user, store, after + dice.randint(*ORDER_AFTER_MS), amount=dice.randint(*CENTS))
