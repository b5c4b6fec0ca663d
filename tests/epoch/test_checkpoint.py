"""Spark's checkpoint of a home: a folder for each term, and what a power cut may have done to its logs."""

from pathlib import Path

import pytest

from epoch.memory import Memory
from onceward.epoch.checkpoint import Checkpoint, TornEntry
from onceward.epoch.home import Home
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.storage import LocalStorage
from onceward.errors import HomeMismatch, PipelineFenced

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)


def plan(*ends: int) -> bytes:
    places = ",".join(f'"{place}":{end}' for place, end in enumerate(ends))
    return f'v1\n{{"batchWatermarkMs":0}}\n{{"in":{{{places}}}}}'.encode()


def home_of(storage: Memory | LocalStorage) -> Home:
    return Home(storage, "home", "file:///home")


@pytest.fixture
def storage() -> Memory:
    return Memory()


class TestAFolderForEachTerm:
    def test_a_first_start_has_an_empty_one_of_its_own(self, storage: Memory) -> None:
        checkpoint = Checkpoint.adopt(home_of(storage), 1)
        assert checkpoint.location == "file:///home/checkpoints/000001"
        assert checkpoint.planned() is None

    def test_a_start_takes_its_predecessors_along_and_the_old_path_is_gone(self, storage: Memory) -> None:
        """Trap 22: what an overtaken driver still writes, it writes where nobody reads."""
        storage.files["checkpoints/000001/offsets/0"] = plan(5)
        assert Checkpoint.adopt(home_of(storage), 2).planned() == 0
        storage.files["checkpoints/000001/offsets/0"] = plan(3)  # the overtaken driver wakes inside its rename
        assert Checkpoint.adopt(home_of(storage), 3).positions(0).kafka == {IN_0: 5}
        assert Checkpoint.newest(home_of(storage)).positions(0).kafka == {IN_0: 5}

    def test_a_start_that_was_paused_before_it_began_does_not_take_it_back(self, storage: Memory) -> None:
        storage.files["checkpoints/000005/offsets/0"] = plan(5)
        with pytest.raises(PipelineFenced, match=r"checkpoints/000005 was taken by a newer driver.*term 4"):
            Checkpoint.adopt(home_of(storage), 4)
        assert storage.names("checkpoints") == ["000005"]

    def test_a_start_that_another_one_outruns_looks_again(self) -> None:
        class Outrun(Memory):
            def move(self, folder: str, to: str) -> bool:
                if folder.endswith("000001"):  # term 2 was quicker, between our look and our rename
                    super().move(folder, "checkpoints/000002")
                    return False
                return super().move(folder, to)

        quick = Outrun()
        quick.files["checkpoints/000001/offsets/0"] = plan(5)
        assert Checkpoint.adopt(home_of(quick), 3).planned() == 0
        assert quick.names("checkpoints") == ["000003"]

    def test_on_a_real_disk_it_is_one_rename(self, tmp_path: Path) -> None:
        offsets = tmp_path / "checkpoints" / "000001" / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_bytes(plan(5))
        inode = (offsets / "0").stat().st_ino
        checkpoint = Checkpoint.adopt(Home.at(tmp_path), 2)
        assert (tmp_path / checkpoint.folder / "offsets" / "0").stat().st_ino == inode
        assert not (tmp_path / "checkpoints" / "000001").exists()


class TestWhatAPowerCutLeaves:
    """Spark closes its files and syncs none."""

    @pytest.fixture
    def checkpoint(self, storage: Memory) -> Checkpoint:
        for epoch in (0, 1):
            storage.files[f"checkpoints/000001/offsets/{epoch}"] = plan(epoch + 1)
            storage.files[f"checkpoints/000001/commits/{epoch}"] = b"v1\n{}"
        storage.files["checkpoints/000001/metadata"] = b'{"id":"q"}'
        return Checkpoint.adopt(home_of(storage), 1)

    @pytest.mark.parametrize("data", [b"", b"v1", b"v1\n{}", b'v1\n{}\n{"in":{"0":', b"\0" * 40])
    def test_a_torn_plan_is_told_from_a_whole_one(self, storage: Memory, checkpoint: Checkpoint, data: bytes) -> None:
        storage.files["checkpoints/000001/offsets/1"] = data
        with pytest.raises(TornEntry, match=rf"offsets/1 is empty or cut short \({len(data)} bytes\)"):
            checkpoint.read(1)
        with pytest.raises(HomeMismatch, match=r"Spark runs epoch 1, but .*offsets/1 is empty or cut short"):
            checkpoint.positions(1)

    def test_a_source_without_an_offset_is_whole(self, storage: Memory, checkpoint: Checkpoint) -> None:
        storage.files["checkpoints/000001/offsets/1"] = b'v1\n{}\n-\n{"in":{"0":4}}'
        assert checkpoint.positions(1).texts == ["-", '{"in":{"0":4}}']

    @pytest.mark.parametrize("data", [b"", b"v1", b'v1\n{"nextBatch'])
    def test_a_torn_commit_is_taken_away_so_that_its_epoch_is_replayed(
        self, storage: Memory, checkpoint: Checkpoint, data: bytes
    ) -> None:
        storage.files["checkpoints/000001/commits/1"] = data
        assert checkpoint.clear_torn(1) == [
            "Spark's commit log entry of epoch 1 was torn: taken away, the epoch is replayed"
        ]
        assert checkpoint.last_finished() == 0
        assert checkpoint.clear_torn(1) == []

    def test_a_torn_query_id_is_taken_away_only_before_anything_is_committed(
        self, storage: Memory, checkpoint: Checkpoint
    ) -> None:
        storage.files["checkpoints/000001/metadata"] = b'{"id'
        assert checkpoint.clear_torn(0) == []
        assert storage.files["checkpoints/000001/metadata"] == b'{"id'
        assert "metadata was torn" in checkpoint.clear_torn(-1)[0]
        assert "checkpoints/000001/metadata" not in storage.files


def test_a_checkpoint_that_is_newer_than_the_ledger_is_refused(storage: Memory) -> None:
    """Half of a home restored: Spark would go on after epochs that nobody has committed."""
    storage.files |= {
        "checkpoints/000001/metadata": b'{"id":"q"}',
        "checkpoints/000001/offsets/0": plan(1),
        "checkpoints/000001/offsets/1": plan(2),
        "checkpoints/000001/commits/1": b"v1\n{}",
    }
    checkpoint = Checkpoint.adopt(home_of(storage), 1)
    checkpoint.require_intact(1)
    with pytest.raises(HomeMismatch, match=r"has epoch 1 as finished.*only up to epoch 0.*lose the epochs between"):
        checkpoint.require_intact(0)


class TestWhatIsMissing:
    @pytest.fixture
    def checkpoint(self, storage: Memory) -> Checkpoint:
        storage.files |= {
            "checkpoints/000001/metadata": b'{"id":"q"}',
            "checkpoints/000001/offsets/0": plan(1),
            "checkpoints/000001/commits/0": b"v1\n{}",
        }
        return Checkpoint.adopt(home_of(storage), 1)

    def test_a_plan_of_an_epoch_that_spark_runs_is_named(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.read(1) is None
        with pytest.raises(HomeMismatch, match=r"Spark runs epoch 1, but .*checkpoints/000001/offsets/1 is not there"):
            checkpoint.positions(1)

    def test_the_querys_id_is_named_once_anything_is_committed(self, storage: Memory, checkpoint: Checkpoint) -> None:
        """Trap 7: Spark would take the query for a new one."""
        del storage.files["checkpoints/000001/metadata"]
        with pytest.raises(HomeMismatch, match=r"has lost its file 'metadata'.*backup"):
            checkpoint.require_intact(0)
        del storage.files["checkpoints/000001/commits/0"]
        checkpoint.require_intact(-1)  # nothing was: a new query does no harm

    def test_a_checkpoint_behind_what_is_committed_is_refused(self, checkpoint: Checkpoint) -> None:
        for said in ("ends at epoch 0", "is empty"):
            with pytest.raises(HomeMismatch, match=rf"epoch 1 is committed, but .*{said}: deleted, or an old copy"):
                checkpoint.require_intact(1)
            checkpoint.discard(0)

    def test_what_spark_has_finished_is_told_epoch_by_epoch(self, checkpoint: Checkpoint) -> None:
        assert (checkpoint.finished(0), checkpoint.finished(1)) == (True, False)


def test_the_next_epoch_is_the_one_after_what_is_planned_and_finished(storage: Memory) -> None:
    """A5: an epoch that another driver began is put in its place only there."""
    checkpoint = Checkpoint.adopt(home_of(storage), 1)

    def nexts() -> list[int]:
        return [epoch for epoch in range(4) if checkpoint.is_next(epoch)]

    assert nexts() == [0]
    storage.files[f"{checkpoint.folder}/offsets/0"] = plan(10)
    assert nexts() == []
    storage.files[f"{checkpoint.folder}/commits/0"] = b"v1\n{}"
    assert nexts() == [1]
    storage.files[f"{checkpoint.folder}/offsets/1"] = plan(12)
    assert nexts() == []


class TestHowMuchAnEpochReads:
    """It decides how the epoch is written."""

    @pytest.fixture
    def checkpoint(self, storage: Memory) -> Checkpoint:
        storage.files |= {
            "checkpoints/000001/offsets/0": plan(10, 20),
            "checkpoints/000001/offsets/1": plan(15, 40),
            "checkpoints/000001/sources/0/0": b'v1\n{"in":{"0":4,"1":0}}',
        }
        return Checkpoint.adopt(home_of(storage), 1)

    def test_is_counted_from_the_epoch_before(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.input_rows(1, checkpoint.positions(1)) == 25

    def test_of_the_first_is_counted_from_where_each_source_began(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.initial() == {IN_0: 4, IN_1: 0}
        assert checkpoint.input_rows(0, checkpoint.positions(0)) == 26

    def test_is_known_for_each_source_by_itself(self, checkpoint: Checkpoint, storage: Memory) -> None:
        """Two sources over one topic may begin at different places; one of another kind has none that we know."""
        assert checkpoint.begins_of_sources(0) == [{IN_0: 4, IN_1: 0}]
        assert checkpoint.begins_of_sources(1) == [{IN_0: 10, IN_1: 20}]
        storage.files["checkpoints/000001/offsets/0"] = plan(10, 20) + b'\n{"in":{"0":7}}\n-\n{"logOffset":3}'
        storage.files["checkpoints/000001/sources/2/0"] = b'v1\n{"in":{"0":9}}'
        assert checkpoint.begins_of_sources(1) == [{IN_0: 10, IN_1: 20}, {IN_0: 7}, {IN_0: 9}, {}]

    def test_is_not_known_without_the_epoch_before(self, checkpoint: Checkpoint) -> None:
        end = checkpoint.positions(1)
        checkpoint.discard(0)
        assert checkpoint.input_rows(1, end) is None

    @pytest.mark.parametrize(
        "sources",
        [
            pytest.param("17", id="a number"),
            pytest.param('{"path":"a"}', id="no partitions"),
            pytest.param('{"in":{"first":1}}', id="no partition numbers"),
            pytest.param('[{"in":{"0":1}}]', id="a list"),
            pytest.param("-", id="nothing yet"),
            pytest.param('{"in":{"0":1}}\n17', id="one of two"),
            pytest.param('{"in":{"0":1}}\n{"in":{"0":2}}', id="one topic twice"),
        ],
    )
    def test_is_not_known_where_a_source_is_no_kafka_or_two_read_one_topic(
        self, storage: Memory, checkpoint: Checkpoint, sources: str
    ) -> None:
        storage.files["checkpoints/000001/offsets/1"] = f"v1\n{{}}\n{sources}".encode()
        assert checkpoint.input_rows(1, checkpoint.positions(1)) is None


@pytest.mark.parametrize(
    ("second_line", "settings"),
    [
        ('{"conf":{"spark.sql.shuffle.partitions":"3"}}', {"spark.sql.shuffle.partitions": "3"}),
        ('{"batchWatermarkMs":0}', {}),
        ('{"conf":7}', {}),
        ("torn", {}),
    ],
)
def test_the_engines_settings_are_those_of_the_plan(
    storage: Memory, second_line: str, settings: dict[str, str]
) -> None:
    """E2: a plan that has none, or that is torn, says nothing; what is wrong with it is told elsewhere."""
    checkpoint = Checkpoint(storage, "checkpoints/000001", "here")
    assert checkpoint.settings(0) == {}
    storage.files["checkpoints/000001/offsets/0"] = f"v1\n{second_line}\n-".encode()
    assert checkpoint.settings(0) == settings


def test_topics_are_those_of_the_newest_plan_and_before_it_those_that_sources_began_with() -> None:
    """I3: also while the plan is torn, which the start puts right."""
    storage = Memory()
    checkpoint = Checkpoint(storage, "checkpoints/000001", "here")
    assert checkpoint.topics() == frozenset()
    checkpoint.begin_at(0, {TopicPartition("first", 0): 3})
    assert checkpoint.topics() == {"first"}
    storage.files["checkpoints/000001/offsets/0"] = b'v1\n{}\n{"then":{"0":4}}\n{"other":{"1":4}}'
    assert checkpoint.topics() == {"then", "other"}
    storage.files["checkpoints/000001/offsets/0"] = b""
    assert checkpoint.topics() == {"first"}
