"""A start with another query than the home's state is of: refused like a restore, before anybody is disturbed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import LedgerCorrupt, QueryChanged
from pipeline.queries import feed, stream
from support.home import checkpoint_of
from support.runs import run

Make = Callable[..., ow.Pipeline]


@pytest.fixture
def make(spark: SparkSession, name: str, tmp_path: Path) -> Make:
    feed(tmp_path / "in", 0)

    def made(aggregate: str = "sum") -> ow.Pipeline:
        rows = stream(spark, tmp_path / "in").groupBy("key").agg({"n": aggregate}).toDF("key", "total")
        pipeline = ow.Pipeline(name, home=tmp_path / "home", source=rows, output_mode="update")
        return pipeline.to(ow.FileSink(tmp_path / "out", format="json"), name="files")

    return made


def test_the_state_of_a_sum_is_not_served_as_a_maximum(make: Make, tmp_path: Path) -> None:
    """E6: the state's bytes fit, its meaning does not. Refused, the home is as it was, and the old query goes on."""
    run(make())
    terms = sorted((tmp_path / "home" / "terms").iterdir())
    with pytest.raises(QueryChanged, match=r"(?s)another query.*had .*sum.*now .*max.*onceward reset"):
        make("max").start()
    assert sorted((tmp_path / "home" / "terms").iterdir()) == terms
    feed(tmp_path / "in", 1)
    run(make())


def test_before_anything_is_committed_the_query_may_change(make: Make, crash_at: Callable[..., None]) -> None:
    """E6: there is no state yet that could be misread."""
    crash_at("written")
    with pytest.raises(BaseException):  # noqa: B017, PT011 - the crash, as Spark tells it
        run(make())
    crash_at(None)
    run(make("max"), take_over=True)
    with pytest.raises(QueryChanged):
        make().start()


def test_without_its_note_nobody_can_tell(make: Make, tmp_path: Path) -> None:
    """E9: silence is no answer."""
    run(make())
    (checkpoint_of(tmp_path / "home") / "notes" / "query.json").unlink()
    with pytest.raises(LedgerCorrupt, match=r"has lost notes/query.json"):
        make().start()
