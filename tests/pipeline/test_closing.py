"""A query is closed when its last epoch has let go of the sinks' connections."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from onceward.epoch.stop_request import StopRequest
from onceward.errors import PipelineFenced
from onceward.pipeline.query import Query
from support.waiting import eventually


def test_connections_stay_until_the_epoch_of_an_overtaken_driver_has_ended() -> None:
    """C6: Spark's stop does not end the callback in which the epoch runs; two threads on one connection would fail."""
    idle, steps, fenced = threading.Event(), list[str](), PipelineFenced("a newer driver")
    query = Query.__new__(Query)
    query._closing, query._closed, query._fenced = threading.Lock(), False, fenced
    query._ended, query._saves = (lambda *_: steps.append("told")), False
    query.spark_query = cast("Any", SimpleNamespace(exception=lambda: None, isActive=False))
    observer = SimpleNamespace(ended=lambda failure: steps.append(f"observed {type(failure).__name__}"))
    runner = SimpleNamespace(idle=idle, close=lambda: steps.append("recorded"), failure=None, observer=observer)
    query._runner = cast("Any", runner)
    query._opened = cast("Any", SimpleNamespace(close=lambda: steps.append("closed")))
    closing = threading.Thread(target=query._close)
    closing.start()
    closing.join(0.2)
    assert (closing.is_alive(), steps) == (True, [])
    idle.set()
    closing.join(10)
    assert (closing.is_alive(), steps) == (False, ["recorded", "closed", "observed PipelineFenced", "told"])
    assert query.exception() is fenced


class Lease:
    """Keeps what a query tells it."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def keep_while(self, needed: Any, **told: Any) -> None:
        self.told = {"needed": needed, **told}


class Spark:
    """A query of Spark's that runs until it is stopped."""

    def __init__(self) -> None:
        self.isActive = True
        self.stops = 0

    def stop(self) -> None:
        self.isActive, self.stops = False, self.stops + 1

    def exception(self) -> None:
        return None


class Finishes:
    """A checkpoint of which Spark's note of epoch 0 can be read at the third look; the disk fails before."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def finished(self, epoch: int) -> bool:
        assert epoch == 0
        self.left -= 1
        if self.left > 0:
            raise OSError(5, "Input/output error")
        return True


@pytest.fixture
def running() -> tuple[Query, Lease, Spark, Any]:
    """A query with an epoch behind it, idle."""
    lease, spark, idle = Lease(), Spark(), threading.Event()
    idle.set()
    taken = SimpleNamespace(checkpoint=Finishes(0), term=SimpleNamespace(require_current=lambda: None))
    runner = SimpleNamespace(
        idle=idle, close=lambda: None, await_record=lambda: None, failure=None, taken=taken,
        observer=SimpleNamespace(ended=lambda _: None), finished=[SimpleNamespace(epoch=0)],
        keep_marker_alive=lambda: None,
    )  # fmt: skip
    opened = SimpleNamespace(lease=lease, stop=threading.Event(), close=lambda: None)
    query = Query("p", cast("Any", spark), cast("Any", runner), cast("Any", opened))
    return query, lease, spark, runner


def test_a_query_tells_its_lease_what_to_do_beside_it(running: tuple[Query, Lease, Spark, Any]) -> None:
    """C7: the marker of an idle pipeline is kept alive, and a query that has ended needs no lease."""
    _, lease, spark, runner = running
    assert lease.told["beside"] is runner.keep_marker_alive
    assert lease.told["needed"]()
    spark.stop()
    assert not lease.told["needed"]()


def test_a_query_that_is_overtaken_stops_at_once_and_says_so(running: tuple[Query, Lease, Spark, Any]) -> None:
    """C6: also while it is idle."""
    query, lease, spark, _ = running
    fenced = PipelineFenced("a newer driver")
    lease.told["overtaken"](fenced)
    assert (spark.stops, query._opened.stop.is_set()) == (1, True)
    assert query.exception() is fenced


def test_a_request_to_stop_ends_it_from_another_thread(running: tuple[Query, Lease, Spark, Any]) -> None:
    """E6: the lease is kept meanwhile, however long the running epoch takes."""
    query, lease, spark, runner = running
    runner.idle.clear()
    lease.told["asked_to_stop"](StopRequest(term=1, by="a test", at="now"))
    eventually(query._opened.stop.is_set, "no epoch begins any more", 10)
    assert spark.isActive
    runner.idle.set()
    eventually(lambda: query._closed, "the query is closed", 10)
    assert spark.stops == 1


def test_a_request_to_stop_outlives_an_error_of_the_disk(running: tuple[Query, Lease, Spark, Any]) -> None:
    """It is told once: an idle pipeline that dropped it would run on, with whoever asked waiting."""
    query, lease, spark, runner = running
    runner.taken.checkpoint = Finishes(3)
    lease.told["asked_to_stop"](StopRequest(term=1, by="a test", at="now"))
    eventually(lambda: query._closed, "the query is closed", 10)
    assert spark.stops == 1
    assert runner.taken.checkpoint.left <= 0
