"""What homes tell about their pipelines, and which topics join them; what cannot be told apart is refused."""

from pathlib import Path

import msgspec
import pytest

from onceward.epoch import deeds, query_shape
from onceward.epoch.deeds import Deed
from onceward.epoch.ledger import PREPARED, SinkEntry
from onceward.epoch.outcome import Span, TopicPartition
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.sealed import seal
from onceward.errors import ConfigurationError, HomeMismatch, LedgerCorrupt, SavepointUnusable, SnapshotUnusable
from onceward.snapshot.creating import choose
from onceward.snapshot.cut import Channel, NoCut
from onceward.snapshot.histories import channels, observe, require_apart, require_named
from snapshot.homes import KAFKA, Joined, id_of, taken, two

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_home_tells_what_was_read_and_where_the_output_stands(tmp_path: Path) -> None:
    """D5."""
    first, second = (observe(it.home) for it in two(tmp_path))
    assert (first.name, first.reads, first.writes) == ("first", {"events": "id-of-events"}, {"t": "id-of-t"})
    assert [epoch.boundaries for epoch in first.history.epochs] == [{T0: 5, T1: 3}, {T0: 10, T1: 3}]
    assert [epoch.written for epoch in first.history.epochs] == [
        {T0: Span(0, 4), T1: Span(0, 2)},
        {T0: Span(5, 9)},
    ]
    assert [epoch.positions for epoch in second.history.epochs] == [{T0: 3, T1: 0}, {T0: 5, T1: 3}, {T0: 14, T1: 3}]
    assert channels([first, second]) == [Channel(topic="t", topic_id="id-of-t", producer="first", consumer="second")]


def test_two_sources_over_one_topic_are_told_by_the_slowest_and_the_quickest(tmp_path: Path) -> None:
    """D5."""
    made = Joined(tmp_path, "p").epoch(0, positions=['{"t":{"0":5}}', '{"t":{"0":9}}', '{"files":3}', "-"])
    (epoch,) = observe(made.home).history.epochs
    assert (epoch.positions, epoch.furthest) == ({T0: 5}, {T0: 9})


def test_an_epoch_counts_once_spark_has_noted_it_as_finished(tmp_path: Path) -> None:
    """D5: what it wrote is known before its state can be saved."""
    made = Joined(tmp_path, "p").epoch(0).epoch(1, writes={"t": {0: (0, 4)}}, is_finished=False)
    assert [(it.number, it.is_savable) for it in observe(made.home).history.epochs] == [(0, True), (1, False)]


def test_an_epoch_that_is_not_done_does_not_count(tmp_path: Path) -> None:
    """D5."""
    made = Joined(tmp_path, "p").epoch(0).epoch(1, phase=PREPARED)
    assert [it.number for it in observe(made.home).history.epochs] == [0]


def test_only_what_follows_the_last_gap_in_the_ledger_counts(tmp_path: Path) -> None:
    """D5: what an epoch that is missing wrote is not known."""
    made = Joined(tmp_path, "p").epoch(0).epoch(1).epoch(3).epoch(4)
    assert [it.number for it in observe(made.home).history.epochs] == [3, 4]
    assert observe(Joined(tmp_path, "new").home).history.epochs == []


class TestNotTold:
    """D5: an epoch of which nobody knows what it wrote says so, and is not taken for one that wrote nothing."""

    def test_after_a_kill_between_commit_and_entry_the_marker_tells_the_partitions(self, tmp_path: Path) -> None:
        part = SinkEntry(kind=KAFKA, rows=4, partitions=[("t", 0, 4, "ff")])
        (epoch,) = observe(Joined(tmp_path, "p").epoch(0, sinks={"out": part}).home).history.epochs
        assert (epoch.written, epoch.boundaries, epoch.is_told) == ({T0: None}, {}, True)

    def test_or_only_how_many_rows_there_were(self, tmp_path: Path) -> None:
        made = Joined(tmp_path, "p").epoch(0, sinks={"out": SinkEntry(kind=KAFKA, rows=4)})
        made.epoch(1, sinks={"out": SinkEntry(kind=KAFKA, rows=0)})
        assert [it.is_told for it in observe(made.home).history.epochs] == [False, True]

    def test_an_epoch_that_a_person_vouched_for(self, tmp_path: Path) -> None:
        """Of which only the positions are known."""
        (epoch,) = observe(Joined(tmp_path, "p").epoch(0, sinks={}).home).history.epochs
        assert not epoch.is_told

    def test_a_vote_without_offsets_tells_which_partitions(self, tmp_path: Path) -> None:
        vote = {"version": 1, "producer_id": 7, "producer_epoch": 1}
        part = SinkEntry(kind=KAFKA, rows=4, partitions=[("t", 0, 4, "ff")], committable=vote)
        (epoch,) = observe(Joined(tmp_path, "p").epoch(0, sinks={"out": part}).home).history.epochs
        assert (epoch.written, epoch.boundaries) == ({T0: None}, {})

    def test_where_the_ledger_decides_nothing_goes_to_kafka(self, tmp_path: Path) -> None:
        part = SinkEntry(kind="a:Files", rows=4)
        (epoch,) = observe(Joined(tmp_path, "p").epoch(0, decider=None, sinks={"out": part}).home).history.epochs
        assert (epoch.written, epoch.is_told) == ({}, True)


class TestWhatIsWrittenIsNotKnown:
    """D5: a topic that is left out takes what is on its way with it, so nobody guesses."""

    def test_right_after_a_restore(self, tmp_path: Path) -> None:
        """The ledger begins with an epoch of which it has the positions alone."""
        made = Joined(tmp_path, "p").epoch(0, decider=None, sinks={})
        with pytest.raises(NoCut, match="pipeline 'p' has not said yet which topics it writes"):
            choose([made.home])
        made.epoch(1)
        assert choose([made.home]).epochs["p"].number == 1

    def test_with_votes_of_an_older_release_alone(self, tmp_path: Path) -> None:
        part = SinkEntry(kind=KAFKA, rows=0, committable={"version": 1, "producer_id": 7, "producer_epoch": 1})
        with pytest.raises(NoCut, match="pipeline 'p' has not said yet which topics it writes"):
            choose([Joined(tmp_path, "p").epoch(0, sinks={"out": part}).home])

    def test_a_topic_that_is_known_by_its_name_alone(self, tmp_path: Path) -> None:
        """After a kill the marker names partitions, without their topic's id."""
        part = SinkEntry(kind=KAFKA, rows=4, partitions=[("other", 0, 4, "ff")])
        made = Joined(tmp_path, "p").epoch(0, writes={"t": {0: (0, 4)}}).epoch(1, sinks={"out": part})
        with pytest.raises(NoCut, match="pipeline 'p' has written topic 'other' and has not said which one that is"):
            choose([made.home])


class TestRefused:
    def test_two_homes_of_one_pipeline(self, tmp_path: Path) -> None:
        """D5."""
        first, _ = two(tmp_path)
        other, _ = two(tmp_path / "other")
        with pytest.raises(ConfigurationError, match="are both of pipeline 'first'"):
            taken(tmp_path, first, other)
        with pytest.raises(ConfigurationError, match="are both of pipeline 'first'"):
            taken(tmp_path, first, first)
        assert not list(tmp_path.glob(".snapshot*"))

    def test_no_home_at_all(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="name the homes"):
            taken(tmp_path)

    def test_two_writers_of_one_topic(self, tmp_path: Path) -> None:
        """D5: an offset could not tell whose records are whose."""
        one = Joined(tmp_path, "one").epoch(0, writes={"t": {0: (0, 4)}})
        other = Joined(tmp_path, "other").epoch(0, writes={"t": {0: (5, 9)}})
        with pytest.raises(SnapshotUnusable, match="'one' and 'other' both write topic 't'"):
            taken(tmp_path, one, other)

    @pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
    def test_a_weaker_guarantee(self, tmp_path: Path, guarantee: str) -> None:
        """D5."""
        made = Joined(tmp_path, "p", guarantee=guarantee).epoch(0)
        with pytest.raises(SnapshotUnusable, match=f"pipeline 'p' in .* promises {guarantee}"):
            taken(tmp_path, made)

    def test_a_home_in_memory(self, tmp_path: Path) -> None:
        """D5: there is nothing to restore it to."""
        made = Joined(tmp_path / "onceward-memory-123-abc", "p").epoch(0)
        with pytest.raises(SavepointUnusable, match="keeps its checkpoints in memory"):
            taken(tmp_path, made)

    def test_what_is_no_home(self, tmp_path: Path) -> None:
        made = Joined(tmp_path, "p")
        (made.path / "pipeline.json").unlink()
        with pytest.raises(HomeMismatch, match="is not the home of a pipeline"):
            taken(tmp_path, made)

    @pytest.mark.parametrize("name", ["../../escaped", "/escaped", ".hidden", "a/b", "", "\x1b[31m"])
    def test_a_home_whose_pipeline_has_a_name_that_there_cannot_be(self, tmp_path: Path, name: str) -> None:
        """J5: it would be a directory's name, and lead out of the snapshot."""
        made = Joined(tmp_path / "deep" / "er", "p").epoch(0, pipeline=name)
        made.home.storage.replace("pipeline.json", seal(msgspec.structs.replace(made.deed, pipeline=name)))
        with pytest.raises(LedgerCorrupt, match="is forged"):
            taken(tmp_path / "deep", made)
        assert not list(tmp_path.rglob("savepoint.json"))


def test_topics_of_one_name_in_two_clusters_are_two_topics(tmp_path: Path) -> None:
    """D5: they have different ids."""
    first = Joined(tmp_path, "first").epoch(0, writes={"t": {0: (0, 4)}})
    second = Joined(tmp_path, "second").reads_topics(t="another").epoch(0, reads={"t": {0: 99}})
    assert channels([observe(first.home), observe(second.home)]) == []
    require_apart([observe(first.home), observe(second.home)])


def test_a_reader_that_has_not_noted_ids_is_joined_by_the_name(tmp_path: Path) -> None:
    """D5: homes of older releases; too many channels are harmless, one too few loses records."""
    first = Joined(tmp_path, "first").epoch(0, writes={"t": {0: (0, 4)}})
    second = Joined(tmp_path, "second").epoch(0, reads={"t": {0: 3}})
    (found,) = channels([observe(first.home), observe(second.home)])
    assert found.topic_id == id_of("t")


def test_a_lineage_of_its_own_folder_is_read_there(tmp_path: Path) -> None:
    """D5: a pipeline that was restored."""
    made = Joined(tmp_path, "p").epoch(0, writes={"t": {0: (0, 4)}})
    made.deed = Deed(pipeline="p", lineage="new", guarantee="exactly-once", folder="lineages/2-new")
    made.lineage, made.folder = "new", "lineages/2-new"
    deeds.begin(made.home.storage, 1, made.deed)
    made.put("metadata", "{}")
    query_shape.write(made.notes, QueryShape())
    made.epoch(7, writes={"u": {0: (0, 4)}})
    found = observe(made.home)
    assert [it.number for it in found.history.epochs] == [7]
    assert found.deed.lineage == "new"


def test_a_topic_that_is_read_by_a_pattern_is_no_channel(tmp_path: Path) -> None:
    """D5: a reader that has not met the topic yet has no position in it, and what is there would be left out."""
    writer = Joined(tmp_path, "writer").epoch(0, reads={"in": {0: 1}}, writes={"mid-1": {0: (0, 3)}})
    reader = Joined(tmp_path, "reader").epoch(0, reads={"mid-0": {0: 5}}, writes={"out": {0: (0, 5)}})
    shape = QueryShape(sources=["kafka subscribepattern=^(?:mid-.*)$"])
    query_shape.write(reader.notes, shape)
    with pytest.raises(
        SnapshotUnusable, match=r"reads by the pattern .*, which fits topic 'mid-1' of pipeline 'writer'"
    ):
        require_named([observe(writer.home), observe(reader.home)])
    require_named([observe(reader.home)])


def test_a_home_that_has_lost_what_its_query_is_is_refused(tmp_path: Path) -> None:
    """D5, E9: whether it reads by a pattern cannot be told then, and what is on its way would be left out."""
    made = Joined(tmp_path, "p").epoch(0, writes={"t": {0: (0, 4)}})
    made.notes.remove(query_shape.FILE)
    with pytest.raises(SnapshotUnusable, match=r"has lost notes/query\.json"):
        observe(made.home)
