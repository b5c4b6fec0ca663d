"""Sinks that were added, taken out and brought back on an old home (I5): said in words, not taken for lost data."""

import pytest

from epoch.started import Pipeline, Place
from onceward.errors import MarkerMissing


def pipeline_of(*others: str, decides: bool = False) -> Pipeline:
    return Pipeline(decides=decides, others={name: Place() for name in others})


def runs(pipeline: Pipeline, *epochs: int, trust_ledger: bool = False) -> None:
    """A driver that runs these epochs, a row each, and ends cleanly."""
    driver = pipeline.start(trust_ledger=trust_ledger)
    for epoch in epochs:
        driver.run(epoch, "abcd"[epoch])
    driver.runner.close()


def changes(pipeline: Pipeline) -> list[str]:
    return [line for line in pipeline.told if line.startswith("sink ")]


class TestInWords:
    def test_a_sink_that_is_new(self) -> None:
        pipeline = pipeline_of("t")
        pipeline.out = {"t"}
        runs(pipeline, 0)
        pipeline.out = set()
        driver = pipeline.start()
        assert changes(pipeline) == ["sink 't' is new: it gets epochs from 1 on, and nothing of those up to 0"]
        driver.run(1, "b")
        assert pipeline.others["t"].rows == ["b"]

    def test_a_sink_that_was_taken_out(self) -> None:
        pipeline = pipeline_of("t")
        runs(pipeline, 0)
        pipeline.out = {"t"}
        runs(pipeline, 1)
        assert changes(pipeline) == [
            "sink 't' is no longer part of the pipeline: it keeps what it has, epochs up to 0, and gets no more"
        ]
        assert pipeline.others["t"].rows == ["a"]

    def test_a_sink_that_is_back(self) -> None:
        pipeline = pipeline_of("t")
        runs(pipeline, 0)
        pipeline.out = {"t"}
        runs(pipeline, 1, 2)
        pipeline.out = set()
        runs(pipeline, 3)
        assert changes(pipeline)[1:] == [
            "sink 't' is back: epochs 1 to 2 went without it and will not be in it; it gets epochs from 3 on"
        ]
        assert pipeline.others["t"].rows == ["a", "d"]

    def test_nothing_where_nothing_changed(self) -> None:
        pipeline = pipeline_of("t", decides=True)
        pipeline.start()
        runs(pipeline, 0)
        pipeline.start()
        assert changes(pipeline) == []


class TestTheDecidingSink:
    """A Kafka sink that was taken out: its marker stays where it was, or expires."""

    def taken_out(self) -> Pipeline:
        pipeline = pipeline_of("t", decides=True)
        runs(pipeline, 0, 1)
        pipeline.out = {"s"}
        runs(pipeline, 2)
        pipeline.out = set()
        return pipeline

    def test_comes_back_with_its_old_marker(self) -> None:
        pipeline = self.taken_out()
        driver = pipeline.start()
        assert pipeline.place.marker is not None
        assert pipeline.place.marker.epoch == 2  # from here on it is known to have one
        driver.run(3, "d")
        assert pipeline.place.rows == ["a", "b", "d"]
        assert pipeline.others["t"].rows == ["a", "b", "c", "d"]
        assert changes(pipeline)[-1].startswith("sink 's' is back: epoch 2 went without it")

    def test_comes_back_though_its_marker_has_expired_meanwhile(self) -> None:
        pipeline = self.taken_out()
        pipeline.place.marker = None
        runs(pipeline, 3)
        assert pipeline.place.rows == ["a", "b", "d"]

    def test_has_lost_data_if_its_marker_is_older_than_when_it_was_taken_out(self) -> None:
        pipeline = self.taken_out()
        assert pipeline.place.marker is not None
        pipeline.place.marker = type(pipeline.place.marker)(lineage="L", epoch=0, term=1)
        with pytest.raises(MarkerMissing, match="Kafka has lost committed data"):
            pipeline.start()

    @pytest.mark.parametrize("marker", ["gone", "old"])
    def test_is_asked_for_its_marker_again_from_its_return_on(self, marker: str) -> None:
        """The epoch after its return may be committed in Kafka alone: a marker that is gone then is no old story."""
        pipeline = self.taken_out()
        before = pipeline.place.marker
        pipeline.start()
        pipeline.place.marker = before if marker == "old" else None
        with pytest.raises(MarkerMissing):
            pipeline.start()

    def test_under_another_name_is_asked_for_the_same_marker(self) -> None:
        """Kafka's marker is the pipeline's, whatever its sink is called."""
        pipeline = pipeline_of("t", decides=True)
        runs(pipeline, 0)
        pipeline.place.marker = None
        pipeline.deciding = "kafka-2"
        with pytest.raises(MarkerMissing, match="Kafka has no marker"):
            pipeline.start()


class TestASinkThatComesBack:
    @pytest.mark.parametrize("marker", ["gone", "old"])
    def test_must_still_hold_what_it_had(self, marker: str) -> None:
        """J6: a database that was set back while it was away."""
        pipeline = pipeline_of("t")
        runs(pipeline, 0)
        held = pipeline.others["t"].marker
        runs(pipeline, 1)
        pipeline.out = {"t"}
        runs(pipeline, 2)
        pipeline.out = set()
        pipeline.others["t"].marker = held if marker == "old" else None
        with pytest.raises(MarkerMissing, match="epoch 1 of 'p' as committed, sink 't'"):
            pipeline.start()
        runs(pipeline, 3, trust_ledger=True)
