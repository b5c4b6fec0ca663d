"""The marker's text: what fits, what counts, what is passed over."""

import json

import pytest

from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.errors import HomeMismatch
from onceward.kafka.marker import MAX_BYTES, Marker, newest, of


def outcome(partitions: int, topic: str = "out") -> Outcome:
    return Outcome.of((TopicPartition(topic, n), PartitionOutcome(n, 2**64 - 1 - n)) for n in range(partitions))


def full(epoch: int, *, term: int = 1, lineage: str = "L", partitions: int = 2) -> str:
    return of(lineage=lineage, epoch=epoch, term=term, outcome=outcome(partitions))[0]


def short(epoch: int, *, term: int = 1) -> str:
    return of(lineage="L", epoch=epoch, term=term, outcome=outcome(2))[1]


@pytest.mark.parametrize("partitions", [0, 1, 2, 64])
def test_a_marker_is_read_as_it_was_written(partitions: int) -> None:
    found = newest([full(5, term=3, partitions=partitions)])
    assert found is not None
    assert (found.lineage, found.epoch, found.term) == ("L", 5, 3)
    assert found.outcome == outcome(partitions)


@pytest.mark.parametrize(("partitions", "topic"), [(200, "out"), (4000, "out"), (40, "größe" * 20)])
def test_details_that_do_not_fit_are_dropped_and_the_sum_is_kept(partitions: int, topic: str) -> None:
    """Kafka takes 4096 bytes of metadata (offset.metadata.max.bytes)."""
    whole = outcome(partitions, topic)
    text, brief = of(lineage="f" * 32, epoch=10**12, term=999_999, outcome=whole)
    assert len(text.encode()) <= MAX_BYTES
    assert len(brief.encode()) <= MAX_BYTES
    found = newest([text])
    assert found is not None
    assert found.partitions is None
    assert (found.outcome.rows, found.outcome.digest) == (whole.rows, whole.digest)
    assert found.outcome.differences(whole) == []


def test_as_many_partitions_as_fit_are_kept() -> None:
    sizes = [len(full(5, partitions=n).encode()) for n in range(200)]
    assert max(sizes) <= MAX_BYTES
    assert max(sizes) > MAX_BYTES - 60


@pytest.mark.parametrize(
    "text",
    ["", "x", "{", "[]", "null", "7", '"text"', "{}", '{"epoch":9}', '{"format":1,"lineage":"L","epoch":"9","term":1}'],
)
def test_metadata_that_is_not_ours_is_passed_over(text: str) -> None:
    assert newest([text]) is None
    found = newest([text, full(5), text])
    assert found is not None
    assert found.epoch == 5


def test_no_text_is_no_marker() -> None:
    assert newest([]) is None


def test_the_newest_epoch_wins_then_the_newest_term_then_the_one_with_details() -> None:
    """Positions of partitions that an epoch did not read keep the marker of an older one."""
    texts = [full(4, term=9), short(5, term=1), full(5, term=2), short(5, term=2)]
    for order in (texts, texts[::-1], [*texts[2:], *texts[:2]]):
        found = newest(order)
        assert found is not None
        assert (found.epoch, found.term, found.outcome) == (5, 2, outcome(2))


def test_an_epoch_that_put_nothing_out_still_has_a_full_marker() -> None:
    text, brief = of(lineage="L", epoch=5, term=1, outcome=Outcome())
    found = newest([brief, text])
    assert found is not None
    assert found.digest == "0"
    assert found.outcome == Outcome()


def test_every_marker_says_its_format() -> None:
    """A later format must be able to tell this one apart."""
    assert json.loads(full(5))["format"] == 1
    assert json.loads(short(5))["format"] == 1


@pytest.mark.parametrize("extra", [{}, {"term": "changed", "rows": [1]}])
def test_a_marker_of_a_newer_format_is_refused_not_passed_over(extra: dict[str, object]) -> None:
    """Passed over, everything would be put out again."""
    newer = json.dumps({"format": 2, "lineage": "L", "epoch": 9, "term": 1, **extra})
    with pytest.raises(HomeMismatch, match=r"epoch 9 has format 2.*newer Onceward.*up to 1"):
        newest([full(5), newer])


def test_a_marker_without_details_has_only_a_sum() -> None:
    assert Marker(format=1, lineage="L", epoch=1, term=1).outcome == Outcome()
