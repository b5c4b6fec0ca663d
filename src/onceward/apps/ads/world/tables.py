"""The shop's tables in PostgreSQL: the catalogue that is looked up, and the results that are served."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from onceward.apps.ads import words
from onceward.apps.ads.world.catalogue import Catalogue, Price

CATALOGUE: Final = """
    create table campaigns (campaign text primary key, currency text not null, click_price numeric(12, 2) not null);
    create table ads (ad text primary key, campaign text not null references campaigns, store text not null);
    create table prices (
        campaign text references campaigns, valid_from timestamptz, price numeric(12, 2) not null,
        primary key (campaign, valid_from)
    );
"""
SERVED: Final = """
    create table {minutes} (
        id text primary key, ad text not null, type text not null, minute timestamptz not null, count bigint not null
    );
    create table {orders} (
        id text primary key, buyer text not null, store text not null, ordered timestamptz not null,
        amount numeric(12, 2) not null, touch text, touch_type text, ad text, campaign text, price numeric(12, 2),
        currency text
    );
"""
PRICE: Final = "insert into prices (campaign, valid_from, price) values (%s, %s, %s)"


def make_catalogue(connection: Any, catalogue: Catalogue) -> None:
    """Tables, campaigns and ads; prices become known later, one by one (`announce`)."""
    with connection.cursor() as cursor:
        cursor.execute(CATALOGUE)
        cursor.executemany(
            "insert into campaigns values (%s, %s, %s)",
            [(it.name, it.currency, money(it.click_price_cents)) for it in catalogue.campaigns],
        )
        cursor.executemany(
            "insert into ads values (%s, %s, %s)", [(it.name, it.campaign, it.store) for it in catalogue.ads]
        )


def make_served(connection: Any, prefix: str = "") -> None:
    """The tables that `load` fills."""
    connection.execute(SERVED.format(minutes=f"{prefix}{words.MINUTES}", orders=f"{prefix}{words.ATTRIBUTED}"))


def announce(connection: Any, price: Price) -> None:
    """From now on the database knows this price; it is valid from its own time on."""
    connection.execute(PRICE, (price.campaign, moment(price.valid_from_ms), money(price.cents)))


def money(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)
