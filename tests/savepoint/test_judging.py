"""A savepoint against what the sinks hold (E8)."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from epoch.memory import Memory
from epoch.started import Pipeline
from onceward.epoch.contract import Guarantee, LastCommit
from onceward.epoch.deeds import FILE, Deed, Origin
from onceward.epoch.expected import Held
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, Entry, Ledger, SinkEntry
from onceward.epoch.new_lineage import Ending
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.sealed import seal
from onceward.epoch.starting import Start
from onceward.errors import SavepointOutdated
from onceward.savepoint.manifest import Savepoint
from onceward.savepoint.place import Place
from onceward.savepoint.restoring import Restoring

Found = Mapping[str, LastCommit | None]
HELD: Mapping[str, Held] = {"kafka": ("old", 4), "db": ("old", 4)}


def entry(epoch: int, rows: int = 10) -> Entry:
    return Entry(
        pipeline="p",
        lineage="old",
        term=1,
        epoch=epoch,
        phase=DONE,
        positions=[f'{{"in": {{"0": {(epoch + 1) * 100}}}}}'],
        sinks={"kafka": SinkEntry(rows=rows), "db": SinkEntry(rows=rows)},
    )


def holds(epoch: int, lineage: str = "old") -> LastCommit:
    return LastCommit(lineage=lineage, epoch=epoch, term=1)


def judge(
    found: Found,
    since: Sequence[Entry] = (),
    pipeline: str = "p",
    held: Mapping[str, Held] = HELD,
    origin: Origin | None = None,
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
    *,
    knowingly: bool,
) -> None:
    """Of a savepoint of epoch 4; `since`: what the home's ledger has; `origin`: of its lineage."""
    home = Home(Memory(), "home", "home")
    if since:
        deed = Deed(pipeline=pipeline, lineage=since[0].lineage, guarantee=guarantee.value, origin=origin)
        home.storage.replace(FILE, seal(deed))
        ledger = Ledger(home.storage, {}, since[0].lineage)
        for each in since:
            ledger.write(each)
    saved = Savepoint(
        id="ab" * 16,
        shape=QueryShape(),
        pipeline="p",
        lineage="old",
        guarantee=guarantee.value,
        epoch=4,
        term=1,
        created_at="noon",
        entry=entry(4),
        held=dict(held),
        partitions=2,
        backend="rocksdb",
        files={},
    )
    restoring = Restoring(
        place=Place(home.storage, "it", "it"),
        savepoint=saved,
        start=Start(home=home, pipeline=pipeline, guarantee=guarantee, sinks={}, process=Pipeline().process),
        rewrite=lambda *_: 0,
        knowingly=knowingly,
    )
    ending = Ending(home, None)
    restoring.judge(ending, found, ending.begun)


def accepted(found: Found, **facts: object) -> None:
    judge(found, knowingly=False, **facts)  # type: ignore[arg-type]


def refusal(found: Found, **facts: object) -> str:
    """And a person who has read it may go on all the same."""
    with pytest.raises(SavepointOutdated) as refused:
        judge(found, knowingly=False, **facts)  # type: ignore[arg-type]
    judge(found, knowingly=True, **facts)  # type: ignore[arg-type]
    return str(refused.value)


def test_sinks_that_hold_just_what_the_savepoint_knows_are_fine() -> None:
    accepted({"kafka": holds(4), "db": holds(4)})


def test_a_sink_that_was_out_at_the_savepoints_epoch_holds_what_it_held() -> None:
    accepted({"kafka": holds(4), "db": holds(2)}, held={"kafka": ("old", 4), "db": ("old", 2)})
    told = refusal({"db": holds(4)}, held={"db": ("old", 2)})
    assert "sink 'db' has committed epochs 3 to 4 since" in told


def test_a_sink_that_was_added_since_is_no_obstacle() -> None:
    accepted({"kafka": holds(4), "db": holds(4), "new": None})


def test_a_copy_under_another_name_begins_with_sinks_that_know_nothing_of_it() -> None:
    accepted({"kafka": None, "db": None}, pipeline="copy")
    assert "holds epoch 2 of a pipeline named 'copy' already" in refusal({"kafka": holds(2, "x")}, pipeline="copy")


COPY = Origin(savepoint="ab" * 16, pipeline="p", lineage="old", epoch=4, begins_after=4, first_term=1)


def of_copy(epoch: int) -> Entry:
    return msgspec.structs.replace(entry(epoch), pipeline="copy", lineage="new")


def test_a_copy_that_has_done_nothing_may_begin_with_it_again() -> None:
    """E6: its first start may have died after it wrote its first marker, and before it noted so."""
    for last in (None, holds(4, "new")):
        accepted({"kafka": last, "db": None}, pipeline="copy", since=[of_copy(4)], origin=COPY)
    assert "holds epoch 5" in refusal({"kafka": holds(5, "new")}, pipeline="copy", since=[of_copy(4)], origin=COPY)
    since = [of_copy(4), of_copy(5)]
    assert "holds epoch 4" in refusal({"kafka": holds(4, "new")}, pipeline="copy", since=since, origin=COPY)


def test_a_copy_that_promises_at_most_once_writes_nothing_again() -> None:
    """A5: what it has begun may be visible."""
    less = {"pipeline": "copy", "origin": COPY, "guarantee": Guarantee.AT_MOST_ONCE}
    accepted({}, pipeline="copy", guarantee=Guarantee.AT_MOST_ONCE)
    accepted({}, since=[of_copy(4)], **less)
    told = refusal({}, since=[of_copy(4), of_copy(5)], **less)
    assert "'copy' promises at-most-once, and has begun epochs up to 5 since the savepoint of epoch 4" in told


def test_an_old_savepoint_is_refused_with_epochs_positions_and_records() -> None:
    since = [entry(4), entry(5, rows=7), entry(6, rows=8), entry(7)]
    told = refusal({"kafka": holds(6), "db": holds(4)}, since=since)
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
    since = [msgspec.structs.replace(entry(epoch, rows=3), lineage="other") for epoch in (8, 9)]
    assert "(epochs 8 to 9, 6 records)" in refusal({"db": holds(9, "other")}, since=since)
