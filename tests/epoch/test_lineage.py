"""A savepoint against what the sinks hold (E8)."""

import msgspec
import pytest

from onceward.epoch.contract import LastCommit
from onceward.epoch.ledger import DONE, Entry, SinkEntry
from onceward.epoch.lineage import inherited
from onceward.epoch.outcome import TopicPartition
from onceward.errors import SavepointOutdated


def entry(epoch: int, rows: int = 10, end: int | None = None) -> Entry:
    position = end if end is not None else (epoch + 1) * 100
    return Entry(
        pipeline="p",
        lineage="old",
        term=1,
        epoch=epoch,
        phase=DONE,
        positions=[f'{{"in": {{"0": {position}}}}}'],
        sinks={"kafka": SinkEntry(rows=rows), "db": SinkEntry(rows=rows)},
    )


def holds(epoch: int, lineage: str = "old") -> LastCommit:
    return LastCommit(lineage=lineage, epoch=epoch, term=1)


def refusal(found: dict[str, LastCommit | None], since: list[Entry] | None = None, pipeline: str = "p") -> str:
    with pytest.raises(SavepointOutdated) as refused:
        inherited(entry(4), pipeline, found, since or [])
    assert inherited(entry(4), pipeline, found, since or [], knowingly=True) == {
        name: (last.lineage, last.epoch) for name, last in found.items() if last is not None
    }
    return str(refused.value)


def test_sinks_that_hold_just_the_savepoints_epoch_are_inherited() -> None:
    assert inherited(entry(4), "p", {"kafka": holds(4), "db": holds(4)}) == {"kafka": ("old", 4), "db": ("old", 4)}


def test_a_sink_that_was_added_since_is_no_obstacle() -> None:
    assert inherited(entry(4), "p", {"kafka": holds(4), "db": holds(4), "new": None}) == {
        "kafka": ("old", 4),
        "db": ("old", 4),
    }


def test_a_copy_under_another_name_begins_with_sinks_that_know_nothing_of_it() -> None:
    assert inherited(entry(4), "copy", {"kafka": None, "db": None}) == {}
    assert "holds epoch 2 of a pipeline named 'copy' already" in refusal({"kafka": holds(2, "x")}, pipeline="copy")


def test_an_old_savepoint_is_refused_with_epochs_positions_and_records() -> None:
    since = [entry(4), entry(5, rows=7), entry(6, rows=8), entry(7)]
    told = refusal({"kafka": holds(6), "db": holds(4)}, since)
    assert "sink 'kafka' has committed epochs 5 to 6 since: 15 records, made of in-0 from 500 to 700" in told
    assert "'db'" not in told
    assert "--new-lineage" in told


def test_where_the_home_is_gone_the_marker_tells_what_it_can() -> None:
    last = LastCommit(lineage="old", epoch=6, term=1, positions={TopicPartition("in", 0): 640})
    assert "epochs 5 to 6 since: a number of records that only its home knows, made of in-0 from 500 to 640" in refusal(
        {"kafka": last}
    )


def test_a_savepoint_newer_than_a_sink_is_noticed() -> None:
    """A database restored from a backup."""
    assert "epochs only up to 2, the savepoint is newer: epochs 3 to 4 are missing" in refusal({"db": holds(2)})
    assert "holds no epoch of the pipeline" in refusal({"db": None})


def test_another_lineage_in_a_sink_is_noticed() -> None:
    assert "holds epoch 9 of lineage other, which is another one" in refusal({"db": holds(9, "other")})


def test_what_the_other_lineage_has_committed_is_told_as_far_as_the_home_knows() -> None:
    """E8."""
    since = [msgspec.structs.replace(entry(epoch, rows=3), lineage="other") for epoch in (8, 9)]
    assert "(epochs 8 to 9, 6 records)" in refusal({"db": holds(9, "other")}, since)
