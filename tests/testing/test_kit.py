"""Requirement B6: the kit lets a sink pass that keeps the contract, and catches every planted bug by name."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

SINKS: Final = Path(__file__).with_name("directory_sinks.py")
GOOD: Final = ("DirectorySink", "DecidingDirectorySink")
JUDGED: Final = r"assert |AssertionError|Failed: DID NOT RAISE|onceward\.errors\."
# Cases that say nothing about a kind of sink are skipped, and say why; no other case is.
SKIPPED: Final = {
    "DirectorySink": {
        "test_a_digest_says_what_a_write_would_have_said": "the pipeline counts and digests",
        "test_a_look_from_outside_changes_nothing": "the sink does not decide",
    },
    "DecidingDirectorySink": {
        "test_a_digest_says_what_a_write_would_have_said": "the pipeline counts and digests",
        "test_nothing_is_added_to_a_target_that_was_set_back_before_the_commit": "the sink decides by itself",
        "test_nothing_is_added_if_what_the_older_lineage_left_was_set_back": "the sink decides by itself",
        "test_two_sinks_of_one_pipeline_are_apart_in_one_target": "a pipeline has one such sink at most",
    },
}
BUGS: Final = {
    "VisibleBeforeCommit": "test_nothing_is_visible_before_the_commit",
    "CommitsTwice": "test_a_commit_may_be_repeated",
    "CommitsInParts": "test_a_driver_paused_anywhere_in_its_commit_adds_nothing_when_it_wakes",
    "MarkerBeforeData": "test_a_crash_anywhere_in_the_commit_is_made_good",
    "MarkerWithoutLineage": "test_a_new_lineages_epochs_are_added_to_an_older_ones",
    "LastCommitOfAnyLineage": "test_a_start_of_a_lineage_that_the_target_does_not_know_is_refused",
    "OneFolderForAll": "test_two_pipelines_are_apart_in_one_target",
    "OneFolderForAPipeline": "test_two_sinks_of_one_pipeline_are_apart_in_one_target",
    "OlderLineagesCommitAgain": "test_a_driver_of_an_older_lineage_that_wakes_changes_nothing",
    "AbortTakesNewerLineages": "test_a_driver_of_an_older_lineage_that_wakes_changes_nothing",
    "AbortBelievesAnyLineage": "test_crashes_in_a_new_lineages_first_epochs_are_made_good",
    "LastCommitFromMemory": "test_the_last_commit_is_none_at_first_and_then_the_last",
    "LastCommitSeenOnce": "test_the_last_commit_is_told_between_epochs",
    "LastCommitNeverFalls": "test_a_target_that_was_set_back_tells_the_older_epoch",
    "CommitsOnTopOfAnything": "test_nothing_is_added_to_a_target_that_was_set_back_before_the_commit",
    "CommitNeedsItsMemory": "test_a_decided_epoch_is_committed_by_the_next_process",
    "PassesOverWhatIsGone": "test_a_decided_epoch_whose_staging_is_gone_is_refused",
    "OpenSweepsStaging": "test_a_decided_epoch_survives_a_row_of_crashes",
    "AbortLeavesStaging": "test_an_abort_may_be_repeated",
    "AbortKnowsOnlyItsOwn": "test_a_crash_before_the_decision_leaves_nothing",
    "AbortTakesCommitted": "test_an_abort_never_takes_what_is_committed",
    "AbortTakesNewerTerms": "test_a_zombies_late_abort_takes_nothing_from_its_successor",
    "StagingWithoutTerm": "test_a_zombies_late_write_is_never_visible",
    "OvertakenWritesBreakDown": "test_a_zombies_late_write_is_never_visible",
    "OvertakenAbortsMislead": "test_a_zombies_late_abort_takes_nothing_from_its_successor",
    "OvertakenCommitsMislead": "test_a_zombies_late_commit_changes_nothing",
    "DecidesWithoutFence": "test_a_zombies_late_write_is_never_visible",
    "PeekFences": "test_a_look_from_outside_changes_nothing",
    "CommittableIsNoJson": "test_a_committable_is_small_json_with_a_version",
    "CommittableWithoutVersion": "test_a_committable_is_small_json_with_a_version",
    "CommittableHoldsTheRows": "test_a_committable_is_small_json_with_a_version",
    "DigestOfNothing": "test_a_digest_says_what_a_write_would_have_said",
    "DescribesAnother": "test_the_description_is_json_and_makes_a_sink_that_can_commit",
}


Verdicts = dict[str, dict[str, bool | str]]


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """What the kit says: for each sink, which cases passed (all of their variants), and why one was skipped."""
    report = tmp_path_factory.mktemp("kit") / "report.xml"
    mine = [item for item in request.session.items if item.path == request.path]
    asked = {item.callspec.params["sink"] for item in mine if isinstance(item, pytest.Function)}
    chosen = [f"{SINKS}::Test{good}" for good in GOOD if good in asked]
    chosen += [f"{SINKS}::Test{bug}::{case}" for bug, case in BUGS.items() if bug in asked]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", f"--junitxml={report}", *chosen],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert report.exists(), run.stdout + run.stderr
    found: Verdicts = {}
    for case in ET.parse(report).iter("testcase"):
        sink = case.attrib["classname"].rpartition(".Test")[2]
        name = case.attrib["name"].partition("[")[0]
        assert case.find("error") is None, f"{sink} {name}: {run.stdout}"
        failure = case.find("failure")
        if (skipped := case.find("skipped")) is not None:
            found.setdefault(sink, {})[name] = skipped.attrib["message"]
            continue
        passed = failure is None
        # A planted bug is caught by what a case says, not because the sink breaks down by itself.
        assert failure is None or re.match(JUDGED, failure.attrib["message"]), run.stdout
        found.setdefault(sink, {})[name] = found.get(sink, {}).get(name, True) is True and passed
    return found


@pytest.mark.slow
@pytest.mark.timeout(660)
@pytest.mark.parametrize("sink", GOOD)
def test_a_sink_that_keeps_the_contract_passes(verdicts: Verdicts, sink: str) -> None:
    assert len(verdicts[sink]) > 30
    assert [case for case, passed in verdicts[sink].items() if passed is False] == []


@pytest.mark.slow
@pytest.mark.timeout(660)
@pytest.mark.parametrize("sink", GOOD)
def test_a_case_that_does_not_apply_is_skipped_with_its_reason(verdicts: Verdicts, sink: str) -> None:
    skipped = {case: said for case, said in verdicts[sink].items() if isinstance(said, str)}
    assert skipped.keys() == SKIPPED[sink].keys()
    assert all(reason in skipped[case] for case, reason in SKIPPED[sink].items())


@pytest.mark.parametrize(("sink", "case"), BUGS.items())
def test_a_planted_bug_fails_the_case_that_names_it(verdicts: Verdicts, sink: str, case: str) -> None:
    """Requirement G3, for sinks."""
    assert verdicts[sink] == {case: False}
