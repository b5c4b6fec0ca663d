"""What each sink must hold: recorded once, also of sinks that are out of the pipeline (I5, J6)."""

import pytest

from epoch.started import Pipeline, Place
from epoch.test_resetting import reset
from onceward.epoch.contract import LastCommit
from onceward.epoch.expected import NEVER, Expected
from onceward.errors import ForeignLineage, HomeMismatch, MarkerMissing


def last(epoch: int, lineage: str = "L") -> LastCommit:
    return LastCommit(lineage=lineage, epoch=epoch, term=1)


def check(now: LastCommit | None, held: tuple[str, int] | None, before: tuple[str, int] | None = None) -> None:
    expected = Expected("p", "L", {"table": held} if held else {}, {"table": before} if before else {})
    expected.require("table", now)


class TestWhileItRuns:
    def test_a_sink_that_holds_what_it_held_agrees(self) -> None:
        check(None, None)
        check(last(10), ("L", 10))
        check(last(NEVER), ("L", NEVER))
        check(last(4, "old"), ("old", 4), ("old", 4))

    @pytest.mark.parametrize("now", [None, last(7), last(9), last(NEVER)])
    def test_one_that_was_set_back_or_lost_its_marker_is_named_with_both_epochs(self, now: LastCommit | None) -> None:
        says = "has no marker" if now is None else "from before" if now.epoch == NEVER else f"says epoch {now.epoch}"
        with pytest.raises(
            MarkerMissing, match=rf"'table' of 'p' is to hold epoch 10, and .*{says}.*--trust-ledger table"
        ):
            check(now, ("L", 10))

    def test_one_that_lost_even_the_marker_from_before_its_first_epoch_is_named(self) -> None:
        with pytest.raises(MarkerMissing, match="has no marker"):
            check(None, ("L", NEVER))

    def test_one_that_holds_more_than_was_committed_has_another_writer(self) -> None:
        for held in (None, ("L", 10), ("old", 30)):
            with pytest.raises(HomeMismatch, match=r"says epoch 11.*somebody else writes"):
                check(last(11), held, ("old", 30))

    def test_one_that_another_home_writes_to_is_named(self) -> None:
        with pytest.raises(HomeMismatch, match=r"epoch 10 of 'p' under lineage other: another home runs under the"):
            check(last(10, "other"), ("L", 10))

    def test_the_same_epoch_of_the_lineage_before_is_another_one(self) -> None:
        """J6: a database set back to before a reset holds an epoch of the same number."""
        with pytest.raises(MarkerMissing, match="is to hold epoch 3, and says epoch 3 of lineage old"):
            check(last(3, "old"), ("L", 3), ("old", 3))

    def test_what_was_committed_is_expected_from_then_on(self) -> None:
        expected = Expected("p", "L", {}, {})
        assert not expected.is_ours("table")
        expected.note(["table"], 0)
        assert expected.is_ours("table")
        with pytest.raises(MarkerMissing):
            expected.require("table", None)


def pipeline_of(*others: str, decides: bool = False) -> Pipeline:
    return Pipeline(decides=decides, others={name: Place() for name in others})


def runs(pipeline: Pipeline, *epochs: int, trust: tuple[str, ...] = ()) -> None:
    """A driver that runs these epochs, a row each, and ends cleanly."""
    driver = pipeline.start(trust=trust)
    for epoch in epochs:
        driver.run(epoch, "abcd"[epoch])
    driver.end()


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
    """A Kafka sink that was taken out: its marker stays where it was."""

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

    def test_whose_marker_has_expired_meanwhile_needs_a_word(self) -> None:
        """Nobody can tell expired offsets from a cluster that lost its data: a person looks."""
        pipeline = self.taken_out()
        pipeline.place.marker = None
        with pytest.raises(MarkerMissing, match=r"is to hold epoch 1, and has no marker.*offsets.retention.minutes"):
            pipeline.start()
        runs(pipeline, 3, trust=("s",))
        assert pipeline.place.rows == ["a", "b", "d"]
        assert pipeline.overruled == [line for line in pipeline.told if "as asked, the ledger counts" in line] != []

    def test_has_lost_data_if_its_marker_is_older_than_when_it_was_taken_out(self) -> None:
        pipeline = self.taken_out()
        pipeline.place.marker = last(0)
        with pytest.raises(MarkerMissing, match="is to hold epoch 1, and says epoch 0"):
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
        """Kafka's marker is the pipeline's, whatever its sink is called, and however often it was out."""
        pipeline = pipeline_of("t", decides=True)
        runs(pipeline, 0)
        pipeline.out = {"s"}
        runs(pipeline, 1)
        runs(pipeline, 2)
        pipeline.out, pipeline.deciding = set(), "kafka-2"
        held, pipeline.place.marker = pipeline.place.marker, None
        with pytest.raises(MarkerMissing, match="sink 'kafka-2' of 'p' is to hold epoch 0, and has no marker"):
            pipeline.start()
        pipeline.place.marker = held
        runs(pipeline, 3)
        assert pipeline.place.rows == ["a", "d"]


class TestASinkThatComesBack:
    @pytest.mark.parametrize("marker", ["gone", "old"])
    def test_must_still_hold_what_it_had(self, marker: str) -> None:
        """J6: a database that was set back while it was away; once a person has said so, that is on record."""
        pipeline = pipeline_of("t")
        runs(pipeline, 0)
        held = pipeline.others["t"].marker
        runs(pipeline, 1)
        pipeline.out = {"t"}
        runs(pipeline, 2)
        pipeline.out = set()
        pipeline.others["t"].marker = held if marker == "old" else None
        for trust in ((), ("s",)):
            with pytest.raises(MarkerMissing, match="sink 't' of 'p' is to hold epoch 1"):
                pipeline.start(trust=trust)
        pipeline.start(trust=("t",))
        runs(pipeline, 3)

    @pytest.mark.parametrize("decides", [False, True])
    def test_after_a_reset_that_it_was_out_of_is_known(self, decides: bool) -> None:
        """E8: what it held when the lineage began was recorded for it, too."""
        pipeline = pipeline_of("t", decides=decides)
        runs(pipeline, 0)
        pipeline.out = {"t"}
        runs(pipeline, 1)
        reset(pipeline)
        runs(pipeline, 0)
        pipeline.out = set()
        runs(pipeline, 1)
        assert pipeline.others["t"].rows == ["a", "b"]
        assert changes(pipeline)[-1] == (
            "sink 't' is back: epoch 0 went without it and will not be in it; it gets epochs from 1 on"
        )

    def test_after_a_reset_with_what_it_did_not_hold_then_is_refused(self) -> None:
        pipeline = pipeline_of("t")
        runs(pipeline, 0)
        pipeline.out = {"t"}
        reset(pipeline)
        pipeline.out = set()
        held, pipeline.others["t"].marker = pipeline.others["t"].marker, None
        with pytest.raises(MarkerMissing, match="is to hold epoch 0 of lineage L, and has no marker"):
            pipeline.start()
        assert held is not None
        pipeline.others["t"].marker = last(held.epoch + 1, held.lineage)
        with pytest.raises(ForeignLineage):
            pipeline.start()

    def test_that_was_out_for_two_lineages_is_known(self) -> None:
        pipeline = pipeline_of("t", "u")
        runs(pipeline, 0)
        pipeline.out = {"t"}
        reset(pipeline)
        runs(pipeline, 0, 1)
        reset(pipeline)
        runs(pipeline, 0)
        pipeline.out = set()
        runs(pipeline, 1)
        assert pipeline.others["t"].rows == ["a", "b"]
        assert pipeline.others["u"].rows == ["a", "a", "b", "a", "b"]


def test_what_a_person_has_vouched_for_is_expected_though_nothing_was_committed_since() -> None:
    """J6: the start before this one may have died before its first epoch."""
    pipeline = Pipeline(others={"o": Place()})
    driver = pipeline.start()
    driver.run(0, "a")
    driver.run(1, "b")
    driver.end()
    pipeline.others["o"].marker = last(0)
    pipeline.start(trust=["o"]).end()
    assert pipeline.start().taken.expected.held["o"] == ("L", 0)
