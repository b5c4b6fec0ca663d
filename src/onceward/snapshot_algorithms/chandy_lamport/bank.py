"""An application for the simulation, whose total nobody may change: accounts that pay each other money and tokens."""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from onceward.snapshot_algorithms.chandy_lamport.network import GlobalSnapshot


class Purse(NamedTuple):
    """An account's state, and also what one account sends another. Every token is there once."""

    money: int = 0
    tokens: tuple[int, ...] = ()

    def plus(self, other: "Purse") -> "Purse":
        return Purse(self.money + other.money, self.tokens + other.tokens)


def total(purses: Iterable[Purse]) -> Purse:
    """All money, and all tokens in order: a token that is there twice shows."""
    money, tokens = 0, list[int]()
    for purse in purses:
        money += purse.money
        tokens.extend(purse.tokens)
    return Purse(money, tuple(sorted(tokens)))


def total_of(snapshot: GlobalSnapshot[Purse, Purse]) -> Purse:
    """What the accounts have, and what was on the way between them."""
    on_the_way = [message.body for messages in snapshot.channels.values() for message in messages]
    return total([*snapshot.states.values(), *on_the_way])


def pay(dice: Random, purse: Purse) -> tuple[Purse, Purse]:
    """What stays, and what goes: some of the money, and the oldest token now and then."""
    money = int(dice.random() * (purse.money + 1))
    tokens = int(dice.random() * 2)
    return Purse(purse.money - money, purse.tokens[tokens:]), Purse(money, purse.tokens[:tokens])
