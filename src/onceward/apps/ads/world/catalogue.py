"""Whose ads there are and what they cost: campaigns, ads, and prices that change while the application runs."""

import random
from dataclasses import dataclass
from typing import Final, Self

from onceward.apps.ads.words import MINUTE_MS, START_MS

CAMPAIGNS: Final = 12
ADS: Final = 60
STORES: Final = 25
CURRENCIES: Final = ("EUR", "USD", "GBP")
DAY_MS: Final = 24 * 60 * MINUTE_MS
PRICE_LASTS_MS: Final = (15 * MINUTE_MS, 25 * MINUTE_MS)


@dataclass(frozen=True, slots=True)
class Campaign:
    name: str
    currency: str
    click_price_cents: int


@dataclass(frozen=True, slots=True)
class Ad:
    name: str
    campaign: str
    store: str


@dataclass(frozen=True, slots=True)
class Price:
    """What an attributed order costs the campaign, from `valid_from_ms` on until its next price."""

    campaign: str
    valid_from_ms: int
    cents: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    campaigns: tuple[Campaign, ...]
    ads: tuple[Ad, ...]
    prices: tuple[Price, ...]  # by valid_from_ms: the order in which they become known

    @classmethod
    def of(cls, seed: int, span_ms: int) -> Self:
        """The same for the same seed; prices change all over `span_ms` from START_MS on."""
        dice = random.Random(f"catalogue {seed}")  # noqa: S311 - the same seed gives the same catalogue
        campaigns = tuple(
            Campaign(f"campaign-{number:02d}", CURRENCIES[number % len(CURRENCIES)], _awkward(dice, 1, 10))
            for number in range(CAMPAIGNS)
        )
        ads = tuple(
            Ad(f"ad-{number:02d}", campaigns[number % CAMPAIGNS].name, f"store-{number % STORES:02d}")
            for number in range(ADS)
        )
        prices = [price for it in campaigns for price in _prices(it.name, span_ms, dice)]
        return cls(campaigns, ads, tuple(sorted(prices, key=lambda it: (it.valid_from_ms, it.campaign))))


def _prices(campaign: str, span_ms: int, dice: random.Random) -> list[Price]:
    prices = [Price(campaign, START_MS - DAY_MS, _awkward(dice, 10, 200))]
    # The first change comes early, and for each campaign at another time, so that short runs see some too.
    valid_from = START_MS + MINUTE_MS + dice.randrange(PRICE_LASTS_MS[0])
    while valid_from < START_MS + span_ms:
        cents = _awkward(dice, 10, 200)
        if cents != prices[-1].cents:  # a change that changes nothing would hide a wrong choice
            prices.append(Price(campaign, valid_from, cents))
            valid_from += dice.randint(*PRICE_LASTS_MS)
    return prices


def _awkward(dice: random.Random, least_tens: int, most_tens: int) -> int:
    """No round numbers: sums that are right by chance are rarer."""
    return dice.randrange(least_tens, most_tens) * 10 + dice.choice((1, 2, 3, 4, 6, 7, 8, 9))
