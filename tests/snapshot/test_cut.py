"""The newest consistent cut, by hand: which epochs, what is on its way, and who is in the way of a cut."""

import pytest

from onceward.epoch.outcome import Span, TopicPartition
from onceward.snapshot.cut import Channel, Epoch, History, NoCut, Range, consistent_cut, on_its_way, too_far

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


def channel(producer: str, consumer: str, topic: str = "t") -> Channel:
    return Channel(topic=topic, topic_id=f"id-of-{topic}", producer=producer, consumer=consumer)


def writes(number: int, first: int, end: int, place: TopicPartition = T0) -> Epoch:
    """Records and the end marker of their transaction."""
    return Epoch(number=number, boundaries={place: end + 1}, written={place: Span(first, end)})


def reads(number: int, upto: int, place: TopicPartition = T0, *, is_savable: bool = True) -> Epoch:
    return Epoch(number=number, positions={place: upto}, is_savable=is_savable)


def both(number: int, upto: int, first: int, end: int) -> Epoch:
    """Reads u and writes t."""
    return Epoch(number=number, positions={U0: upto}, boundaries={T0: end + 1}, written={T0: Span(first, end)})


def histories(**epochs: list[Epoch]) -> dict[str, History]:
    return {name: History(pipeline=name, epochs=found) for name, found in epochs.items()}


def numbers(cut: dict[str, Epoch]) -> dict[str, int]:
    return {name: epoch.number for name, epoch in cut.items()}


def test_pipelines_that_no_topic_joins_are_saved_at_their_newest_epochs() -> None:
    """D5."""
    found = histories(a=[writes(0, 0, 5), writes(1, 6, 9)], b=[reads(7, 3)])
    assert numbers(consistent_cut(found, [])) == {"a": 1, "b": 7}


def test_a_consumer_goes_back_to_where_it_had_read_nothing_of_a_later_epoch() -> None:
    """D5."""
    found = histories(a=[writes(0, 0, 5)], b=[reads(0, 3), reads(1, 6), reads(2, 7)])
    assert numbers(consistent_cut(found, [channel("a", "b")])) == {"a": 0, "b": 1}


def test_a_reader_behind_the_end_marker_has_not_read_too_far() -> None:
    """D5: a committed transaction takes one offset more than its records."""
    (epoch,) = (writes(0, 0, 5),)
    producer = History(pipeline="a", epochs=[epoch])
    assert too_far(channel("a", "b"), producer, epoch, reads(0, 6)) is None
    assert too_far(channel("a", "b"), producer, epoch, reads(0, 7)) == T0


def test_who_has_not_read_a_partition_has_not_read_too_far() -> None:
    """Nothing was written to it yet, so there is nothing before offset 0 either."""
    epoch = Epoch(number=0, boundaries={T0: 0})
    producer = History(pipeline="a", epochs=[epoch])
    assert Epoch(number=0).read_up_to(T0) == 0
    assert too_far(channel("a", "b"), producer, epoch, Epoch(number=0)) is None
    assert too_far(channel("a", "b"), producer, epoch, reads(0, 1)) == T0


def test_going_back_is_handed_on_along_a_chain() -> None:
    """D5: whoever goes back has written less, so its readers go back too."""
    middle = [both(0, 2, 0, 5), both(1, 6, 6, 9), both(2, 12, 10, 15)]
    found = histories(a=[writes(0, 0, 5, U0)], b=middle, c=[reads(0, 4), reads(1, 10), reads(2, 16)])
    joined = [channel("b", "c"), channel("a", "b", "u")]
    assert numbers(consistent_cut(found, joined)) == {"a": 0, "b": 1, "c": 1}


def test_in_a_cycle_going_back_ends() -> None:
    """D5: each waits for what the other wrote; the cut is where neither has read the other's later records."""
    a = [both(0, 0, 0, 2), both(1, 3, 3, 5), both(2, 9, 6, 8)]  # reads u, writes t
    b = [
        Epoch(number=0, positions={T0: 0}, boundaries={U0: 3}, written={U0: Span(0, 2)}),
        Epoch(number=1, positions={T0: 3}, boundaries={U0: 6}, written={U0: Span(3, 5)}),
    ]
    joined = [channel("a", "b", "t"), channel("b", "a", "u")]
    cut = consistent_cut(histories(a=a, b=b), joined)
    assert numbers(cut) == {"a": 1, "b": 1}
    states = {
        it.topic: on_its_way(it, histories(a=a, b=b)[it.producer], cut[it.producer], cut[it.consumer]) for it in joined
    }
    assert states == {"t": [Range(partition=0, start=3, end=6)], "u": [Range(partition=0, start=3, end=6)]}


def test_a_pipeline_that_reads_its_own_output_goes_back_alone() -> None:
    """D5: it has read what its next epoch, which is not recorded yet, has written."""
    own = [
        Epoch(number=0, positions={T0: 0}, boundaries={T0: 3}, written={T0: Span(0, 2)}),
        Epoch(number=1, positions={T0: 3}, boundaries={T0: 6}, written={T0: Span(3, 5)}),
        Epoch(number=2, positions={T0: 8}, boundaries={T0: 6}),
    ]
    assert numbers(consistent_cut(histories(a=own), [channel("a", "a")])) == {"a": 1}


def test_several_consumers_of_a_topic_are_each_at_a_place_of_their_own() -> None:
    """D5."""
    found = histories(a=[writes(0, 0, 5)], b=[reads(0, 2)], c=[reads(0, 6), reads(1, 9)])
    joined = [channel("a", "b"), channel("a", "c")]
    cut = consistent_cut(found, joined)
    assert numbers(cut) == {"a": 0, "b": 0, "c": 0}
    states = [on_its_way(it, found["a"], cut["a"], cut[it.consumer]) for it in joined]
    assert states == [[Range(partition=0, start=2, end=6)], [Range(partition=0, start=6, end=6)]]


def test_what_an_idle_producer_has_said_before_still_counts() -> None:
    """D5: an epoch without output in a partition leaves its boundary where it was."""
    idle = [writes(0, 0, 5), Epoch(number=1, boundaries={T0: 6}), Epoch(number=2, boundaries={T0: 6})]
    found = histories(a=idle, b=[reads(0, 4), reads(1, 6)])
    assert numbers(consistent_cut(found, [channel("a", "b")])) == {"a": 2, "b": 1}


def test_a_start_after_an_aborted_try_tells_of_the_offsets_it_has_taken() -> None:
    """D5: a reader stands behind what was aborted, and has read nothing of it."""
    restarted = [writes(0, 0, 5), Epoch(number=1, boundaries={T0: 12})]
    found = histories(a=restarted, b=[reads(0, 6), reads(1, 12)])
    assert numbers(consistent_cut(found, [channel("a", "b")])) == {"a": 1, "b": 1}
    assert found["a"].boundary(0, T0) == 12


def test_records_of_others_in_the_topic_do_not_hold_a_consumer_back_once_the_producer_writes_again() -> None:
    """D5: any offset up to the producer's next record will do. The least leaves the others' records out."""
    a = [writes(0, 0, 5), writes(1, 20, 25)]
    a[1] = Epoch(number=1, boundaries=a[1].boundaries, written=a[1].written, is_savable=False)
    found = histories(a=a, b=[reads(0, 3), reads(1, 20), reads(2, 26)])
    cut = consistent_cut(found, [channel("a", "b")])
    assert numbers(cut) == {"a": 0, "b": 1}
    assert on_its_way(channel("a", "b"), found["a"], cut["a"], cut["b"]) == [Range(partition=0, start=20, end=20)]
    assert on_its_way(channel("a", "b"), found["a"], cut["a"], reads(0, 3)) == [Range(partition=0, start=3, end=6)]


def test_the_quickest_of_two_sources_counts_for_the_cut_and_the_slowest_for_what_is_on_its_way() -> None:
    """D5."""
    two = Epoch(number=0, positions={T0: 2}, furthest={T0: 5})
    found = histories(a=[writes(0, 0, 4)], b=[two])
    cut = consistent_cut(found, [channel("a", "b")])
    assert on_its_way(channel("a", "b"), found["a"], cut["a"], cut["b"]) == [Range(partition=0, start=2, end=5)]
    ahead = Epoch(number=1, positions={T0: 2}, furthest={T0: 6})
    assert too_far(channel("a", "b"), found["a"], cut["a"], ahead) == T0


def test_a_partition_that_the_consumer_does_not_know_yet_is_on_its_way_as_a_whole() -> None:
    """D5: it is new, and its records are not lost."""
    wider = Epoch(
        number=1,
        boundaries={T0: 6, TopicPartition("t", 1): 4},
        written={TopicPartition("t", 1): Span(0, 3)},
    )
    found = histories(a=[writes(0, 0, 5), wider], b=[reads(0, 6)])
    cut = consistent_cut(found, [channel("a", "b")])
    assert on_its_way(channel("a", "b"), found["a"], cut["a"], cut["b"]) == [
        Range(partition=0, start=6, end=6),
        Range(partition=1, start=0, end=4),
    ]


class TestWhatIsNotKnown:
    """D5: a boundary that is too low would cut records off, one that is too high would count them twice."""

    def test_an_epoch_whose_boundary_nobody_knows_is_passed_over(self) -> None:
        found = histories(a=[writes(0, 0, 5), Epoch(number=1, written={T0: None})], b=[reads(0, 6), reads(1, 12)])
        assert numbers(consistent_cut(found, [channel("a", "b")])) == {"a": 0, "b": 0}

    def test_what_the_next_epoch_tells_makes_it_known(self) -> None:
        found = histories(
            a=[writes(0, 0, 5), Epoch(number=1, written={T0: None}), writes(2, 12, 15)], b=[reads(0, 6), reads(1, 12)]
        )
        assert found["a"].boundary(1, T0) == 12
        assert found["a"].boundary(0, T0) == 6
        assert numbers(consistent_cut(found, [channel("a", "b")])) == {"a": 2, "b": 1}

    def test_an_epoch_of_which_nothing_is_told_may_have_written_anywhere(self) -> None:
        """What comes after it says nothing about the epochs before it."""
        untold = Epoch(number=1, is_told=False)
        history = History(pipeline="a", epochs=[writes(0, 0, 5), untold, Epoch(number=2, boundaries={T0: 12})])
        assert history.boundary(0, T0) == 6
        assert history.boundary(1, T0) == 12

    def test_no_boundary_at_all_is_no_cut_and_names_the_producer(self) -> None:
        found = histories(a=[Epoch(number=3, written={T0: None})], b=[reads(0, 6)])
        with pytest.raises(NoCut, match=r"pipeline 'a' does not say where its output in t-0 stood after epoch 3"):
            consistent_cut(found, [channel("a", "b")])

    def test_a_partition_of_which_the_producer_has_never_spoken_is_no_cut(self) -> None:
        """It has more partitions than its producer knows: the next epoch asks."""
        found = histories(a=[writes(0, 0, 5)], b=[reads(4, 0, TopicPartition("t", 1))])
        with pytest.raises(NoCut, match=r"pipeline 'a' does not say where its output in t-1 stood after epoch 0"):
            consistent_cut(found, [channel("a", "b")])


class TestNoCut:
    def test_names_the_pipeline_without_an_epoch(self) -> None:
        """D5."""
        with pytest.raises(NoCut, match="pipeline 'b' has no epoch yet"):
            consistent_cut(histories(a=[writes(0, 0, 5)], b=[]), [channel("a", "b")])
        with pytest.raises(NoCut, match="pipeline 'b' has no epoch yet"):
            consistent_cut(histories(a=[writes(0, 0, 5)], b=[reads(0, 0, is_savable=False)]), [channel("a", "b")])

    def test_names_who_has_read_too_far_and_whose_records(self) -> None:
        """D5: the producer was killed before it could note its last epoch, and its reader has gone on for long."""
        found = histories(a=[writes(6, 0, 5)], b=[reads(0, 3, is_savable=False), reads(1, 9), reads(2, 12)])
        with pytest.raises(NoCut) as told:
            consistent_cut(found, [channel("a", "b")])
        assert str(told.value) == (
            "pipeline 'b' has read t-0 up to 9 in every epoch that can still be saved, or further, and pipeline 'a' "
            "had written it up to 6 after epoch 6, the newest of its epochs that can be saved"
        )

    def test_names_the_quickest_source_of_a_consumer(self) -> None:
        """D5: its other sources are behind, and would look as if nothing were wrong."""
        found = histories(a=[writes(6, 0, 5)], b=[Epoch(number=1, positions={T0: 2}, furthest={T0: 9})])
        with pytest.raises(NoCut, match="read t-0 up to 9 in every epoch"):
            consistent_cut(found, [channel("a", "b")])
