"""The marker, as properties of a table and of its snapshots."""

import pytest

from onceward.epoch.contract import Guarantee, LastCommit, Owner
from onceward.errors import HomeMismatch, TargetUnusable
from onceward.sinks.iceberg import marker


def owner(lineage: str = "l", pipeline: str = "p", sink: str = "s", term: int = 3) -> Owner:
    return Owner(pipeline=pipeline, lineage=lineage, term=term, guarantee=Guarantee.EXACTLY_ONCE, sink=sink)


class Metadata:
    """What a table remembers."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.newest_first: list[dict[str, str]] = []

    def commit(self, by: Owner, epoch: int) -> None:
        self.properties |= marker.for_table(by, epoch)
        self.newest_first.insert(0, marker.for_snapshot(by, epoch))


def test_either_witness_is_enough() -> None:
    table = Metadata()
    assert marker.last_commit(owner(), table.properties, table.newest_first) is None
    table.commit(owner(), 41)
    table.commit(owner(term=4), 42)
    wanted = LastCommit(lineage="l", epoch=42, term=4)
    for properties, summaries in (
        (table.properties, table.newest_first),
        (table.properties, []),
        ({}, table.newest_first),
    ):
        assert marker.last_commit(owner(), properties, summaries) == wanted
        assert marker.last_epoch(owner(), properties, summaries) == 42


def test_the_last_commit_is_told_whatever_lineage_asks() -> None:
    """Requirement E8: another lineage's commit is seen, not taken for one's own."""
    table = Metadata()
    table.commit(owner("first"), 7)
    table.commit(owner("second"), 2)
    for summaries in (table.newest_first, []):
        found = marker.last_commit(owner("third"), table.properties, summaries)
        assert found == LastCommit(lineage="second", epoch=2, term=3)
        assert marker.last_epoch(owner("first"), table.properties, summaries) == 7
        assert marker.last_epoch(owner("third"), table.properties, summaries) is None


@pytest.mark.parametrize(
    ("one", "other"), [(("a/b", "c"), ("a", "b/c")), (("a", "b"), ("a", "b/l")), (("p", ""), ("p", "s"))]
)
def test_pipelines_and_sinks_are_kept_apart(one: tuple[str, str], other: tuple[str, str]) -> None:
    table = Metadata()
    table.commit(owner("l", *one), 7)
    assert marker.last_commit(owner("l", *other), table.properties, table.newest_first) is None
    assert marker.last_epoch(owner("l", *other), table.properties, table.newest_first) is None


def test_a_marker_as_it_was_first_released_is_read() -> None:
    released = {"onceward/p/s": '{"format":1,"lineage":"l","epoch":7,"term":2}', "onceward/p/s/l": "7"}
    assert marker.last_commit(owner(), released, []) == LastCommit(lineage="l", epoch=7, term=2)
    assert marker.last_epoch(owner(), released, []) == 7


@pytest.mark.parametrize(
    ("text", "error"),
    [("7", TargetUnusable), ("{", TargetUnusable), ('{"format":2,"lineage":"l","epoch":1,"term":1}', HomeMismatch)],
)
def test_a_marker_that_cannot_be_read_is_refused(text: str, error: type[Exception]) -> None:
    """Requirement E9: never a wrong result."""
    with pytest.raises(error, match="onceward/p/s"):
        marker.last_commit(owner(), {"onceward/p/s": text}, [])
