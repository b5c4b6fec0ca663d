"""What a start concludes from the sink's marker and the ledger, and what its messages name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceward.epoch.contract import EpochContext, LastCommit
from onceward.epoch.ledger import Entry, Ledger, with_outcome
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.recovery import NEVER, Recovered, compare_replay, expected_outcome, recover
from onceward.epoch.storage import LocalStorage
from onceward.errors import HomeMismatch, LedgerCorrupt, MarkerMissing, ReplayDiverged

IN_0, OUT_0, OUT_1 = TopicPartition("in", 0), TopicPartition("out", 0), TopicPartition("out", 1)
OUTCOME = Outcome.of([(OUT_0, PartitionOutcome(2, 0xAA)), (OUT_1, PartitionOutcome(1, 0xBB))])


def entry(epoch: int, *, term: int = 1, positions: tuple[str, ...] = ('{"in":{"0":7}}',)) -> Entry:
    empty = Entry(pipeline="p", lineage="L", term=term, epoch=epoch, phase="done", positions=list(positions))
    return with_outcome(empty, OUTCOME)


def last(epoch: int, *, lineage: str = "L", term: int = 1) -> LastCommit:
    return LastCommit(lineage=lineage, epoch=epoch, term=term, outcome=OUTCOME, positions={IN_0: 7})


def start(**facts: Any) -> Recovered:
    known: dict[str, Any] = {"pipeline": "p", "lineage": "L", "term": 3, "last": None, "recorded": None}
    return recover(**{**known, "pending": None, **facts})


class TestRecover:
    def test_a_first_start_has_nothing_out(self) -> None:
        assert start() == Recovered(NEVER)
        assert start(pending=0) == Recovered(NEVER)

    def test_the_marker_decides_how_far_the_pipeline_is(self) -> None:
        """B10: killed after EndTxn and before the ledger: the epoch is out."""
        assert start(last=last(5), recorded=entry(4), pending=5) == Recovered(5, last(5))

    def test_a_planned_epoch_without_its_marker_is_redone(self) -> None:
        assert start(last=last(4), recorded=entry(4), pending=5).committed == 4

    def test_a_marker_before_the_first_ledger_entry_counts(self) -> None:
        assert start(last=last(0), pending=0).committed == 0

    def test_a_marker_of_the_same_term_counts(self) -> None:
        assert start(last=last(4, term=3)).committed == 4

    def test_a_marker_of_another_lineage_names_both_and_the_ways_out(self) -> None:
        """Design 2: work is identified by (pipeline, lineage, epoch), never by the epoch alone."""
        with pytest.raises(HomeMismatch) as refused:
            start(last=last(9, lineage="other"))
        for named in ("epoch 9", "'p'", "lineage other", "lineage L", "second time", "--delete --group p"):
            assert named in str(refused.value)

    def test_a_marker_of_a_newer_term_shows_an_old_copy_of_the_home(self) -> None:
        with pytest.raises(HomeMismatch, match=r"term 4, this home is at term 3: the home is an old copy"):
            start(last=last(9, term=4))

    def test_a_marker_behind_the_ledger_means_that_kafka_lost_data(self) -> None:
        with pytest.raises(MarkerMissing) as refused:
            start(last=last(4), recorded=entry(6), pending=7)
        for named in ("epoch 6", "marker says 4", "unclean leader election", "--trust-ledger"):
            assert named in str(refused.value)

    def test_a_marker_behind_the_ledger_can_be_overruled_as_the_message_says(self) -> None:
        assert start(last=last(4), recorded=entry(6), pending=7, trust_ledger=True).committed == 6

    def test_trusting_the_ledger_never_overrules_a_newer_marker(self) -> None:
        assert start(last=last(6), recorded=entry(5), trust_ledger=True) == Recovered(6, last(6))

    def test_a_missing_marker_is_explained_and_never_means_zero(self) -> None:
        """Trap 6: offsets of an idle group expire."""
        with pytest.raises(MarkerMissing) as refused:
            start(recorded=entry(6), pending=6)
        for named in ("'p'", "up to epoch 6", "offsets.retention.minutes", "No epoch is in doubt", "--trust-ledger"):
            assert named in str(refused.value)

    def test_a_missing_marker_names_the_epoch_in_doubt(self) -> None:
        with pytest.raises(MarkerMissing, match=r"Epoch 7 was planned and is in doubt: compare the output topics"):
            start(recorded=entry(6), pending=7)

    def test_a_missing_marker_with_a_trusted_ledger_goes_on_after_its_last_epoch(self) -> None:
        assert start(recorded=entry(6), pending=7, trust_ledger=True) == Recovered(6)


class TestExpectedOutcome:
    def ledger(self, home: Path, *entries: Entry) -> Ledger:
        ledger = Ledger(LocalStorage(home), {}, "L")
        for one in entries:
            ledger.write(one)
        return ledger

    def expected(self, ledger: Ledger, recovered: Recovered, *, offset: int = 7, text: str | None = None) -> Outcome:
        context = EpochContext(epoch=5, positions={IN_0: offset})
        positions = [text or f'{{"in":{{"0":{offset}}}}}']
        return expected_outcome(context, positions, recovered, ledger, "p")

    def test_the_ledgers_entry_says_what_a_replay_must_give(self, tmp_path: Path) -> None:
        assert self.expected(self.ledger(tmp_path, entry(5)), Recovered(5, last(5))) == OUTCOME

    def test_an_older_epoch_is_known_from_the_ledger_alone(self, tmp_path: Path) -> None:
        assert self.expected(self.ledger(tmp_path, entry(5)), Recovered(6)) == OUTCOME

    def test_without_an_entry_the_marker_says_it(self, tmp_path: Path) -> None:
        """B10: killed between EndTxn and the ledger."""
        assert self.expected(self.ledger(tmp_path), Recovered(5, last(5))) == OUTCOME

    def test_other_input_than_recorded_is_named_with_both_positions(self, tmp_path: Path) -> None:
        with pytest.raises(ReplayDiverged) as refused:
            self.expected(self.ledger(tmp_path, entry(5)), Recovered(5, last(5)), offset=8)
        for named in ("'p'", "epoch 5", '{"in":{"0":7}}', '{"in":{"0":8}}', "offset log has changed"):
            assert named in str(refused.value)

    def test_other_input_than_the_markers_is_named_with_the_partition(self, tmp_path: Path) -> None:
        with pytest.raises(ReplayDiverged, match=r"epoch 5 .*offset log has changed.*in-0 ends at 8, was 7"):
            self.expected(self.ledger(tmp_path), Recovered(5, last(5)), offset=8)

    def test_a_marker_that_rides_on_the_output_topic_is_not_compared_with_the_input(self, tmp_path: Path) -> None:
        """Without a Kafka source the marker has to ride somewhere else."""
        rider = replace(last(5), positions={OUT_0: 5})
        assert self.expected(self.ledger(tmp_path), Recovered(5, rider)) == OUTCOME

    @pytest.mark.parametrize("recovered", [Recovered(6, last(6)), Recovered(6)])
    def test_a_missing_entry_of_an_epoch_that_is_out_is_named(self, tmp_path: Path, recovered: Recovered) -> None:
        with pytest.raises(LedgerCorrupt, match=r"epoch 5 of 'p' is out .*entry is missing.*backup"):
            self.expected(self.ledger(tmp_path), recovered)


class TestCompareReplay:
    def test_an_equal_replay_is_no_error(self) -> None:
        assert compare_replay("p", 5, OUTCOME, OUTCOME) is None

    def test_a_difference_names_epoch_partition_cause_and_the_way_on(self) -> None:
        now = Outcome.of([(OUT_0, PartitionOutcome(2, 0xAA)), (OUT_1, PartitionOutcome(1, 0xBC))])
        error = compare_replay("p", 5, OUTCOME, now)
        assert isinstance(error, ReplayDiverged)
        for named in ("'p'", "epoch 5", "out-1", "floating-point", "use decimals", "on_replay_divergence='warn'"):
            assert named in str(error)
        assert "out-0" not in str(error)

    def test_a_difference_everywhere_stays_readable(self) -> None:
        now = Outcome.of([(TopicPartition("out", n), PartitionOutcome(9, 9)) for n in range(20)])
        text = str(compare_replay("p", 5, OUTCOME, now))
        assert "and 12 more" in text
        assert "out-3:" in text
