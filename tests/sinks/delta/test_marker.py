"""The marker, as numbers under application ids."""

import pytest

from onceward.epoch.contract import Guarantee, LastCommit, Owner
from onceward.errors import TargetUnusable
from onceward.sinks.delta import marker


def owner(lineage: str = "l", pipeline: str = "p", sink: str = "s", term: int = 3) -> Owner:
    return Owner(pipeline=pipeline, lineage=lineage, term=term, guarantee=Guarantee.EXACTLY_ONCE, sink=sink)


class Log:
    """What a table remembers: the last number of each application id."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def commit(self, by: Owner, epoch: int) -> dict[str, int]:
        entry = marker.numbers(by, epoch, marker.last_commit(by, self.numbers.get))
        self.numbers |= entry
        return entry


@pytest.mark.parametrize("lineage", ["l", "", "7 bytes", "8 bytes.", "a" * 32, "ü/é %41\0", "x" * 500])
def test_a_marker_comes_back_as_it_was(lineage: str) -> None:
    log = Log()
    assert marker.last_commit(owner(lineage), log.numbers.get) is None
    log.commit(owner(lineage), 41)
    log.commit(owner(lineage, term=4), 42)
    assert marker.last_commit(owner(), log.numbers.get) == LastCommit(lineage=lineage, epoch=42, term=4)
    assert marker.last_epoch(owner(lineage), log.numbers.get) == 42
    assert all(0 <= number < 1 << 63 for number in log.numbers.values())


def test_the_last_commit_is_told_whatever_lineage_asks() -> None:
    """Requirement E8: another lineage's commit is seen, not taken for one's own."""
    log = Log()
    log.commit(owner("a long name of a lineage"), 7)
    log.commit(owner("short"), 2)
    assert marker.last_commit(owner("third"), log.numbers.get) == LastCommit(lineage="short", epoch=2, term=3)
    assert marker.last_epoch(owner("a long name of a lineage"), log.numbers.get) == 7
    assert marker.last_epoch(owner("third"), log.numbers.get) is None


def test_a_lineage_is_spelled_once() -> None:
    log = Log()
    assert len(log.commit(owner("a" * 32), 0)) == 8
    assert len(log.commit(owner("a" * 32), 1)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a/b", "c"), ("a", "b/c")),
        (("a", "b"), ("a", "b/epoch")),
        (("p", ""), ("p", "s")),
        (("a%2Fb", "c"), ("a/b", "c")),
    ],
)
def test_pipelines_and_sinks_are_kept_apart(one: tuple[str, str], other: tuple[str, str]) -> None:
    log = Log()
    log.commit(owner("l", *one), 7)
    assert marker.last_commit(owner("l", *other), log.numbers.get) is None
    assert marker.last_epoch(owner("l", *other), log.numbers.get) is None


def test_a_marker_as_it_was_first_released_is_read() -> None:
    released = {
        "onceward/p/s/epoch/lineage%2F1": 7,
        "onceward/p/s/term": 2,
        "onceward/p/s/lineage": 9,
        "onceward/p/s/lineage/0": 0x6C696E65616765,
        "onceward/p/s/lineage/1": 0x2F310000000000,
    }
    assert marker.last_commit(owner(), released.get) == LastCommit(lineage="lineage/1", epoch=7, term=2)


def test_a_marker_with_a_part_missing_is_refused() -> None:
    """Requirement E9: never a wrong result."""
    whole = Log()
    whole.commit(owner("a" * 32), 7)
    for name in whole.numbers.keys() - {"onceward/p/s/lineage"}:
        parts = {key: number for key, number in whole.numbers.items() if key != name}
        with pytest.raises(TargetUnusable, match="only a part of the marker"):
            marker.last_commit(owner(), parts.get)
