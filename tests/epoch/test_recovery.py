"""What a start concludes from the sinks' last commits and the ledger, and what its messages name."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceward.epoch.contract import Guarantee, LastCommit, Owner
from onceward.epoch.expected import NEVER, Expected
from onceward.epoch.ledger import DECIDED, DONE, PREPARED, Entry, Ledger, SinkEntry
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.epoch.recovery import Consent, Known, Recovered, by_ledger, by_marker, check_marker, overruled
from onceward.epoch.storage import LocalStorage
from onceward.errors import HomeMismatch, LedgerCorrupt, MarkerMissing


def entry(
    epoch: int, *, phase: str = DONE, term: int = 1, decider: str | None = "kafka", sinks: str = "kafka files"
) -> Entry:
    votes = {name: SinkEntry.of(Outcome(rows=2, digest=7), committable={"version": 1}) for name in sinks.split()}
    return Entry(
        pipeline="p", lineage="L", term=term, epoch=epoch, phase=phase, positions=["7"], decider=decider, sinks=votes
    )


def last(epoch: int, *, lineage: str = "L", term: int = 1) -> LastCommit:
    return LastCommit(lineage=lineage, epoch=epoch, term=term, positions={TopicPartition("in", 0): 7})


OWNER = Owner(pipeline="p", lineage="L", term=3, guarantee=Guarantee.EXACTLY_ONCE)


def known(*, held: Mapping[str, tuple[str, int]] | None = None, before: Any = None, **facts: Any) -> Known:
    """What each sink must hold is what the recorded epoch says, unless a test says otherwise."""
    consent = Consent(trust_ledger=frozenset(facts.pop("trust_ledger", ())), in_doubt=facts.pop("in_doubt", None))
    recorded = facts.setdefault("recorded", None)
    if held is None:
        held = dict.fromkeys(recorded.sinks, ("L", recorded.epoch)) if recorded is not None else {}
    expected = Expected("p", "L", {**(before or {}), **held}, before or {})
    return Known(owner=replace(OWNER, before=before or {}), expected=expected, consent=consent, **facts)


MARKED: Any = {"held": {"kafka": ("L", NEVER)}}  # from before its first epoch


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(LocalStorage(tmp_path), {}, "L")


class TestKafkaDecidesAlone:
    def start(self, ledger: Ledger, marker: LastCommit | None = None, **facts: Any) -> Recovered:
        return by_marker(known(**facts), "kafka", marker, ledger, others=[])

    def test_a_first_start_has_nothing_out(self, ledger: Ledger) -> None:
        assert self.start(ledger) == Recovered(NEVER)
        assert self.start(ledger, pending=0) == Recovered(NEVER)

    def test_the_marker_decides_how_far_the_pipeline_is(self, ledger: Ledger) -> None:
        """B10: killed after EndTxn and before the ledger: the epoch is out."""
        assert self.start(ledger, last(5), recorded=entry(4), pending=5) == Recovered(5, last(5))

    def test_a_planned_epoch_without_its_marker_is_redone(self, ledger: Ledger) -> None:
        """B4."""
        assert self.start(ledger, last(4), recorded=entry(4), pending=5) == Recovered(4, last(4))

    def test_a_marker_before_the_first_ledger_entry_counts(self, ledger: Ledger) -> None:
        assert self.start(ledger, last(0), pending=0).committed == 0

    def test_a_marker_of_the_same_term_counts(self, ledger: Ledger) -> None:
        assert self.start(ledger, last(4, term=3)).committed == 4

    def test_a_marker_of_another_lineage_names_both_and_the_ways_out(self, ledger: Ledger) -> None:
        """Design 2: work is identified by (pipeline, lineage, epoch), never by the epoch alone."""
        with pytest.raises(HomeMismatch) as refused:
            self.start(ledger, last(9, lineage="other"))
        for named in ("'kafka'", "epoch 9", "'p'", "lineage other", "lineage L", "second time", "onceward reset HOME"):
            assert named in str(refused.value)

    def test_a_marker_of_a_newer_term_shows_an_old_copy_of_the_home(self, ledger: Ledger) -> None:
        with pytest.raises(HomeMismatch, match=r"'kafka' was written in term 4, this home is at term 3: .*an old copy"):
            self.start(ledger, last(9, term=4))

    def test_a_marker_behind_the_ledger_shows_that_kafka_lost_data(self, ledger: Ledger) -> None:
        with pytest.raises(MarkerMissing) as refused:
            self.start(ledger, last(4), recorded=entry(6), pending=7)
        for named in ("is to hold epoch 6", "says epoch 4", "has elected an unclean leader", "--trust-ledger kafka"):
            assert named in str(refused.value)

    def test_a_marker_behind_the_ledger_can_be_overruled_as_the_message_says(self, ledger: Ledger) -> None:
        assert self.start(ledger, last(4), recorded=entry(6), pending=6, trust_ledger=["kafka"]) == Recovered(6)

    def test_trusting_the_ledger_never_overrules_a_newer_marker(self, ledger: Ledger) -> None:
        assert self.start(ledger, last(6), recorded=entry(5), trust_ledger=["kafka"]) == Recovered(6, last(6))

    def test_a_missing_marker_is_explained_and_never_means_zero(self, ledger: Ledger) -> None:
        """Trap 6: offsets of an idle group expire."""
        with pytest.raises(MarkerMissing) as refused:
            self.start(ledger, recorded=entry(6), pending=6)
        for named in (
            "'p'",
            "hold epoch 6",
            "offsets.retention.minutes",
            "No epoch is in doubt",
            "--trust-ledger kafka",
        ):
            assert named in str(refused.value)

    def test_a_missing_marker_names_the_epoch_in_doubt(self, ledger: Ledger) -> None:
        with pytest.raises(
            MarkerMissing, match=r"Epoch 7 is in doubt: .*Compare the output topics.*in_doubt='committed'"
        ):
            self.start(ledger, recorded=entry(6), pending=7)

    def test_a_missing_marker_with_a_trusted_ledger_goes_on_after_its_last_epoch(self, ledger: Ledger) -> None:
        assert self.start(ledger, recorded=entry(6), pending=6, trust_ledger=["kafka"]) == Recovered(6)

    def test_a_first_epoch_in_doubt_whose_marker_is_gone_is_not_taken_for_never_committed(self, ledger: Ledger) -> None:
        """Trap 24: a marker was written before the first epoch, so none means that it is gone."""
        assert self.start(ledger, pending=0) == Recovered(NEVER)
        with pytest.raises(
            MarkerMissing, match=r"a marker from before the first epoch, and has no .*Epoch 0 is in doubt"
        ):
            self.start(ledger, pending=0, **MARKED)

    def test_an_epoch_in_doubt_without_a_marker_is_what_the_person_says(self, ledger: Ledger) -> None:
        """B10: both answers can be given, and without one nothing is assumed."""
        facts: dict[str, Any] = {"recorded": entry(6), "pending": 7, "trust_ledger": ["kafka"]}
        with pytest.raises(MarkerMissing, match=r"epoch 7 of 'p' is in doubt.*in_doubt='aborted'"):
            self.start(ledger, **facts)
        assert self.start(ledger, **facts, in_doubt="aborted") == Recovered(6)
        assert self.start(ledger, **facts, in_doubt="committed") == Recovered(7, on_trust=True)

    def test_a_marker_from_before_the_lineage_that_is_gone_decides_nothing_of_it(self, ledger: Ledger) -> None:
        """J6: a restore has found it there, and the group's offsets have expired before the first start."""
        facts: dict[str, Any] = {"before": {"kafka": ("K", 3)}, "pending": 0}
        with pytest.raises(MarkerMissing, match=r"is to hold epoch 3 of lineage K, and has no marker.*No epoch"):
            self.start(ledger, **facts)
        assert self.start(ledger, **facts, trust_ledger=["kafka"]) == Recovered(NEVER)

    def test_one_that_comes_back_after_a_person_has_said_that_it_is_gone_is_not_overruled(self, ledger: Ledger) -> None:
        """J6: trust is about what is missing; what is there again says that something else is wrong."""
        facts = known(before={"kafka": ("K", 3)}, trust_ledger=["kafka"])
        facts.expected.believe({"kafka": None})
        with pytest.raises(HomeMismatch, match="is to hold no epoch, and says epoch 3 of lineage K"):
            by_marker(facts, "kafka", last(3, lineage="K"), ledger, others=[])

    def test_all_before_the_epoch_in_doubt_are_committed_though_nobody_has_recorded_them(self, ledger: Ledger) -> None:
        """A power cut took Spark's commit log entry and ours of epoch 0; that epoch 1 was planned tells of it."""
        facts: dict[str, Any] = {"pending": 1, **MARKED, "trust_ledger": ["kafka"]}
        assert self.start(ledger, **facts, in_doubt="aborted") == Recovered(0, on_trust=True)

    def test_sparks_commit_log_is_evidence_enough(self, ledger: Ledger) -> None:
        facts: dict[str, Any] = {"recorded": entry(6), "pending": 7, "trust_ledger": ["kafka"]}
        assert self.start(ledger, **facts, seen=7) == Recovered(7, on_trust=True)
        assert self.start(ledger, **facts, seen=7, in_doubt="aborted") == Recovered(7, on_trust=True)

    def test_a_marker_that_says_nothing_yet_is_a_first_start(self, ledger: Ledger) -> None:
        assert self.start(ledger, last(NEVER), pending=0, **MARKED) == Recovered(NEVER, last(NEVER))

    def test_an_epoch_that_a_sink_taken_out_since_has_voted_for_is_not_forgotten(self, ledger: Ledger) -> None:
        """B5: Kafka is the only sink now, but the files of epoch 5 are decided and not yet visible."""
        ledger.write(entry(5, phase=PREPARED))
        assert self.start(ledger, last(5), recorded=entry(4)).unfinished == entry(5, phase=PREPARED)


class TestKafkaDecidesForOthers:
    def start(
        self, ledger: Ledger, marker: LastCommit | None, *, others: Iterable[str] = ("files",), **facts: Any
    ) -> Recovered:
        return by_marker(known(**facts), "kafka", marker, ledger, others)

    def test_a_decided_epoch_with_its_votes_is_to_be_finished(self, ledger: Ledger) -> None:
        """B9, B10: Kafka has it, the others roll forward from it."""
        ledger.write(entry(5, phase=PREPARED))
        found = self.start(ledger, last(5), recorded=entry(4), pending=5)
        assert found == Recovered(5, last(5), entry(5, phase=PREPARED))

    def test_the_votes_are_those_of_the_term_that_the_marker_names(self, ledger: Ledger) -> None:
        """Two drivers have voted for the epoch; only one of them has Kafka's commit."""
        ledger.write(entry(5, phase=PREPARED, term=1))
        ledger.write(entry(5, phase=PREPARED, term=2))
        for term in (1, 2):
            found = self.start(ledger, last(5, term=term), recorded=entry(4), pending=5)
            assert found.unfinished == entry(5, phase=PREPARED, term=term)

    def test_votes_without_kafkas_commit_are_not_a_decision(self, ledger: Ledger) -> None:
        """B4: aborted and redone."""
        ledger.write(entry(5, phase=PREPARED))
        assert self.start(ledger, last(4), recorded=entry(4), pending=5) == Recovered(4, last(4))

    def test_the_first_epochs_votes_without_any_marker_are_not_a_decision(self, ledger: Ledger) -> None:
        ledger.write(entry(0, phase=PREPARED))
        assert self.start(ledger, None, pending=0) == Recovered(NEVER)

    def test_without_a_marker_another_sinks_marker_is_evidence(self, ledger: Ledger) -> None:
        """PostgreSQL has epoch 5, so Kafka has it too: sinks commit only what is decided."""
        votes = entry(5, phase=PREPARED)
        ledger.write(votes)
        facts: dict[str, Any] = {"recorded": entry(4), "pending": 5, "trust_ledger": ["kafka"]}
        assert self.start(ledger, None, **facts, seen=5) == Recovered(5, unfinished=votes, on_trust=True)
        assert self.start(ledger, None, **facts, in_doubt="committed") == Recovered(5, unfinished=votes, on_trust=True)
        assert self.start(ledger, None, **facts, in_doubt="aborted") == Recovered(4)

    def test_a_finished_epoch_needs_nothing(self, ledger: Ledger) -> None:
        ledger.write(entry(5))
        assert self.start(ledger, last(5), recorded=entry(5), pending=5) == Recovered(5, last(5))

    def test_an_epoch_that_a_later_start_finished_needs_nothing(self, ledger: Ledger) -> None:
        """Its votes are still there under the older term."""
        ledger.write(entry(5, phase=PREPARED, term=1))
        done = entry(5, term=2)
        assert self.start(ledger, last(5, term=1), recorded=done, pending=5) == Recovered(5, last(5, term=1))

    def test_an_entry_that_says_done_is_not_finished_again(self, ledger: Ledger) -> None:
        ledger.write(entry(5))
        assert self.start(ledger, last(5), recorded=entry(4)).unfinished is None

    def test_a_decided_epoch_whose_votes_are_gone_stops_the_start(self, ledger: Ledger) -> None:
        """B5, E9: the other sinks' data would be lost without a word."""
        with pytest.raises(LedgerCorrupt) as refused:
            self.start(ledger, last(5, term=2), recorded=entry(4), pending=5)
        for named in ("epoch 5", "'p'", "votes", "term 2", "missing", "backup"):
            assert named in str(refused.value)

    def test_votes_of_another_term_do_not_stand_in_for_those_that_are_gone(self, ledger: Ledger) -> None:
        ledger.write(entry(5, phase=PREPARED, term=1))
        with pytest.raises(LedgerCorrupt, match=r"epoch 5, term 2\) is missing"):
            self.start(ledger, last(5, term=2), recorded=entry(4), pending=5)

    def test_a_trusted_ledger_does_not_excuse_lost_votes(self, ledger: Ledger) -> None:
        with pytest.raises(LedgerCorrupt):
            self.start(ledger, last(5), recorded=entry(4), trust_ledger=["kafka"])


class TestTheLedgerDecides:
    def decided(self, epoch: int, term: int = 1) -> Entry:
        return entry(epoch, phase=DECIDED, term=term, decider=None, sinks="files table")

    def test_a_first_start_has_nothing_out(self) -> None:
        assert by_ledger(known(), None) == Recovered(NEVER)
        assert by_ledger(known(pending=0), None) == Recovered(NEVER)

    def test_a_decision_after_the_last_completion_is_to_be_finished(self) -> None:
        """B10: killed between the decision and its completion."""
        assert by_ledger(known(recorded=entry(4)), self.decided(5)) == Recovered(5, unfinished=self.decided(5))
        assert by_ledger(known(), self.decided(0)) == Recovered(0, unfinished=self.decided(0))

    def test_a_decision_that_is_complete_needs_nothing(self) -> None:
        assert by_ledger(known(recorded=entry(5)), self.decided(5)) == Recovered(5)

    def test_an_older_decision_does_not_take_the_pipeline_back(self) -> None:
        """As a driver leaves it that slept until its slot was cleaned up."""
        assert by_ledger(known(recorded=entry(9)), self.decided(5)) == Recovered(9)

    def test_completions_without_decisions_count(self) -> None:
        """Decisions are kept for a while only."""
        assert by_ledger(known(recorded=entry(9)), None) == Recovered(9)

    def test_a_planned_epoch_without_a_decision_is_redone(self) -> None:
        """B4."""
        assert by_ledger(known(recorded=entry(4), pending=5), self.decided(4)) == Recovered(4)


class TestSinksThatDoNotDecide:
    def check(self, recovered: Recovered, marker: LastCommit | None, sink: str = "files", **facts: Any) -> None:
        check_marker(known(**facts), recovered, sink, marker)

    def test_one_that_has_what_is_done_agrees(self) -> None:
        self.check(Recovered(5), last(5), recorded=entry(5))

    def test_one_that_lacks_the_unfinished_epoch_agrees(self) -> None:
        """It was decided after this sink's last commit."""
        self.check(Recovered(6, unfinished=entry(6)), last(5), recorded=entry(5))

    def test_one_that_has_the_unfinished_epoch_already_agrees(self) -> None:
        """B10: killed between two commits."""
        self.check(Recovered(6, unfinished=entry(6)), last(6), recorded=entry(5))

    def test_a_new_one_agrees(self) -> None:
        self.check(Recovered(NEVER), None)
        self.check(Recovered(0, unfinished=entry(0)), None)

    def test_one_that_held_something_when_the_lineage_began_must_still_hold_it(self) -> None:
        """E8: a database that was emptied right after a restore; a person may say that it is as it should be."""
        before = {"files": ("old", 4)}
        with pytest.raises(MarkerMissing, match=r"'files' of 'p' is to hold epoch 4 of lineage old, and has no marker"):
            self.check(Recovered(NEVER), None, before=before)
        self.check(Recovered(NEVER), None, before=before, trust_ledger=["files"])
        self.check(Recovered(NEVER), last(4, lineage="old"), before=before)

    def test_one_that_was_set_back_to_before_the_lineage_began_has_lost_data(self) -> None:
        """J6: its marker has the number of an epoch of ours, and is another lineage's."""
        with pytest.raises(MarkerMissing, match=r"is to hold epoch 4, and says epoch 4 of lineage old"):
            self.check(Recovered(4), last(4, lineage="old"), recorded=entry(4), before={"files": ("old", 4)})

    def test_one_that_was_added_since_agrees(self) -> None:
        self.check(Recovered(5), None, sink="added", recorded=entry(5))

    @pytest.mark.parametrize("committed", [NEVER, 4])
    @pytest.mark.parametrize("trust_ledger", [["files"], []])
    def test_one_that_is_ahead_of_every_decision_shows_an_old_home(
        self, committed: int, trust_ledger: list[str]
    ) -> None:
        """E8, E9: going on would put its epochs out again; the ledger is not to be trusted here."""
        recorded = entry(committed) if committed != NEVER else None
        with pytest.raises(HomeMismatch) as refused:
            self.check(Recovered(committed), last(6), recorded=recorded, trust_ledger=trust_ledger)
        for named in (
            "'files'",
            "says epoch 6",
            "'p'",
            "hold no epoch" if committed < 0 else "hold epoch 4",
            "old copy",
        ):
            assert named in str(refused.value)

    def test_one_that_is_behind_what_is_done_has_lost_data(self) -> None:
        """B5: not gone on with in silence."""
        with pytest.raises(MarkerMissing) as refused:
            self.check(Recovered(6), last(4), recorded=entry(6))
        for named in ("hold epoch 6", "'p'", "says epoch 4", "a restored backup", "--trust-ledger files"):
            assert named in str(refused.value)

    def test_one_without_any_marker_of_what_is_done_has_lost_data(self) -> None:
        with pytest.raises(
            MarkerMissing, match=r"'files' of 'p' is to hold epoch 6, and has no marker of it: it was emptied"
        ):
            self.check(Recovered(6), None, recorded=entry(6))

    def test_one_that_is_behind_can_be_overruled_as_the_message_says(self) -> None:
        self.check(Recovered(6), last(4), recorded=entry(6), trust_ledger=["files"])
        self.check(Recovered(6), None, recorded=entry(6), trust_ledger=["files"])

    def test_one_is_not_overruled_where_another_sink_is_named(self) -> None:
        """J6: a person has looked at that one alone."""
        with pytest.raises(MarkerMissing, match="sink 'files'"):
            self.check(Recovered(6), last(4), recorded=entry(6), trust_ledger=["kafka", "table"])

    def test_one_that_was_out_may_hold_an_older_epoch_and_no_other(self) -> None:
        held = {"files": ("L", 3)}
        self.check(Recovered(6), last(3), recorded=entry(6), held=held)
        for wrong, error in ((last(2), MarkerMissing), (None, MarkerMissing), (last(5), HomeMismatch)):
            with pytest.raises(error):
                self.check(Recovered(6), wrong, recorded=entry(6), held=held)

    def test_one_of_another_lineage_is_named_with_the_way_out(self) -> None:
        with pytest.raises(HomeMismatch, match=r"'files' holds epoch 5 .*lineage other.*lineage L") as refused:
            self.check(Recovered(5), last(5, lineage="other"), recorded=entry(5))
        assert "onceward reset HOME --file FILE.py" in str(refused.value)

    def test_one_of_a_newer_term_shows_an_old_copy_of_the_home(self) -> None:
        with pytest.raises(HomeMismatch, match=r"sink 'files' was written in term 4, this home is at term 3"):
            self.check(Recovered(5), last(5, term=4), recorded=entry(5))


class TestWhatIsOverruled:
    def test_is_told_of_the_named_sinks_alone(self) -> None:
        facts = known(recorded=entry(6), trust_ledger=["files", "kafka"])
        found = {"kafka": None, "files": last(6), "table": None}
        (line,) = overruled(facts, Recovered(6), "kafka", found)
        assert line.startswith("sink 'kafka' of 'p' is to hold epoch 6, and has no marker of it; as asked, the ledger")
        assert overruled(known(recorded=entry(6)), Recovered(6), "kafka", found) == []
