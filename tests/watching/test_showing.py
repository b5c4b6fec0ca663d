"""What is shown of a running pipeline, from what its driver and Spark say."""

from typing import Any

import pytest

from onceward.epoch.ledger import DONE, Entry, SinkEntry
from onceward.watching.showing import Watch, epoch_shown, lag_of, split, state_of, waits_for
from onceward.watching.sight import Sight
from support.clocks import MONOTONIC

# Spark's report of an epoch, as its JSON is.
PROGRESS: dict[str, Any] = {
    "batchId": 3,
    "numInputRows": 10,
    "durationMs": {
        "addBatch": 60, "commitOffsets": 4, "getBatch": 1, "latestOffset": 2, "queryPlanning": 5,
        "triggerExecution": 80, "walCommit": 3,
    },
    "sources": [
        {
            "description": "KafkaV2[Subscribe[clicks]]",
            "startOffset": {"clicks": {"0": 5, "1": 5}},
            "endOffset": {"clicks": {"0": 10, "1": 10}},
            "latestOffset": {"clicks": {"0": 17, "1": 10}},
        },
        {"description": "FileStreamSource[/in]", "endOffset": {"logOffset": 2}, "latestOffset": None},
    ],
}  # fmt: skip


def entry(epoch: int, *, compute: float = 20.0, attempts: int = 1) -> Entry:
    def part(rows: int) -> SinkEntry:
        times = {"begin": 1.0, "write": 30.0, **({"compute": compute} if compute else {})}
        return SinkEntry(kind="m:Sink", rows=rows, digest="0", milliseconds=times)

    return Entry(
        pipeline="clicks", lineage="L", term=1, epoch=epoch, phase=DONE, positions=[], input_rows=10,
        attempts=attempts, sinks={"kafka": part(10), "postgres": part(10)},
        milliseconds={"vote": 64.0, "decide": 3.0, "commit": 2.0}, finished_at="2026-01-02T03:04:05.678",
    )  # fmt: skip


def sight(after_s: float = 0.0, **facts: Any) -> Sight:
    return Sight(pipeline="clicks", guarantee="exactly-once", at=MONOTONIC + after_s, **facts)


def test_rows_in_are_counted_once_and_rows_out_for_each_sink() -> None:
    """I3: not once per sink."""
    shown = epoch_shown(entry(3), PROGRESS)
    assert shown.rows_in == 10
    assert shown.rows_out == {"kafka": 10, "postgres": 10}


def test_an_epochs_time_is_split_into_reading_computing_writing_and_committing() -> None:
    """I3."""
    assert split(entry(3), PROGRESS) == {"reading": 8.0, "computing": 40.0, "writing": 24.0, "committing": 12.0}


def test_where_rows_go_over_tasks_computing_and_writing_are_one() -> None:
    assert split(entry(3, compute=0), PROGRESS) == {"reading": 8.0, "computing and writing": 64.0, "committing": 12.0}


def test_of_an_epoch_that_spark_has_not_reported_yet_reading_is_left_out() -> None:
    assert "reading" not in split(entry(4), PROGRESS)


def test_lag_is_told_for_each_topic_and_only_of_kafka() -> None:
    assert lag_of(PROGRESS) == {"clicks": 7}
    assert lag_of({}) == {}
    assert lag_of({"sources": [{"endOffset": '{"t":{"0":1}}', "latestOffset": '{"t":{"0":5,"1":2}}'}]}) == {"t": 6}


@pytest.mark.parametrize(
    ("facts", "state", "waits"),
    [
        ({}, "running", "new events"),
        ({"running": 4}, "running", "epoch 4: being planned"),
        ({"running": 4, "doing": "committing in 'kafka'"}, "running", "epoch 4: committing in 'kafka'"),
        ({"waiting": "waiting for sink 'pg': refused (12 s)"}, "waiting", "sink 'pg': refused (12 s)"),
        ({"stopping": True, "running": 4}, "stopping", "epoch 4: being planned"),
        ({"active": False}, "ended", ""),
        ({"active": False, "failure": "no"}, "failed", ""),
    ],
)
def test_a_state_is_a_word_that_everybody_knows(facts: dict[str, Any], state: str, waits: str) -> None:
    assert (state_of(sight(**facts)), waits_for(sight(**facts))) == (state, waits)


def test_rates_are_over_the_last_seconds() -> None:
    watch = Watch()
    assert watch.shown(sight(0, rows_read=0, rows_written={"k": 0})).rows_in_per_s == 0
    for second in range(1, 31):
        quick = 1000 if second > 10 else 10
        shown = watch.shown(sight(second, rows_read=quick * second, rows_written={"k": second}))
    assert shown.rows_in_per_s == pytest.approx(1000)
    assert shown.rows_out_per_s == {"k": pytest.approx(1.0)}
    assert shown.rows_in == 30_000


def test_the_last_error_stays_to_be_seen() -> None:
    watch = Watch()
    watch.shown(sight(0, waiting="waiting for sink 'pg': refused (1 s)"))
    assert watch.shown(sight(1)).last_error == "waiting for sink 'pg': refused (1 s)"


def test_each_epoch_is_told_once_and_waits_a_moment_for_sparks_report() -> None:
    watch = Watch()
    assert [it.epoch for it in watch.fresh(sight(epochs=(entry(2), entry(3)), progress=PROGRESS))] == [2, 3]
    behind = sight(epochs=(entry(3), entry(4)), progress=PROGRESS)
    assert watch.fresh(behind) == []
    assert [it.epoch for it in watch.fresh(behind)] == [4]
    assert watch.fresh(behind) == []
    assert [it.epoch for it in watch.fresh(sight(active=False, epochs=(entry(5),)))] == [5]


def test_the_line_of_an_epoch_says_it_all() -> None:
    assert epoch_shown(entry(3, attempts=2), PROGRESS).line() == (
        "clicks: epoch 3 committed: 10 rows in, 10 to kafka, 10 to postgres; 84 ms (reading 8, computing 40, "
        "writing 24, committing 12); lag 7; 2 tries"
    )
