"""The first of everything: epoch 0, offset 0, and the -1 that says "none yet". Neither is nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from epoch.memory import Memory
from epoch.started import ListDecider, ListSink, Pipeline, Place
from epoch.test_checkpoint import IN_0, IN_1, home_of, plan
from epoch.test_recovery import MARKED, entry, known, last
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.contract import EpochContext, LastCommit
from onceward.epoch.expected import DECIDER, NEVER
from onceward.epoch.ledger import DECIDED, PREPARED, Ledger
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.recovery import Recovered, by_ledger, by_marker, check_marker
from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import starts
from onceward.errors import HomeMismatch, LedgerCorrupt, MarkerMissing, RowsDropped


class TestACheckpoint:
    """Spark's own, of which epoch 0 may be all that there is."""

    @pytest.fixture
    def storage(self) -> Memory:
        made = Memory()
        made.files["checkpoints/000001/metadata"] = b'{"id":"q"}'
        made.files["checkpoints/000001/offsets/0"] = plan(4, 0)
        return made

    @pytest.fixture
    def checkpoint(self, storage: Memory) -> Checkpoint:
        return Checkpoint.adopt(home_of(storage), 1)

    def test_that_lost_the_querys_id_is_refused_once_epoch_0_is_committed(
        self, storage: Memory, checkpoint: Checkpoint
    ) -> None:
        """Trap 7: also where only the marker tells that it is, and Spark has not noted it."""
        del storage.files["checkpoints/000001/metadata"]
        checkpoint.require_intact(NEVER)
        with pytest.raises(HomeMismatch, match="has lost its file 'metadata'"):
            checkpoint.require_intact(0)

    def test_that_lost_epoch_0_is_refused_once_it_is_committed(self, storage: Memory, checkpoint: Checkpoint) -> None:
        del storage.files["checkpoints/000001/offsets/0"]
        checkpoint.require_intact(NEVER)
        with pytest.raises(HomeMismatch, match=r"epoch 0 is committed, but .* is empty"):
            checkpoint.require_intact(0)

    def test_that_has_finished_epoch_0_is_refused_where_nothing_is_committed(
        self, storage: Memory, checkpoint: Checkpoint
    ) -> None:
        storage.files["checkpoints/000001/commits/0"] = b"v1\n{}"
        checkpoint.require_intact(0)
        with pytest.raises(HomeMismatch, match="has epoch 0 as finished, but the pipeline has committed none"):
            checkpoint.require_intact(NEVER)

    def test_counts_the_records_of_its_first_epochs(self, storage: Memory, checkpoint: Checkpoint) -> None:
        """A partition begins with offset 0 where nothing else is noted; one that joins later, too."""
        storage.files["checkpoints/000001/offsets/1"] = plan(4, 3, 2)
        assert [checkpoint.input_rows(epoch, checkpoint.positions(epoch)) for epoch in (0, 1)] == [4, 5]

    def test_counts_from_where_its_sources_began(self, storage: Memory, checkpoint: Checkpoint) -> None:
        checkpoint.begin_at(0, {IN_0: 3, IN_1: 0})
        assert checkpoint.input_rows(0, checkpoint.positions(0)) == 1
        assert checkpoint.begins_of_sources(0)[0] == {IN_0: 3, IN_1: 0}
        storage.files["checkpoints/000001/offsets/1"] = plan(4, 0)
        assert checkpoint.begins_of_sources(1)[0] == {IN_0: 4, IN_1: 0}
        assert checkpoint.input_rows(1, checkpoint.positions(1)) == 0

    def test_counts_no_records_where_positions_go_back(self, storage: Memory, checkpoint: Checkpoint) -> None:
        """What went back is refused elsewhere: here it must not take from what other partitions have."""
        storage.files["checkpoints/000001/offsets/1"] = plan(1, 5)
        assert checkpoint.input_rows(1, checkpoint.positions(1)) == 5


class TestAStart:
    """What it concludes, where epoch 0 is the last that anybody knows of."""

    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Ledger:
        return Ledger(LocalStorage(tmp_path), {}, "L")

    def test_finishes_epoch_0_in_the_other_sinks_if_kafka_has_it(self, ledger: Ledger) -> None:
        """B5: else its rows would be in Kafka alone."""
        ledger.write(entry(0, phase=PREPARED))
        found = by_marker(known(pending=0, **MARKED), "kafka", last(0), ledger, ["files"])
        assert (found.committed, found.unfinished) == (0, entry(0, phase=PREPARED))

    def test_misses_the_votes_of_epoch_0(self, ledger: Ledger) -> None:
        with pytest.raises(LedgerCorrupt, match="has epoch 0 of 'p' as decided, but the ledger's entry"):
            by_marker(known(pending=0, **MARKED), "kafka", last(0), ledger, ["files"])

    def test_has_nothing_to_finish_after_a_marker_that_says_nothing_yet(self, ledger: Ledger) -> None:
        assert by_marker(known(pending=0, **MARKED), "kafka", last(NEVER), ledger, ["files"]) == Recovered(
            NEVER, last(NEVER)
        )

    def test_misses_epoch_0_in_a_marker_that_says_nothing_yet(self, ledger: Ledger) -> None:
        with pytest.raises(MarkerMissing, match="is to hold epoch 0, and says a marker from before the first epoch"):
            by_marker(known(recorded=entry(0)), "kafka", last(NEVER), ledger, [])

    def test_trusts_the_ledger_with_epoch_0(self, ledger: Ledger) -> None:
        facts: dict[str, Any] = {"recorded": entry(0), "trust_ledger": ["kafka"]}
        assert by_marker(known(**facts), "kafka", None, ledger, []) == Recovered(0)
        with pytest.raises(MarkerMissing, match="epoch 1 of 'p' is in doubt"):
            by_marker(known(**facts, pending=1), "kafka", None, ledger, [])
        with pytest.raises(MarkerMissing, match="epoch 0 of 'p' is in doubt"):
            by_marker(known(**MARKED, trust_ledger=["kafka"], pending=0), "kafka", None, ledger, [])

    def test_doubts_nothing_where_nothing_was_planned(self, ledger: Ledger) -> None:
        assert by_marker(known(**MARKED, trust_ledger=["kafka"]), "kafka", None, ledger, []) == Recovered(NEVER)

    def test_finishes_epoch_0_that_the_ledger_has_decided(self) -> None:
        decided = entry(0, phase=DECIDED, decider=None)
        assert by_ledger(known(), decided) == Recovered(0, unfinished=decided)
        assert by_ledger(known(recorded=entry(0)), decided) == Recovered(0)
        assert by_ledger(known(), None) == Recovered(NEVER)

    def test_refuses_a_sink_that_holds_epoch_0_of_which_the_home_knows_nothing(self) -> None:
        with pytest.raises(HomeMismatch, match="is to hold no epoch, and says epoch 0"):
            check_marker(known(), Recovered(NEVER), "files", last(0))
        check_marker(known(recorded=entry(0)), Recovered(0), "files", last(0))

    def test_misses_epoch_0_in_a_sink_that_was_emptied(self) -> None:
        with pytest.raises(MarkerMissing, match="sink 'files' of 'p' is to hold epoch 0, and has no marker"):
            check_marker(known(recorded=entry(0)), Recovered(0), "files", None)

    def test_misses_epoch_0_in_a_sink_that_has_not_taken_part_since(self) -> None:
        """It was taken out after the very first epoch, and is back: what it had must be there."""
        held = {"kafka": ("L", 1), "files": ("L", 0)}
        with pytest.raises(MarkerMissing, match="sink 'files' of 'p' is to hold epoch 0, and has no marker"):
            check_marker(known(recorded=entry(1, sinks="kafka"), held=held), Recovered(1), "files", None)
        check_marker(known(recorded=entry(1, sinks="kafka"), held=held), Recovered(1), "files", last(0))


class Looks(ListDecider):
    """Keeps what it is told of each epoch, and what its markers say."""

    contexts: list[EpochContext]
    markers: list[LastCommit]

    def begin(self, context: EpochContext) -> None:
        super().begin(context)
        self.contexts.append(context)

    def write_marker(self, last: LastCommit) -> None:
        super().write_marker(last)
        self.markers.append(last)


class TestAFirstEpoch:
    @pytest.fixture
    def pipeline(self) -> Pipeline:
        Looks.contexts, Looks.markers = [], []
        return Pipeline(decides=True, kind=Looks)

    @pytest.mark.parametrize("begins", [{}, {IN_0: 0}, {IN_0: 17}])
    def test_begins_where_its_sources_do(self, pipeline: Pipeline, begins: Mapping[TopicPartition, int]) -> None:
        """The birth marker says so too: it is what group-lag tools and `--from-group` read until the first commit."""
        driver = pipeline.start()
        if begins:
            driver.taken.checkpoint.begin_at(0, begins)
        driver.run(0, "a", end=18)
        driver.run(1, "b", end=20)
        assert [it.begins for it in Looks.contexts] == [begins, {IN_0: 18}]
        assert [(it.epoch, it.positions) for it in Looks.markers] == [(NEVER, {IN_0: begins.get(IN_0, 0)})]

    def test_is_what_the_term_began_before(self, pipeline: Pipeline) -> None:
        """The ledger tells terms apart by it: none of this one is older than epoch 0."""
        pipeline.start().run(0, "a")
        assert [(it.term, it.after_epoch, it.held) for it in starts(pipeline.storage)] == [
            (1, NEVER, {DECIDER: ("L", NEVER)})
        ]
        pipeline.start()
        assert [(it.term, it.after_epoch) for it in starts(pipeline.storage)] == [(1, NEVER), (2, 0)]

    def test_that_was_aborted_is_not_lost_with_the_marker(self, pipeline: Pipeline) -> None:
        """A person says that it was aborted: then nothing is committed, and it runs."""
        with pytest.raises(RowsDropped):
            pipeline.start().run(0, "a", late=1)
        pipeline.place.marker = None
        driver = pipeline.start(trust=["s"], in_doubt="aborted")
        assert driver.taken.recovered.committed == NEVER
        driver.run(0, "a")
        assert pipeline.place.rows == ["a"]

    def test_without_records_counts_none(self, pipeline: Pipeline) -> None:
        driver = pipeline.start()
        driver.taken.checkpoint.begin_at(0, {IN_0: 1})
        driver.run(0, end=1)
        assert (driver.runner.rows_read, driver.runner.epochs_committed) == (0, 1)

    @pytest.mark.parametrize("kind", [ListSink, ListDecider])
    def test_that_is_committed_is_replayed_and_not_written_again(self, kind: type[Any]) -> None:
        pipeline = Pipeline(decides=kind is ListDecider, others={"t": Place()})
        pipeline.start().run(0, "a")
        again = pipeline.start()
        assert again.taken.recovered.committed == 0
        again.run(0, "a")
        again.run(1, "b")
        assert pipeline.place.rows == pipeline.others["t"].rows == ["a", "b"]
