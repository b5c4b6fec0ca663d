"""The application's input, the same for the same seed: ad events and orders as they arrive.

Late, twice, spoiled: the world is as bad as it may be, and the truth (`truth.py`) is computed from these records alone.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from onceward.apps.ads.words import MINUTE_MS, ORDER
from onceward.apps.ads.world.catalogue import Catalogue
from onceward.apps.ads.world.edges import TOUCHES, edges
from onceward.apps.ads.world.faults import spoiled
from onceward.apps.ads.world.records import Event, Record
from onceward.apps.ads.world.sessions import LONGEST_MS, sessions

__all__ = ["Generated", "Record", "generate"]

EVENT_EVERY_MS: Final = 50  # of the events' own time: 20 ad events per second
LONGEST_SPAN_MS: Final = 240 * MINUTE_MS  # more events than fit in here come closer together
EDGES_EVERY: Final = 2_000  # ad events
INVALID_EVERY: Final = 100  # ad events
TYPICAL_DELAY_MS: Final = 4_000
LONGEST_USUAL_DELAY_MS: Final = 20_000
DELAYED: Final = 0.02
DELAYED_MS: Final = (30_000, 4 * MINUTE_MS)
COPIED: Final = 0.05
COPY_DELAYED: Final = 0.25  # of the copies: whoever sends twice often does so after a pause


@dataclass(frozen=True, slots=True)
class Generated:
    catalogue: Catalogue
    records: list[Record]  # as they arrive
    end_ms: int  # when the last one does
    per_second: float  # ad events, of their own time


def generate(events: int, seed: int) -> Generated:
    """So many ad events with an id each, and about 6 % orders; copies and invalid records come on top."""
    if events < 1:
        raise ValueError(f"events: at least 1, not {events}")
    span_ms = min(events * EVENT_EVERY_MS, LONGEST_SPAN_MS)
    catalogue = Catalogue.of(seed, span_ms + LONGEST_MS)
    dice = random.Random(f"events {seed}")  # noqa: S311 - the same seed gives the same events
    numbers = count()
    records: list[Record] = []
    orders: list[Event] = []
    for event, delays in _happenings(events, catalogue, span_ms, dice):
        name = f"{'o' if event.type == ORDER else 'e'}-{next(numbers):08d}"
        key, value = name.encode("ascii"), event.encode(name)
        records += [Record(event.topic, key, value, event.at + delay) for delay in delays]
        if event.type == ORDER:
            orders.append(event)
    if orders:
        ads = [it.name for it in catalogue.ads]
        for number in range(events // INVALID_EVERY):
            records += spoiled(number, dice.choice(orders), ads, dice)
    records.sort(key=lambda it: it.arrived_ms)  # stable: at equal times the order of making stays
    return Generated(catalogue, records, records[-1].arrived_ms, per_second=events * 1_000 / span_ms)


def _happenings(
    events: int, catalogue: Catalogue, span_ms: int, dice: random.Random
) -> Iterator[tuple[Event, tuple[int, ...]]]:
    """Each event with the delays of its arrivals, until there are enough ad events."""
    left = events
    for number in range(events // EDGES_EVERY):
        yield from edges(number, catalogue, span_ms, dice)
        left -= TOUCHES
    for session in sessions(catalogue, span_ms, dice):
        for event in (*session.touches[:left], *session.orders):
            yield event, _delays(dice)
        left -= len(session.touches[:left])
        if not left:
            return


def _delays(dice: random.Random) -> tuple[int, ...]:
    if dice.random() >= COPIED:
        return (_delay(dice, DELAYED),)
    return (_delay(dice, DELAYED), _delay(dice, COPY_DELAYED))


def _delay(dice: random.Random, delayed: float) -> int:
    if dice.random() < delayed:
        return dice.randint(*DELAYED_MS)
    return min(int(dice.expovariate(1 / TYPICAL_DELAY_MS)), LONGEST_USUAL_DELAY_MS)
