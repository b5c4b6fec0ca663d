"""What a start judges before it waits for the home, it judges again once the home is its own."""

from dataclasses import replace

import msgspec
import pytest

from epoch.memory import Meanwhile
from epoch.started import Asked, Pipeline
from epoch.test_resetting import reset
from onceward.epoch import deeds, query_shape
from onceward.epoch.checkpoint import NOTES, Checkpoint
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.deeds import Ended
from onceward.epoch.query_shape import OperatorShape, QueryShape
from onceward.epoch.starting import Opened
from onceward.errors import CheckpointDropped, HomeMismatch, LedgerCorrupt, QueryChanged

SUM = QueryShape(operators=[OperatorShape(name="aggregate", details=["sum(v)"])])
MAX = QueryShape(operators=[OperatorShape(name="aggregate", details=["max(v)"])])


@pytest.fixture
def storage() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def pipeline(storage: Meanwhile) -> Pipeline:
    made = Pipeline(storage=storage)
    driver = made.start()
    driver.run(0, "a")
    driver.end()
    return made


def replace_sources(shape: QueryShape, *sources: str) -> QueryShape:
    return msgspec.structs.replace(shape, sources=[*sources])


def start(pipeline: Pipeline, shape: QueryShape, *, any_topics: bool = False) -> Opened:
    return replace(pipeline.starting, shape=shape, any_topics=any_topics).take_over(
        lambda _: Coordinator(
            pipeline.sinks(), is_final=lambda _: True, clock=lambda: pipeline.now, sleep=pipeline.sleep
        ),
        Asked(),
    )


def end(pipeline: Pipeline) -> None:
    """As the driver of a pipeline does whose checkpoint is not retained."""
    term = pipeline.claim()
    deeds.enter(pipeline.storage, term.number)
    assert deeds.end(pipeline.storage, term.number, Ended(epoch=0, reason="it was stopped", retain="never", at="noon"))
    term.release()
    pipeline.storage.clear(Checkpoint.newest(pipeline.home).folder)


def test_a_pipeline_that_has_ended_for_good_does_not_go_on(pipeline: Pipeline) -> None:
    """E5: its positions are gone, so it would begin anew."""
    end(pipeline)
    with pytest.raises(CheckpointDropped, match=r"retain='never'.*restore a savepoint.*or begin anew"):
        pipeline.start()


def test_one_that_ends_while_its_home_is_waited_for_does_not_go_on(pipeline: Pipeline, storage: Meanwhile) -> None:
    """E5: asked before, the home had everything."""
    storage.at("terms/000002.json", lambda: end(pipeline))
    with pytest.raises(CheckpointDropped, match="ended after epoch 0"):
        pipeline.start()


def test_a_home_that_loses_whose_it_is_while_it_is_waited_for_is_named(pipeline: Pipeline, storage: Meanwhile) -> None:
    """E9."""
    storage.at("terms/000002.json", lambda: storage.remove(deeds.FILE))
    with pytest.raises(HomeMismatch, match=r"lost its file pipeline\.json while this start waited"):
        pipeline.start()


class TestTheQuery:
    """The state of one query is not that of another."""

    def test_that_has_run_is_compared_and_goes_on_if_it_is_the_same(self, pipeline: Pipeline) -> None:
        query_shape.write(pipeline.notes, SUM)
        start(pipeline, SUM).close()
        with pytest.raises(QueryChanged, match=r"which this one would misread.\n  - .*max\(v\)"):
            start(pipeline, MAX)

    def test_that_reads_other_topics_is_another_unless_a_person_leaves_some_out(self, pipeline: Pipeline) -> None:
        """I5: `--accept-lost-input`; the number of sources stays."""
        was, now = (replace_sources(SUM, f"kafka subscribe={topic}") for topic in ("a,b", "b"))
        query_shape.write(pipeline.notes, was)
        with pytest.raises(QueryChanged, match="source 0 was kafka subscribe=a,b, now kafka subscribe=b"):
            start(pipeline, now)
        with pytest.raises(QueryChanged, match="an additional source 1"):
            start(pipeline, replace_sources(SUM, "kafka subscribe=b", "kafka subscribe=c"), any_topics=True)
        start(pipeline, now, any_topics=True).close()

    def test_that_is_noted_while_the_home_is_waited_for_counts(self, pipeline: Pipeline, storage: Meanwhile) -> None:
        """The driver that was waited for ran another one."""
        query_shape.write(pipeline.notes, MAX)
        storage.at("terms/000002.json", lambda: query_shape.write(pipeline.notes, SUM))
        with pytest.raises(QueryChanged):
            start(pipeline, MAX)

    def test_that_nobody_has_noted_cannot_be_compared(self, pipeline: Pipeline) -> None:
        """E9: it has been taken away."""
        with pytest.raises(LedgerCorrupt, match=r"has lost notes/query\.json.*Restore the checkpoint from a backup"):
            start(pipeline, SUM)

    def test_whose_lineage_a_reset_has_ended_since_is_not_asked_for(
        self, pipeline: Pipeline, storage: Meanwhile
    ) -> None:
        storage.at(query_shape.FILE, lambda: reset(pipeline))
        opened = start(pipeline, SUM)
        assert opened.taken.owner.lineage.startswith("M")
        opened.close()

    def test_whose_checkpoint_was_dropped_since_is_not_taken_for_lost(
        self, pipeline: Pipeline, storage: Meanwhile
    ) -> None:
        storage.at(query_shape.FILE, lambda: end(pipeline))
        with pytest.raises(CheckpointDropped):
            start(pipeline, SUM)

    def test_is_found_though_the_next_driver_takes_its_folder_along(
        self, pipeline: Pipeline, storage: Meanwhile
    ) -> None:
        """E9: it would be said to be lost."""
        query_shape.write(pipeline.notes, SUM)
        storage.at(f"{NOTES}/{query_shape.FILE}", pipeline.start)
        start(pipeline, SUM).close()
