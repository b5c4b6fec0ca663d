"""A replay of an epoch that is out: what it must give again, sink by sink, and what a difference names."""

from dataclasses import replace
from pathlib import Path

import pytest

from onceward.epoch.contract import EpochContext, LastCommit
from onceward.epoch.ledger import DONE, Entry, Ledger, SinkEntry
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.recovery import Recovered, compare_replay, expected_outcomes
from onceward.epoch.storage import LocalStorage
from onceward.errors import LedgerCorrupt, ReplayDiverged

IN_0, OUT_0, OUT_1 = TopicPartition("in", 0), TopicPartition("out", 0), TopicPartition("out", 1)
OUTCOME = Outcome.of([(OUT_0, PartitionOutcome(2, 0xAA)), (OUT_1, PartitionOutcome(1, 0xBB))])
FILES = Outcome(rows=9, digest=0x99)
LAST = LastCommit(lineage="L", epoch=5, term=1, outcome=OUTCOME, positions={IN_0: 7})
ENTRY = Entry(
    pipeline="p",
    lineage="L",
    term=1,
    epoch=5,
    phase=DONE,
    positions=['{"in":{"0":7}}'],
    sinks={"kafka": SinkEntry.of(OUTCOME), "files": SinkEntry.of(FILES)},
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(LocalStorage(tmp_path), {}, "L")


def expected(
    ledger: Ledger, recovered: Recovered, *, offset: int = 7, sinks: tuple[str, ...] = ("files", "kafka")
) -> dict[str, Outcome]:
    context = EpochContext(epoch=5, positions={IN_0: offset})
    positions = [f'{{"in":{{"0":{offset}}}}}']
    return dict(expected_outcomes(context, positions, recovered, ledger, pipeline="p", sinks=sinks))


class TestWhatIsExpected:
    def test_the_ledgers_entry_says_what_each_sink_must_get(self, ledger: Ledger) -> None:
        """G4."""
        ledger.write(ENTRY)
        assert expected(ledger, Recovered(5, LAST)) == {"files": FILES, "kafka": OUTCOME}

    def test_an_older_epoch_is_known_from_the_ledger_alone(self, ledger: Ledger) -> None:
        ledger.write(ENTRY)
        assert expected(ledger, Recovered(6)) == {"files": FILES, "kafka": OUTCOME}

    def test_a_sink_that_was_added_since_is_not_compared(self, ledger: Ledger) -> None:
        ledger.write(ENTRY)
        assert expected(ledger, Recovered(5), sinks=("files", "added")) == {"files": FILES}

    def test_without_an_entry_the_marker_says_it(self, ledger: Ledger) -> None:
        """B10: killed between EndTxn and the ledger."""
        assert expected(ledger, Recovered(5, LAST), sinks=("kafka",)) == {"kafka": OUTCOME}

    def test_other_input_than_recorded_is_named_with_both_positions(self, ledger: Ledger) -> None:
        ledger.write(ENTRY)
        with pytest.raises(ReplayDiverged) as refused:
            expected(ledger, Recovered(5, LAST), offset=8)
        for named in ("'p'", "epoch 5", '{"in":{"0":7}}', '{"in":{"0":8}}', "offset log has changed"):
            assert named in str(refused.value)

    def test_other_input_than_the_markers_is_named_with_the_partition(self, ledger: Ledger) -> None:
        with pytest.raises(ReplayDiverged, match=r"epoch 5 .*offset log has changed.*in-0 ends at 8, was 7"):
            expected(ledger, Recovered(5, LAST), offset=8)

    def test_a_marker_that_rides_on_the_output_topic_is_not_compared_with_the_input(self, ledger: Ledger) -> None:
        """Without a Kafka source the marker has to ride somewhere else."""
        rider = replace(LAST, positions={OUT_0: 5})
        assert expected(ledger, Recovered(5, rider), sinks=("kafka",)) == {"kafka": OUTCOME}

    @pytest.mark.parametrize(
        "recovered",
        [
            Recovered(6, replace(LAST, epoch=6)),
            Recovered(6),
            Recovered(5, replace(LAST, outcome=None)),
        ],
        ids=["marker-of-a-later-epoch", "no-marker", "marker-without-an-outcome"],
    )
    def test_a_missing_entry_of_an_epoch_that_is_out_is_named(self, ledger: Ledger, recovered: Recovered) -> None:
        """E9: a replay that cannot be checked is not taken on trust."""
        with pytest.raises(LedgerCorrupt, match=r"epoch 5 of 'p' is committed .*entry is missing.*backup"):
            expected(ledger, recovered)


class TestComparing:
    def test_an_equal_replay_is_no_error(self) -> None:
        assert compare_replay("p", 5, {"kafka": OUTCOME}, {"kafka": OUTCOME}) is None
        both = {"kafka": OUTCOME, "files": FILES}
        assert compare_replay("p", 5, both, both) is None

    def test_a_sink_of_which_nothing_is_known_is_not_compared(self) -> None:
        assert compare_replay("p", 5, {"files": FILES}, {"files": FILES, "added": OUTCOME}) is None

    def test_a_difference_names_epoch_partition_cause_and_the_way_on(self) -> None:
        """G4."""
        now = Outcome.of([(OUT_0, PartitionOutcome(2, 0xAA)), (OUT_1, PartitionOutcome(1, 0xBC))])
        error = compare_replay("p", 5, {"kafka": OUTCOME}, {"kafka": now})
        assert isinstance(error, ReplayDiverged)
        for named in ("'p'", "epoch 5", "out-1", "floating-point", "use decimals", "on_replay_divergence='warn'"):
            assert named in str(error)
        assert "out-0" not in str(error)

    def test_of_several_sinks_those_that_differ_are_named(self) -> None:
        was = {"kafka": OUTCOME, "files": FILES}
        error = compare_replay("p", 5, was, {"kafka": OUTCOME, "files": Outcome(rows=8, digest=1)})
        assert "files: 9 rows with digest 99, now 8 rows with digest 1" in str(error)
        assert "kafka" not in str(error)

    def test_a_difference_everywhere_stays_readable(self) -> None:
        now = Outcome.of([(TopicPartition("out", n), PartitionOutcome(9, 9)) for n in range(20)])
        text = str(compare_replay("p", 5, {"kafka": OUTCOME}, {"kafka": now}))
        assert "and 12 more" in text
        assert "out-3:" in text
