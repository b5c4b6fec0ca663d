"""The cut, on thousands of networks of pipelines that are killed at random, judged by what really happened there."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

from onceward.snapshot.cut import Epoch, History, NoCut, consistent_cut, on_its_way, too_far
from snapshot.networks import CLEAN, EACH, Network, Ways, named

SEEDS = 250  # of each way
STEPS = 60


def cut_of(network: Network, histories: Mapping[str, History]) -> dict[str, Epoch] | None:
    try:
        return consistent_cut(histories, network.channels)
    except NoCut:
        return None


@pytest.mark.parametrize("ways", EACH, ids=named)
def test_a_cut_is_consistent_and_its_channels_hold_exactly_what_is_on_its_way(ways: Ways) -> None:
    """D5: to the record, and to the last coin."""
    found = 0
    for seed in range(SEEDS):
        network = Network(seed, ways).run(STEPS)
        histories = network.histories(keeps=20)
        cut = cut_of(network, histories)
        if cut is None:
            continue
        found += 1
        assert network.read_too_early({name: epoch.number for name, epoch in cut.items()}) == [], seed
        money = sum(network.life(name, epoch.number).balance for name, epoch in cut.items())
        for channel in network.channels:
            at, reads = cut[channel.producer], cut[channel.consumer]
            life = network.life(channel.consumer, reads.number)
            ranges = {it.partition: it for it in on_its_way(channel, histories[channel.producer], at, reads)}
            for place in network.topics.of(channel.topic):
                written = network.written(channel, place, at.number)
                state = ranges.get(place.partition)
                start, end = (state.start, state.end) if state is not None else (0, 0)
                assert start <= end, (seed, place)
                assert start == min(source.get(place, 0) for source in life.positions), (seed, place)
                in_it = {at for at, it in network.records(place, channel.producer) if start <= at < end}
                assert in_it == {at for at in written if at >= start}, (seed, place)
                items = network.topics.logs[place][life.positions[0].get(place, 0) : end]
                money += sum(item.money for item in items if item.is_committed)
        if ways.one_reader:
            assert money == network.money(), seed
    assert found > SEEDS // 3


@pytest.mark.parametrize("ways", EACH, ids=named)
def test_a_cut_is_the_newest_that_the_ledgers_can_tell(ways: Ways) -> None:
    """D5: every combination of epochs that can be saved is tried; where there is no cut there is none to be found."""
    without = 0
    for seed in range(SEEDS):
        network = Network(seed, ways, pipelines=2 + seed % 2).run(STEPS // 2)
        histories = network.histories(keeps=8, saves=4)
        cut = cut_of(network, histories)
        candidates = [[it for it in history.epochs if it.is_savable] for history in histories.values()]
        fits = [
            chosen
            for numbers in itertools.product(*candidates)
            if _fits(network, histories, chosen := dict(zip(histories, numbers, strict=True)))
        ]
        if cut is None:
            without += 1
            assert fits == [], seed
            continue
        assert cut in fits, seed
        assert {name: epoch.number for name, epoch in cut.items()} == {
            name: max(chosen[name].number for chosen in fits) for name in histories
        }, seed
    assert without < SEEDS


def _fits(network: Network, histories: Mapping[str, History], chosen: Mapping[str, Epoch]) -> bool:
    return all(
        too_far(channel, histories[channel.producer], chosen[channel.producer], chosen[channel.consumer]) is None
        for channel in network.channels
    )


@pytest.mark.parametrize("ways", [CLEAN, replace(CLEAN, one_reader=False)], ids=["one-reader", "many"])
def test_where_nothing_fails_no_newer_cut_is_consistent_in_truth(ways: Ways) -> None:
    """D5: what the ledgers tell is all there is to know."""
    for seed in range(SEEDS):
        network = Network(seed, ways, pipelines=2 + seed % 2).run(STEPS // 2)
        for member in network.members.values():  # an epoch that is committed is noted a moment later
            while member.trying is not None or (member.lives and not member.lives[-1].is_finished):
                member.step(ways)
        told = {place.topic for it in network.histories().values() for epoch in it.epochs for place in epoch.boundaries}
        network.channels = [it for it in network.channels if it.topic in told]  # the others are not written yet
        cut = cut_of(network, network.histories())
        really = network.really_newest()
        assert cut is not None or really is None or any(not it.lives for it in network.members.values()), seed
        if cut is not None:
            assert {name: epoch.number for name, epoch in cut.items()} == really, seed
