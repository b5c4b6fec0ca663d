"""What was lost, what came twice, what is wrong, what it costs whom. Pure: truth and outputs in, a judgement out."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from onceward.apps.ads.words import AD_EVENTS, ATTRIBUTED, DEAD, LATE, MINUTES, ORDERS
from onceward.apps.ads.world.bill import Attributed, Charge, Minute, charges
from onceward.apps.ads.world.catalogue import Catalogue
from onceward.apps.ads.world.truth import Truth

__all__ = ["BillLine", "Finding", "Judgement", "Seen", "charges", "judge"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

SERVED_MINUTES: Final = "served_minutes"
SERVED_ORDERS: Final = "served_orders"
HISTORY_MINUTES: Final = "history_minutes"
HISTORY_ORDERS: Final = "history_orders"
NO_CURRENCY: Final = "?"  # of a campaign that nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a reader of committed data finds, every copy of it. Heartbeats are left out."""

    events: Sequence[str] = ()
    orders: Sequence[str] = ()
    late: Sequence[tuple[bytes, int]] = ()
    dead: Sequence[tuple[str, bytes | None]] = ()
    minutes: Sequence[tuple[str, Minute]] = ()
    attributed: Sequence[Attributed] = ()
    served_minutes: Sequence[tuple[str, Minute]] = ()  # PostgreSQL
    served_orders: Sequence[Attributed] = ()
    history_minutes: Sequence[tuple[str, Minute]] = ()  # Delta
    history_orders: Sequence[Attributed] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One output against the truth; all zero means that it has exactly what it must have."""

    output: str
    expected: int
    seen: int
    lost: int  # in the truth, and not there
    duplicated: int  # there more often than in the truth
    wrong: int  # says something else than the truth, or has no place in it

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """What a campaign owes, and what it would be charged from the serving tables."""

    campaign: str
    currency: str
    truth_cents: int
    charged_cents: int
    clicks_truth: int
    clicks_charged: int
    orders_truth: int
    orders_charged: int

    @property
    def off_cents(self) -> int:
        return self.charged_cents - self.truth_cents


@dataclass(frozen=True, slots=True)
class Judgement:
    findings: list[Finding]
    bill: list[BillLine]

    @property
    def off_cents(self) -> int:
        """Over all campaigns without their signs, so that one charged too much does not pay for another."""
        return sum(abs(it.off_cents) for it in self.bill)

    @property
    def exact(self) -> bool:
        return all(it.clean for it in self.findings) and self.off_cents == 0


def judge(truth: Truth, seen: Seen, catalogue: Catalogue) -> Judgement:
    findings = [
        _counted(AD_EVENTS, Counter(truth.events), seen.events),
        _counted(ORDERS, Counter(truth.orders), seen.orders),
        _counted(LATE, truth.late, seen.late),
        _counted(DEAD, truth.dead, seen.dead),
        _compared(MINUTES, truth.minutes, seen.minutes),
        _compared(ATTRIBUTED, truth.attributed, _by_id(seen.attributed)),
        _compared(SERVED_MINUTES, truth.minutes, seen.served_minutes),
        _compared(SERVED_ORDERS, truth.attributed, _by_id(seen.served_orders)),
        _compared(HISTORY_MINUTES, truth.minutes, seen.history_minutes),
        _compared(HISTORY_ORDERS, truth.attributed, _by_id(seen.history_orders)),
    ]
    charged = charges((it for _, it in seen.served_minutes), seen.served_orders, catalogue)
    return Judgement(findings, _bill(truth.bill, charged, catalogue))


def _counted(output: str, expected: Counter[K], seen: Iterable[K]) -> Finding:
    """Records without an id of their own are compared as they are: a changed one is one lost and one wrong."""
    found = Counter(seen)
    too_many = found - expected
    return Finding(
        output=output,
        expected=expected.total(),
        seen=found.total(),
        lost=(expected - found).total(),
        duplicated=sum(count for it, count in too_many.items() if it in expected),
        wrong=sum(count for it, count in too_many.items() if it not in expected),
    )


def _compared(output: str, expected: Mapping[str, T], seen: Sequence[tuple[str, T]]) -> Finding:
    """By id: a changed record is wrong, not lost; a changed copy is wrong and one too many."""
    copies = Counter(name for name, _ in seen if name in expected)
    return Finding(
        output=output,
        expected=len(expected),
        seen=len(seen),
        lost=len(expected) - len(copies),
        duplicated=copies.total() - len(copies),
        wrong=sum(name not in expected or expected[name] != it for name, it in seen),
    )


def _by_id(orders: Sequence[Attributed]) -> list[tuple[str, Attributed]]:
    return [(it.id, it) for it in orders]


def _bill(owed: Mapping[str, Charge], charged: Mapping[str, Charge], catalogue: Catalogue) -> list[BillLine]:
    currencies = {it.name: it.currency for it in catalogue.campaigns}
    nothing = Charge()
    pairs = {name: (owed.get(name, nothing), charged.get(name, nothing)) for name in owed.keys() | charged.keys()}
    return [
        BillLine(
            campaign=name,
            currency=currencies.get(name, NO_CURRENCY),
            truth_cents=right.total_cents,
            charged_cents=found.total_cents,
            clicks_truth=right.clicks,
            clicks_charged=found.clicks,
            orders_truth=right.orders,
            orders_charged=found.orders,
        )
        for name, (right, found) in sorted(pairs.items())
    ]
