"""What comes out (`Minute`, `Attributed`) and what it costs: the truth and every output are billed the same way."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onceward.apps.ads.words import CLICK
from onceward.apps.ads.world.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Minute:
    """How often an ad was seen, or clicked, in the minute that begins at `minute_ms`."""

    ad: str
    type: str
    minute_ms: int
    count: int

    @property
    def id(self) -> str:
        return f"{self.ad}|{self.type}|{self.minute_ms}"


@dataclass(frozen=True, slots=True)
class Attributed:
    """An order and the touch it is owed to, if any; price and currency are those of the touch's campaign."""

    id: str
    user: str
    store: str
    at: int
    amount_cents: int
    touch_id: str | None = None
    touch_type: str | None = None
    ad: str | None = None
    campaign: str | None = None
    price_cents: int | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """One campaign's bill, in cents of its currency."""

    clicks: int = 0
    click_cents: int = 0
    orders: int = 0
    order_cents: int = 0

    @property
    def total_cents(self) -> int:
        return self.click_cents + self.order_cents


def charges(minutes: Iterable[Minute], attributed: Iterable[Attributed], catalogue: Catalogue) -> dict[str, Charge]:
    """Every campaign's bill over all that is given, copies included: what came twice is charged twice.

    An order of a campaign that is not in the catalogue is charged to that name. Clicks on an unknown ad have no price.
    """
    campaign_of = {it.name: it.campaign for it in catalogue.ads}
    click_prices = {it.name: it.click_price_cents for it in catalogue.campaigns}
    clicks: Counter[str] = Counter()
    orders: Counter[str] = Counter()
    order_cents: Counter[str] = Counter()
    for minute in minutes:
        if minute.type == CLICK and minute.ad in campaign_of:
            clicks[campaign_of[minute.ad]] += minute.count
    for order in attributed:
        if order.campaign is not None:
            orders[order.campaign] += 1
            order_cents[order.campaign] += order.price_cents or 0
    return {
        name: Charge(clicks[name], clicks[name] * click_prices.get(name, 0), orders[name], order_cents[name])
        for name in (*click_prices, *sorted(orders.keys() - click_prices.keys()))
    }
