"""What the documents say is what the code does."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import onceward as ow
from onceward import crashpoints, errors
from onceward.kafka.transaction import diagram
from onceward.pipeline.source import REPLAYABLE
from support.tutorial import tutorial_file

ROOT = Path(__file__).parents[2]


def test_the_architecture_shows_the_transactions_table() -> None:
    assert diagram() in (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_the_public_names_are_few_and_pinned() -> None:
    sinks = {"DeltaSink", "FileSink", "FunctionSink", "IcebergSink", "KafkaSink", "PostgresSink"}
    contract = {"EpochContext", "LastCommit", "Outcome", "Owner", "TwoPhaseCommitSink"}
    lookups = {"Lookup", "PostgresLookup"}
    names = {"Guarantee", "OncewardError", "Pipeline", "Query", "configure", "errors", "read_kafka", "session"}
    letters = {"attempt", "good_rows", "parse", "parse_json", "reject", "with_dead_letters"}
    names |= sinks | contract | lookups | letters | {"State", "state", "copy_prefix", "topic", "JsonFormatter"}
    assert set(ow.__all__) == names == set(dir(ow))
    assert all(getattr(ow, name) is not None for name in names)


def test_every_error_can_be_caught_by_a_public_name() -> None:
    """In a process of its own: here `onceward.errors` is imported anyway."""
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    text = f"import onceward as ow; assert all(issubclass(getattr(ow.errors, n), ow.OncewardError) for n in {drawn!r})"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_every_requirement_that_a_test_names_is_on_the_page() -> None:
    text = (ROOT / "docs" / "requirements.md").read_text("utf-8")
    page = set(re.findall(r"^- \*\*([A-J]\d{1,2})\*\* ", text, re.MULTILINE))
    named: dict[str, str] = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        for found in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(found, ast.FunctionDef | ast.ClassDef) and found.name.lower().startswith("test"):
                named |= dict.fromkeys(re.findall(r"\b[A-J]\d{1,2}\b", ast.get_docstring(found) or ""), file.name)
    assert {name: file for name, file in named.items() if name not in page} == {}
    assert {"A1", "B10", "C6", "F2", "J5"} <= named.keys() <= page


def test_the_sources_that_are_taken_are_the_ones_that_the_page_of_errors_names() -> None:
    cause = (ROOT / "docs" / "errors.md").read_text("utf-8").partition("### SourceNotReplayable")[2].partition(";")[0]
    assert set(re.findall(r"`([\w-]+)`", cause)) == REPLAYABLE


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type)} - {"OncewardError"}
    assert drawn == defined


def test_every_crash_point_is_named_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    apart = (
        *crashpoints.WITH_A_LOOKUP,
        *crashpoints.OF_SAVEPOINTS,
        *crashpoints.OF_RESTORES,
        *crashpoints.OF_RESETS,
        *crashpoints.OF_SNAPSHOTS,
    )
    points = (*crashpoints.POINTS, *apart)
    assert [point for point in points if not re.search(rf"[\[ ]{point}[\],]", text)] == []


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


def test_the_tutorial_shows_the_applications_own_source() -> None:
    """F2: what the page builds is what the package runs."""
    shown = _definitions(tutorial_file("ads.py"))
    files = [
        ROOT / "src" / "onceward" / "apps" / "ads" / f"{name}.py"
        for name in ("clean", "aggregate", "attribute", "load")
    ]
    source = [definition for file in files for definition in _definitions(file.read_text("utf-8"))]
    assert sorted(source) == sorted(set(source))
    assert set(source) <= set(shown)
    assert [it for it in shown if it not in source and not it.startswith("def build(")] == []


def _definitions(text: str) -> list[str]:
    """Functions and constants, without comments and layout."""
    kinds = (ast.FunctionDef, ast.Assign)
    return [ast.unparse(it) for it in ast.parse(text).body if isinstance(it, kinds)]
