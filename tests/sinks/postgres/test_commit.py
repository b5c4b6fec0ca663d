"""Exactly once: commits repeated, at once, by zombies; aborts; other lineages; what is lost is said."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.contract import EpochContext, LastCommit
from onceward.epoch.outcome import Outcome
from onceward.errors import EpochFailed, PipelineFenced, StagingLost, TargetUnusable
from onceward.sinks.postgres import PostgresSink
from onceward.sinks.postgres.publish import Plan
from support.postgres import Database, away

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]


@pytest.fixture(autouse=True)
def target(database: Database) -> None:
    database.admin("CREATE TABLE target (id bigint NOT NULL)")


def seen(database: Database) -> list[int]:
    return database.column("SELECT id FROM target ORDER BY id")


def ids(spark: SparkSession, *bounds: int) -> DataFrame:
    return spark.range(*bounds)


def test_the_marker_says_what_was_committed_last(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    """Requirement B10."""
    sink = opened(table="target")
    assert sink.last_commit() is None
    rows = ids(spark, 10)
    put(sink, rows, 4)
    digest = sink.digest(EpochContext(epoch=4), rows)
    expected = LastCommit(lineage="lineage-1", epoch=4, term=1, outcome=Outcome(rows=10, digest=digest.digest))
    assert opened(table="target", term=2).last_commit() == expected
    assert database.admin("SELECT pipeline, sink, lineage, epoch, term, rows, target FROM onceward.markers") == [
        ("orders", "sink", "lineage-1", 4, 1, 10, '"public"."target"')
    ]


def test_many_commits_at_once_move_the_rows_once(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """Requirement C6: several processes commit the same epoch at the same moment."""
    context, committable = prepare(opened(table="target"), ids(spark, 1000), long=True)
    sinks = [opened(table="target", term=2) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for answer in [threads.submit(sink.commit, context, committable) for sink in sinks]:
            answer.result()
    assert seen(database) == list(range(1000))
    assert database.staged() == []


def test_a_driver_that_was_overtaken_stages_nothing_and_aborts_nothing(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    zombie = opened(table="target")
    context, committable = prepare(zombie, ids(spark, 10))
    opened(table="target", term=2)
    with pytest.raises(PipelineFenced, match="term 1"):
        zombie.begin(EpochContext(epoch=0, attempt=2))
    zombie.abort(context)
    assert len(database.staged()) == 1, "what it takes for undecided may be decided by now"
    opened(table="target", term=3).commit(context, committable)
    assert seen(database) == list(range(10))
    assert database.staged() == []


def test_an_older_term_cannot_open_the_sink(database: Database, opened: Opens) -> None:
    opened(table="target", term=5)
    with pytest.raises(PipelineFenced):
        opened(table="target", term=4)


def test_an_older_term_cannot_commit_another_epoch(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts
) -> None:
    """Its successor has gone on: whatever it holds was never decided."""
    zombie = opened(table="target")
    context, committable = prepare(zombie, ids(spark, 100, 110), 1)
    put(opened(table="target", term=2), ids(spark, 10), 0)
    with pytest.raises(PipelineFenced):
        zombie.commit(context, committable)
    assert seen(database) == list(range(10))


def test_a_decided_epoch_may_be_committed_by_whoever_knows_of_it(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """A paused driver that wakes before its successor has committed the epoch does no harm by committing it."""
    zombie = opened(table="target")
    context, committable = prepare(zombie, ids(spark, 10))
    heir = opened(table="target", term=2)
    zombie.commit(context, committable)
    heir.commit(context, committable)
    assert seen(database) == list(range(10))


def test_another_lineage_takes_over_as_long_as_nothing_is_committed(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts
) -> None:
    """Requirement E8: a sink without a commit has no lineage yet; the last one to open it has it."""
    old = opened(table="target", term=9)
    context, committable = prepare(old, ids(spark, 10, 20))
    new = opened(table="target", lineage="lineage-2")
    new.abort(EpochContext(epoch=0))
    assert database.staged() == [], "what an older lineage staged can never become visible now"
    with pytest.raises(PipelineFenced):
        old.commit(context, committable)
    put(new, ids(spark, 30, 40), 0)
    assert seen(database) == list(range(30, 40))
    assert database.column("SELECT count(*) FROM onceward.markers") == [1]


def test_an_abort_removes_leftovers_of_every_term_and_try_and_leaves_other_pipelines_alone(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    prepare(opened(table="target"), ids(spark, 10), 3)
    second = opened(table="target", term=2)
    prepare(second, ids(spark, 10), 4, attempt=1)
    prepare(second, ids(spark, 10), 4, attempt=2)
    other = opened(table="target", pipeline="others")
    context, committable = prepare(other, ids(spark, 50, 60), 1)
    assert len(database.staged()) == 4
    third = opened(table="target", term=3)
    third.abort(EpochContext(epoch=4))
    assert len(database.staged()) == 1
    other.commit(context, committable)
    assert seen(database) == list(range(50, 60))
    assert database.staged() == []


def test_staging_names_keep_within_postgresqls_length(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    sink = opened(table="target", pipeline="p" * 300, lineage="l" * 300, term=10**8)
    prepare(sink, ids(spark, 1), 10**11, attempt=99)
    assert all(len(name.encode()) <= 63 for name in database.staged())
    assert len(database.staged()) == 1


def test_staged_rows_that_are_gone_are_said_and_not_passed_over(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """Requirement B5: never skipped, never logged and forgotten."""
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10), 7)
    database.admin(f"DELETE FROM onceward.{database.staged()[0]} WHERE id < 3")
    with pytest.raises(StagingLost, match=r"epoch 7 is decided.*7 of the 10 rows"):
        sink.commit(context, committable)
    database.admin(f"DROP TABLE onceward.{database.staged()[0]}")
    with pytest.raises(StagingLost, match='epoch 7 is decided and not in "public"'):
        sink.commit(context, committable)
    assert seen(database) == []
    assert sink.last_commit() is None


def test_rows_that_go_missing_before_the_vote_are_noticed(
    spark: SparkSession, database: Database, opened: Opens
) -> None:
    sink, context = opened(table="target"), EpochContext(epoch=0, input_rows=10)
    sink.begin(context)
    outcome = sink.write(context, ids(spark, 10))
    database.admin(f"DELETE FROM onceward.{database.staged()[0]} WHERE id = 3")
    with pytest.raises(EpochFailed, match="has 9 rows, and 10 were copied"):
        sink.pre_commit(context, outcome)


def test_a_marker_that_somebody_removed_does_no_harm_while_the_rows_are_staged(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10))
    database.admin("DELETE FROM onceward.markers")
    sink.commit(context, committable)
    sink.commit(context, committable)
    assert seen(database) == list(range(10))
    database.admin("DELETE FROM onceward.markers")
    with pytest.raises(StagingLost):
        sink.commit(context, committable)
    assert seen(database) == list(range(10))


def test_a_row_that_gets_in_the_way_after_the_decision_stops_the_commit_until_it_is_gone(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """Requirement B5: the error names table, constraint and value; the epoch waits, and goes on."""
    database.admin("ALTER TABLE target ADD PRIMARY KEY (id)")
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10), 2)
    database.admin("INSERT INTO target VALUES (5)")
    with pytest.raises(TargetUnusable, match=r"epoch 2 is decided.*target_pkey.*=\(5\).*SQLSTATE 23505"):
        sink.commit(context, committable)
    assert seen(database) == [5]
    assert len(database.staged()) == 1
    database.admin("DELETE FROM target WHERE id = 5")
    opened(table="target", term=2).commit(context, committable)
    assert seen(database) == list(range(10))


def test_a_trigger_that_keeps_rows_back_is_the_targets_affair(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    database.admin(
        "CREATE FUNCTION odd_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; "
        "END IF; RETURN NEW; END $$; CREATE TRIGGER t BEFORE INSERT ON target FOR EACH ROW EXECUTE FUNCTION odd_only()"
    )
    sink = opened(table="target")
    put(sink, ids(spark, 10))
    assert seen(database) == [1, 3, 5, 7, 9]
    last = sink.last_commit()
    assert last is not None
    assert last.epoch == 0


def test_every_released_format_is_read_for_ever() -> None:
    """A decided epoch may wait for its commit while the software is replaced."""
    text = (
        '{"version": 1, "lineage": "l", "epoch": 7, "term": 2, "schema": "onceward", "table": "stage_1", '
        '"tries": [5, 6], "target": ["public", "orders"], "columns": ["id", "text"], "key": ["id"], "rows": 3, '
        '"digest": "f000000000000001", "after": ["l", 6]}'
    )
    plan = Plan.decode(json.loads(text))
    assert (plan.table, plan.tries, plan.target, plan.digest) == (
        "stage_1",
        (5, 6),
        ("public", "orders"),
        0xF << 60 | 1,
    )
    assert json.loads(json.dumps(plan.encode())) == json.loads(text)
    trusted = {name: value for name, value in json.loads(text).items() if name != "after"}  # by a person
    assert json.loads(json.dumps(Plan.decode(trusted).encode())) == trusted


def test_a_committable_of_another_release_is_refused(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10))
    with pytest.raises(TargetUnusable, match="format 99"):
        sink.commit(context, {**committable, "version": 99})
    assert seen(database) == []


def test_staged_rows_outlive_a_role_that_does_not_wait_for_the_disk(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """With synchronous_commit off a crash could lose what was voted for, so it is never off here."""
    database.admin(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10))
    with away(database.server):
        pass
    sink.commit(context, committable)
    assert seen(database) == list(range(10))
