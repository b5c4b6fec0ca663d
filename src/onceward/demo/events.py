"""The demo's input: payments on accounts, the same for the same seed, and what must come out for each."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

ACCOUNTS: Final = 200
LARGEST_CENTS: Final = 500_00


@dataclass(frozen=True, slots=True)
class Payment:
    """One event. `seq` counts 1, 2, 3, ... within its account."""

    id: str
    account: str
    seq: int
    amount: int  # cents; negative is money that leaves

    def encode(self) -> bytes:
        """The event's value in Kafka; its key is the account."""
        return json.dumps({"id": self.id, "seq": self.seq, "amount": self.amount}).encode("ascii")


@dataclass(frozen=True, slots=True)
class Booking:
    """One output record: the payment and the account's balance after it, which only the state can know."""

    id: str
    account: str
    seq: int
    amount: int
    balance: int

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Booking | None":
        """What a reader makes of a record; None if it is no booking at all."""
        try:
            fields = json.loads(value or b"")
            booking = cls(account=(key or b"").decode(), **fields)
        except (ValueError, TypeError):
            return None
        numbers = (booking.seq, booking.amount, booking.balance)
        return booking if all(type(it) is int for it in numbers) and isinstance(booking.id, str) else None


def payments(count: int, seed: int) -> list[Payment]:
    """A few accounts are busy and many are quiet, as in life."""
    dice = random.Random(seed)  # noqa: S311 - the same seed gives the same payments
    names = [f"account-{number:03d}" for number in range(ACCOUNTS)]
    weights = [1 / (rank + 5) for rank in range(ACCOUNTS)]
    seen: dict[str, int] = defaultdict(int)
    made = []
    for number, account in enumerate(dice.choices(names, weights, k=count)):
        seen[account] += 1
        amount = dice.choice((1, 1, -1)) * dice.randint(1, LARGEST_CENTS)
        made.append(Payment(f"payment-{number:07d}", account, seen[account], amount))
    return made


def truth(fed: Iterable[Payment]) -> Mapping[str, Booking]:
    """By payment id, the one right output record for it."""
    balances: dict[str, int] = defaultdict(int)
    expected = {}
    for it in fed:
        balances[it.account] += it.amount
        expected[it.id] = Booking(it.id, it.account, it.seq, it.amount, balances[it.account])
    return expected
