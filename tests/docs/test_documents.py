"""What the documents say is what the code does."""

import re
from pathlib import Path

import onceward as ow
from onceward import crashpoints, errors
from onceward.kafka.transaction import diagram

ROOT = Path(__file__).parents[2]


def test_the_architecture_shows_the_transactions_table() -> None:
    assert diagram() in (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_the_public_names_are_few_and_pinned() -> None:
    sinks = {"DeltaSink", "FileSink", "FunctionSink", "IcebergSink", "KafkaSink", "PostgresSink"}
    contract = {"EpochContext", "LastCommit", "Outcome", "Owner", "TwoPhaseCommitSink"}
    names = {"Guarantee", "OncewardError", "Pipeline", "Query", "configure", "read_kafka", "session"} | sinks | contract
    assert set(ow.__all__) == names == set(dir(ow))
    assert all(getattr(ow, name) is not None for name in names)


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type)} - {"OncewardError"}
    assert drawn == defined


def test_every_crash_point_is_named_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert [point for point in crashpoints.POINTS if not re.search(rf"[\[ ]{point}[\],]", text)] == []


def test_decisions_that_the_code_names_exist() -> None:
    named = {
        number
        for file in (ROOT / "src").rglob("*.py")
        for number in re.findall(r"docs/decisions/(\d{4})", file.read_text("utf-8"))
    }
    there = {file.name[:4] for file in (ROOT / "docs" / "decisions").iterdir()}
    assert named <= there


def test_the_documents_speak_of_no_machine() -> None:
    patterns = ("*.md", "docs/**/*.md", "src/**/*.py", "src/**/*.xml")
    for file in (found for pattern in patterns for found in ROOT.glob(pattern)):
        assert not re.search(r"/(root|home)/|//[a-z0-9.-]*maven", file.read_text("utf-8")), file
