"""Results as files, and the page that shows those of quiet runs."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from bench import results
from bench.__main__ import MODULES
from bench.peers import LOCK, REQUIREMENTS, VERSION
from bench.plot import svg
from bench.report import Report
from bench.rounds import Sample
from onceward.jars.lock import JarLock

ROOT = Path(__file__).parents[2]
PAGE = "before\n<!-- bench:P2 -->\nold figures\n<!-- /bench:P2 -->\nafter\n"


def report(*, others: float = 0.0, wrong: tuple[str, ...] = ()) -> Report:
    samples = [
        Sample("100 B", system, number, {"records/s": rate + number}, 1.0, others, wrong)
        for number in range(2)
        for system, rate in (("spark", 100.0), ("onceward <b>", 200.0))
    ]
    about = {"machine": "a machine, 2 cores", "date": "2026-11-18", "load": 0.1, "commit": "abc"}
    return Report("P2", "Kafka & Kafka", "spark", samples, ["a note"], about, {"partitions": 4})


def updated(made: Report, folder: Path) -> tuple[str, list[str], list[str]]:
    page = folder / "benchmarks.md"
    page.write_text(PAGE)
    results.write(made, folder)
    done, refused = results.update_page(["P2"], folder=folder, page=page, pictures=folder / "pictures")
    return page.read_text(), done, refused


def test_a_quiet_result_replaces_what_the_page_says(tmp_path: Path) -> None:
    text, done, refused = updated(report(), tmp_path)
    assert (done, refused) == (["P2"], [])
    assert "old figures" not in text
    assert "| spark | 100 (100 to 101) |" in text
    assert "a machine, 2 cores" in text
    assert text.startswith("before\n<!-- bench:P2 -->\n")
    assert text.endswith("\n<!-- /bench:P2 -->\nafter\n")
    assert (tmp_path / "pictures" / "bench-P2.svg").exists()
    assert updated(report(), tmp_path)[0] == text


def test_a_disturbed_result_is_kept_from_the_page(tmp_path: Path) -> None:
    text, done, (refused,) = updated(report(others=0.5), tmp_path)
    assert (text, done) == (PAGE, [])
    assert "disturbed" in refused


def test_a_round_in_which_somebody_was_disturbed_counts_for_nobody_if_there_is_a_quiet_one(tmp_path: Path) -> None:
    made = report()
    made.samples[3] = replace(made.samples[3], others=0.5)
    text, done, refused = updated(made, tmp_path)
    assert (done, refused, made.disturbed) == (["P2"], [], 0)
    assert "| spark | 100 | 1.00 |" in text
    assert "Left out: round 2 of 100 B, in which other processes used the machine." in text
    made.samples[0] = replace(made.samples[0], others=0.5)
    assert made.disturbed == 2
    assert updated(made, tmp_path)[1] == []


def test_a_wrong_output_counts_in_a_disturbed_round_too() -> None:
    made = report()
    made.samples[3] = replace(made.samples[3], others=0.5, wrong=("1 record is missing",))
    assert made.values("100 B", "onceward <b>") == {}
    assert made.void != []


def test_a_wrong_result_is_kept_from_the_page(tmp_path: Path) -> None:
    text, done, (refused,) = updated(report(wrong=("1 record is missing",)), tmp_path)
    assert (text, done) == (PAGE, [])
    assert "wrong" in refused


def test_results_are_a_table_a_picture_and_json(tmp_path: Path) -> None:
    results.write(report(), tmp_path)
    assert json.loads((tmp_path / "P2.json").read_text())["figures"]["100 B"]["spark"]["records/s"]["median"] == 100.5
    assert (tmp_path / "P2.md").read_text().startswith("# P2: Kafka & Kafka\n")
    ET.parse(tmp_path / "P2.svg")


def test_a_picture_has_a_bar_for_each_system_and_trusts_no_name() -> None:
    drawn = svg(report())
    assert len(re.findall("<rect", drawn)) == 2
    assert "<b>" not in drawn


def test_the_page_has_a_place_for_every_benchmark() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    for name in MODULES:
        assert f"<!-- bench:{name} -->\n" in page
        assert f"<!-- /bench:{name} -->\n" in page


def test_the_peers_versions_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert f"apache-flink=={VERSION}\n" in REQUIREMENTS.read_text("utf-8")
    assert f"PyFlink {VERSION}" in page
    (jar,) = JarLock.read(LOCK).sha256
    assert re.sub(r".*kafka-(.*)\.jar", r"connector \1", jar) in page
    assert "://" not in LOCK.read_text("utf-8") + REQUIREMENTS.read_text("utf-8")
