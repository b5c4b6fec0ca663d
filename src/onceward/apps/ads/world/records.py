"""What happens in the world (`Event`), and what reaches Kafka of it (`Record`)."""

from dataclasses import dataclass
from typing import NamedTuple

from onceward.apps.ads.words import AD_EVENTS_RAW, ORDER, ORDERS_RAW


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a raw topic; `arrived_ms` is its timestamp in Kafka."""

    topic: str
    key: bytes
    value: bytes | None
    arrived_ms: int


class Event(NamedTuple):
    """An impression or a click (with `ad`) or an order (with `amount`, in cents); it gets its id when it is sent."""

    type: str
    user: str
    store: str
    at: int
    ad: str = ""
    amount: int = 0

    @property
    def topic(self) -> str:
        return ORDERS_RAW if self.type == ORDER else AD_EVENTS_RAW

    def encode(self, name: str) -> bytes:
        """By hand, as every word here is plain ASCII: a million of these are made at a time."""
        last = f'"amount":{self.amount}' if self.type == ORDER else f'"ad":"{self.ad}"'
        return (
            f'{{"id":"{name}","type":"{self.type}","user":"{self.user}","store":"{self.store}",{last},"at":{self.at}}}'
        ).encode("ascii")
