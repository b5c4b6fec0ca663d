"""What the exhaustive search remembers: moments at which a driver starts, and messages that are on their way."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

from onceward.proof.history import Event
from onceward.proof.simulation.broker import Broker
from onceward.proof.simulation.disk import Disk
from onceward.proof.simulation.fibres import Killed
from onceward.proof.simulation.schedule import Fault
from onceward.proof.simulation.wire import Produce

WIDTH: Final = 1 << 128
NOBODY: Final = (-2, -2)  # older than every identity


class Met(Killed):
    """Another life was here already: what follows is known."""


def digest(*parts: object) -> bytes:
    """Sixteen bytes that stand for these values."""
    return blake2b(repr(parts).encode(), digest_size=16).digest()


class Message(NamedTuple):
    """A request on its way: what it says, on whose behalf, since when, and what it does when it arrives."""

    said: Any
    identity: tuple[int, int] | None  # None: takes the transactional id over, whoever holds it
    sent_at: int
    act: Callable[[], object]

    @classmethod
    def of(cls, said: Any, sent_at: int, act: Callable[[], object]) -> "Message":
        """A request of Kafka's protocol, or a record batch."""
        if hasattr(said, "transaction_timeout_ms"):  # InitProducerId
            identity = None
        else:  # a question (OffsetFetch) has no effect: it may be forgotten at once
            identity = (said.producer_id, said.producer_epoch) if hasattr(said, "producer_id") else NOBODY
        return cls(said, identity, sent_at, act)

    def moot(self, now: tuple[int, int], broker: Broker) -> bool:
        """Whether it can have no effect any more, whenever it arrives.

        An identity is refused for ever once the next one was given out; a batch that is in the log is not added again.
        """
        if self.identity is None or self.identity > now:
            return False
        if self.identity < now:
            return True
        if not isinstance(self.said, Produce) or type(broker) is not Broker:  # a bug may have other rules
            return False
        known = broker.logs[self.said.place].producers.get(now[0])
        end = self.said.sequence + len(self.said.rows)
        return known is not None and known.epoch == now[1] and known.last + 1 >= end and known.open_from is not None

    def arrives(self, now: int) -> Fault:
        """As a fault of a schedule; one step earlier where the argument would mean another place (`Fault.fits`)."""
        steps = now - self.sent_at - 1
        return Fault(self.sent_at, "delay", steps - 1 if steps % 4 == 3 else steps)


class Other(NamedTuple):
    """At one request of a life: which messages arrive before it, in this order, and whether it is itself delayed."""

    request: int
    arrive: tuple[int, ...] = ()
    delayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A moment at which a driver starts: the frozen world, what is on its way, and what may still go wrong."""

    key: bytes
    frozen: bytes
    driver: int = 1
    clock: int = 0
    pending: tuple[Message, ...] = ()
    crashes: int
    delays: int
    last: bool = False  # all is processed: this driver has to find everything in order
    events: tuple[Event, ...] = ()
    looks: frozenset[bytes] = frozenset()
    faults: tuple[Fault, ...] = ()  # how the search came here


class Search(Protocol):
    """Who collects what a life finds."""

    def new(self, key: bytes, crashes: int, delays: int) -> bool:
        """Whether this moment was never met before with as much, or more, that may still go wrong."""

    def start(self, start: Start) -> None:
        """From here a driver has to start."""

    def other(self, plan: tuple[Other, ...], delays: int) -> None:
        """The same life, but otherwise at its last request."""


class CountedDisk(Disk):
    """Knows at each moment what it holds, as one number: the sum over its files."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = 0

    def put(self, name: str, data: bytes, *, fragile: bool = False) -> None:
        old = self.files.get(name)
        super().put(name, data, fragile=fragile)
        self.sum = (self.sum + _number(name, data) - (_number(name, old) if old is not None else 0)) % WIDTH

    def drop(self, name: str) -> None:
        old = self.files.get(name)
        super().drop(name)
        self.sum = (self.sum - (_number(name, old) if old is not None else 0)) % WIDTH

    def move(self, folder: str, to: str) -> bool:
        before = {name: data for name, data in self.files.items() if name.startswith(f"{folder}/")}
        moved = super().move(folder, to)
        for name, data in before.items():
            self.sum += _number(to + name[len(folder) :], data) - _number(name, data)
        self.sum %= WIDTH
        return moved


def _number(name: str, data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=16, key=name.encode()).digest(), "big")
