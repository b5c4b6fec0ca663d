"""A savepoint of a snapshot with other topics and positions: what a copy's pipeline begins with."""

import json
from pathlib import Path

import pytest

from onceward.epoch import query_shape
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.sealed import unseal
from onceward.errors import SnapshotDamaged
from onceward.kafka.copies import Copy
from onceward.savepoint.creating import create
from onceward.savepoint.manifest import Savepoint
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import verify
from onceward.snapshot.rewriting import rewrite
from savepoint.homes import now
from snapshot.homes import Joined

COPY = Copy("lab", frozenset({"clicks", "bills"}))
CONF = '{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{"spark.sql.shuffle.partitions":"2"}}'
OTHERS = '{"logOffset": 3}'  # of another source, with a space of its own
AT_9 = {TopicPartition("clicks", 0): {9: 0}}
UNTOUCHED = '{"events": {"0": 5}}'


def saved(folder: Path, epochs: dict[int, list[str]]) -> tuple[Place, Savepoint]:
    """A savepoint of the last of these epochs, each with its sources' lines."""
    made = Joined(folder, "p").reads_topics(clicks="id-of-clicks")
    shape = QueryShape(sources=["kafka subscribe=bills,clicks", "kafka subscribePattern=x", "rate"], operators=[])
    query_shape.write(made.notes, shape)
    for epoch, lines in epochs.items():
        plan = "\n".join(["v1", CONF, *lines])
        made.epoch(epoch, positions=lines, plan=plan)
        made.put(f"offsets/{epoch}", plan)
    made.put("sources/0/0", '0v1\n{"clicks":{"0":2,"1":0}}')
    made.put("sources/1/0", 'v1\n{"path":"file:///x","timestamp":7}\n')
    place = create(made.home, to=folder / "saved", now=now, sleep=lambda _: None)
    return place, verify(place)


def rewritten(
    folder: Path, epochs: dict[int, list[str]], positions: dict[TopicPartition, dict[int, int]]
) -> tuple[Path, Savepoint]:
    place, savepoint = saved(folder, epochs)
    made = rewrite(place, savepoint, folder / "copy", renamed=COPY.source, positions=positions)
    return Path(made.location), verify(made)


def lines_of(folder: Path, epoch: int) -> list[str]:
    return (folder / f"checkpoint/offsets/{epoch}").read_text().split("\n")


def test_it_reads_the_copys_topics_from_the_copys_positions(tmp_path: Path) -> None:
    """D5: and is a whole savepoint."""
    epochs = {6: ['{"clicks":{"0":3,"1":0}}'], 7: ['{"clicks":{"0":9,"1":4}}']}
    positions = {TopicPartition("clicks", 0): {9: 1, 12: 4}, TopicPartition("clicks", 1): {4: 0}}
    folder, found = rewritten(tmp_path, epochs, positions)
    assert lines_of(folder, 7) == ["v1", CONF, '{"lab-clicks":{"0":1,"1":0}}']
    assert found.entry.positions == ['{"lab-clicks":{"0":1,"1":0}}']
    assert found.entry.plan == (folder / "checkpoint/offsets/7").read_text()
    assert (found.epoch, found.pipeline) == (7, "p")


def test_what_was_before_begins_with_the_copys_topic(tmp_path: Path) -> None:
    """D5: Spark wants the plan before the last one, and a source its first position; neither is read from again."""
    epochs = {6: ['{"clicks":{"0":3,"1":0}}'], 7: ['{"clicks":{"0":9,"1":4}}']}
    positions = {TopicPartition("clicks", 0): {9: 1, 12: 4}, TopicPartition("clicks", 1): {4: 0}}
    folder, _ = rewritten(tmp_path, epochs, positions)
    assert lines_of(folder, 6) == ["v1", CONF, '{"lab-clicks":{"0":1,"1":0}}']
    assert (folder / "checkpoint/sources/0/0").read_text() == '0v1\n{"lab-clicks":{"0":1,"1":0}}'


def test_several_topics_of_which_some_are_the_originals(tmp_path: Path) -> None:
    """D5: what nobody in the snapshot writes is read on where the original reads it."""
    epochs = {0: ['{"clicks":{"0":9},"events":{"0":77},"bills":{"0":3}}']}
    positions = {TopicPartition("clicks", 0): {9: 1}, TopicPartition("bills", 0): {3: 2}}
    folder, _ = rewritten(tmp_path, epochs, positions)
    assert json.loads(lines_of(folder, 0)[2]) == {"lab-clicks": {"0": 1}, "events": {"0": 77}, "lab-bills": {"0": 2}}


def test_two_sources_at_different_positions_of_one_topic(tmp_path: Path) -> None:
    """D5: each goes on where it was."""
    epochs = {0: ['{"clicks":{"0":9}}', '{"clicks":{"0":12}}']}
    folder, found = rewritten(tmp_path, epochs, {TopicPartition("clicks", 0): {9: 1, 12: 4}})
    assert lines_of(folder, 0)[2:] == ['{"lab-clicks":{"0":1}}', '{"lab-clicks":{"0":4}}']
    assert found.entry.positions == lines_of(folder, 0)[2:]


@pytest.mark.parametrize("positions", [{}, {TopicPartition("clicks", 0): {8: 0}}], ids=["partition", "position"])
def test_a_position_of_which_nothing_is_known_is_not_guessed(
    tmp_path: Path, positions: dict[TopicPartition, dict[int, int]]
) -> None:
    """D5: a copy that begins elsewhere would lose or repeat records."""
    with pytest.raises(SnapshotDamaged, match="where clicks-0 at 9 is in the copy's topic is not known"):
        rewritten(tmp_path, {0: ['{"clicks":{"0":9}}']}, positions)


@pytest.mark.parametrize(
    "line",
    [
        OTHERS,
        UNTOUCHED,
        "-",
        "17",
        "null",
        '{"clicks":{"zero":1}}',
        '{"clicks":{"0":"1"}}',
        '{"clicks":{"0":true}}',
        '{"clicks":[1, 2]}',
        "{}",
        '{"shards": {}}',
        '{"café": {"0": 1}}',
    ],
)
def test_lines_that_are_no_offsets_of_the_copys_topics_stay_byte_for_byte(tmp_path: Path, line: str) -> None:
    """D5: other sources write what they like."""
    folder, found = rewritten(tmp_path, {0: [line, '{"clicks":{"0":9}}']}, {TopicPartition("clicks", 0): {9: 1}})
    assert lines_of(folder, 0)[2:] == [line, '{"lab-clicks":{"0":1}}']
    assert found.entry.positions == [line, '{"lab-clicks":{"0":1}}']


def test_other_files_stay_byte_for_byte(tmp_path: Path) -> None:
    """D5."""
    place, before = saved(tmp_path, {0: ['{"clicks":{"0":9}}']})
    rewrite(place, before, tmp_path / "copy", renamed=COPY.source, positions=AT_9)
    after = verify(Place.at(tmp_path / "copy"))
    changed = {name for name, facts in after.files.items() if facts != before.files[name]}
    assert changed == {"checkpoint/offsets/0", "checkpoint/sources/0/0", "checkpoint/notes/query.json"}
    assert before.files.keys() - after.files.keys() == {"checkpoint/notes/sources.json"}


def test_the_original_is_not_touched_and_the_other_has_an_id_of_its_own(tmp_path: Path) -> None:
    """D5."""
    place, before = saved(tmp_path, {0: ['{"clicks":{"0":9}}']})
    rewrite(place, before, tmp_path / "copy", renamed=COPY.source, positions=AT_9)
    assert verify(place) == before
    assert verify(Place.at(tmp_path / "copy")).id != before.id


def test_the_querys_shape_names_the_copys_topics(tmp_path: Path) -> None:
    """D5: a start compares it with the query, which reads them."""
    folder, found = rewritten(tmp_path, {0: ['{"clicks":{"0":9}}']}, AT_9)
    assert found.shape is not None
    assert found.shape.sources == ["kafka subscribe=lab-bills,lab-clicks", "kafka subscribePattern=x", "rate"]
    assert unseal((folder / "checkpoint/notes/query.json").read_bytes(), QueryShape, "it", 99) == found.shape
