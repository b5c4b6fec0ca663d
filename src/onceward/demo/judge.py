"""What was lost, what came twice, what is wrong. Pure: the truth and the visible records in, a judgement out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from onceward.demo.events import Booking


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Findings of one topic; all zero means that every event had its effect once."""

    visible: int
    lost: int  # payments without any record
    duplicated: int  # records beyond the first of a payment
    wrong: int  # records that say something else than the truth, or that belong to no payment
    payments_off_cents: int  # for a reader who adds the payments up
    balances_off_cents: int  # for a reader who keeps each account's latest balance

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong or self.payments_off_cents or self.balances_off_cents)

    def facts(self) -> dict[str, int]:
        return asdict(self)


def judge(truth: Mapping[str, Booking], seen: Sequence[Booking | None]) -> Judgement:
    """`seen`: every visible record in the topic's order (within an account); None for one that is no booking."""
    known = [it for it in seen if it is not None]
    copies = Counter(it.id for it in known if it.id in truth)
    return Judgement(
        visible=len(seen),
        lost=len(truth) - len(copies),
        duplicated=copies.total() - len(copies),
        wrong=sum(it is None or truth.get(it.id) != it for it in seen),
        payments_off_cents=sum(it.amount for it in known) - sum(it.amount for it in truth.values()),
        balances_off_cents=_distance(_final_balances(truth.values()), _final_balances(known)),
    )


def _final_balances(bookings: Iterable[Booking]) -> dict[str, int]:
    return {it.account: it.balance for it in bookings}  # the last one stays


def _distance(right: Mapping[str, int], found: Mapping[str, int]) -> int:
    """Summed over accounts, so that two errors do not cancel each other."""
    return sum(abs(right.get(account, 0) - found.get(account, 0)) for account in right.keys() | found.keys())
