"""A query is closed when its last epoch has let go of the sinks' connections."""

import threading
from types import SimpleNamespace
from typing import Any, cast

from onceward.errors import PipelineFenced
from onceward.pipeline.query import Query


def test_connections_stay_until_the_epoch_of_an_overtaken_driver_has_ended() -> None:
    """C6: Spark's stop does not end the callback in which the epoch runs; two threads on one connection would fail."""
    idle, steps, fenced = threading.Event(), list[str](), PipelineFenced("a newer driver")
    query = Query.__new__(Query)
    query._closing, query._closed, query._fenced = threading.Lock(), False, fenced
    query._ended = lambda *_: steps.append("told")
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
    assert (closing.is_alive(), steps) == (False, ["recorded", "told", "closed", "observed PipelineFenced"])
    assert query.exception() is fenced
