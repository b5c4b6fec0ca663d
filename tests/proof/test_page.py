"""The page of a chaos run (G1): nothing left out, nothing hostile let through, nothing fetched."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path

import pytest

from onceward.proof.chaos import page, report_lanes, report_words
from onceward.proof.chaos.record import Happening, Result
from proof.chaos_runs import large_run, small_run

VOID = {"meta", "input", "br", "hr"}


@pytest.fixture(scope="module")
def small() -> Result:
    return small_run()


@pytest.fixture(scope="module")
def large() -> Result:
    return large_run()


class Page(HTMLParser):
    """What a browser would find: every tag closed, every text, every reference."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: Counter[str] = Counter()
        self.titles: list[str] = []
        self.rows: list[list[str]] = []
        self.references: list[str] = []
        self.styles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        self.references += [value or "" for name, value in attrs if name in {"href", "src", "xlink:href", "action"}]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "title":
            self.titles.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "title":
            self.titles[-1] += data
        elif self.open and self.open[-1] == "style":
            self.styles.append(data)
        elif "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data


@pytest.mark.parametrize("run", ["small", "large"])
def test_the_page_is_well_formed_and_needs_nothing_from_outside(run: str, request: pytest.FixtureRequest) -> None:
    text = page.html(request.getfixturevalue(run))
    found = Page(text)
    assert found.references
    assert all(reference.startswith("#mark-") for reference in found.references)
    assert not found.seen.keys() & {"link", "img", "iframe", "object", "embed", "base", "form", "image"}
    assert "://" not in text
    assert found.styles
    assert not any("@import" in style or "url(" in style for style in found.styles)


def test_the_page_of_a_thousand_faults_and_an_hour_stays_small(large: Result) -> None:
    assert sum(happening.kind == "fault" for happening in large.happenings) >= 1_000
    assert len(page.html(large).encode()) < 2_000_000


@pytest.mark.parametrize("run", ["small", "large"])
def test_everything_that_happened_is_on_the_page(run: str, request: pytest.FixtureRequest) -> None:
    result = request.getfixturevalue(run)
    found = Page(page.html(result))
    drawn = Counter(part for title in found.titles for part in _parts(title))
    listed = Counter((cells[0], cells[1], cells[4].partition(", after ")[0]) for cells in found.rows if len(cells) == 5)
    told = [happening for happening in result.happenings if happening.kind != "epoch"]
    for happening in told:
        assert drawn[f"{report_words.clock(happening.at_s)} {happening.what}"], happening
    wanted = Counter((report_words.clock(happening.at_s), happening.kind, happening.what) for happening in told)
    assert wanted <= listed


def _parts(title: str) -> list[str]:
    """`0:04 this (at begun); until 0:09 that, 5.0 s later` tells of two happenings."""
    parts = (part.replace(" (at prepared)", "") for part in re.split(r"; (?:until )?", title))
    return [re.sub(r", (after )?[\d.,]+ \w+( \d+ s)?( later)?$", "", part) for part in parts]


@pytest.mark.parametrize("run", ["small", "large"])
def test_every_epoch_is_a_tick_or_in_a_bin(run: str, request: pytest.FixtureRequest) -> None:
    result = request.getfixturevalue(run)
    titles = Page(page.html(result)).titles
    looks = [happening for happening in result.happenings if happening.kind == "epoch"]
    ticks = [int(match[1]) for title in titles if (match := re.fullmatch(r"[\d:]+ epoch (\d+)", title))]
    pattern = r"[\d:]+ to [\d:]+: ([\d,]+) epochs? committed, up to ([\d,]+)"
    bins = [
        [int(number.replace(",", "")) for number in match.groups()]
        for title in titles
        if (match := re.fullmatch(pattern, title))
    ]
    if run == "small":
        assert ticks == [look.number for look in looks]
        return
    assert 500 < len(bins) <= 1_200
    assert sum(count for count, _ in bins) == result.epochs
    assert [last for _, last in bins] == list(accumulate((count for count, _ in bins), initial=-1))[1:]


HOSTILE = "</title></style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00\x1b[2J\ud800"


def test_hostile_text_stays_text(small: Result, tmp_path: Path) -> None:
    what = tuple(replace(happening, what=HOSTILE, point=HOSTILE) for happening in small.happenings)
    strange = Happening(200.0, "fault", HOSTILE, "network")
    result = replace(
        small,
        subject=HOSTILE,
        command=HOSTILE,
        guarantee=HOSTILE,
        sinks=(HOSTILE,),
        began=HOSTILE,
        machine=HOSTILE,
        records_out={HOSTILE: 1},
        faults={HOSTILE: 1, f"{HOSTILE} killed": 2},
        points={HOSTILE: 0, f"{HOSTILE}2": 3},
        watched={HOSTILE: 1},
        checked=(HOSTILE,),
        broken={HOSTILE: [HOSTILE]},
        happenings=(*what, strange),
    )
    written = page.write(result, tmp_path / "report").read_text(encoding="utf-8")
    found = Page(written)
    assert found.seen["script"] == 1
    assert not found.seen["img"]
    assert written.count("<script>alert") == 0
    assert "\x00" not in written
    assert "\x1b" not in written
    assert json.loads((tmp_path / "report" / page.FACTS).read_text())["subject"] == HOSTILE


def test_the_page_tells_in_words_which_checker_broke_and_which_point_was_missed(small: Result) -> None:
    rows = Page(page.html(replace(small, broken={"no-loss": ["kafka lacks row 4", "kafka lacks row 5"]}))).rows
    by_name = {cells[0]: cells[1:] for cells in rows}
    assert by_name["no-loss"][0] == "✕ 2 found"
    assert by_name["no-loss"][1].endswith("kafka lacks row 4kafka lacks row 5")
    assert by_name["no-duplicate"][0] == "✓ passed"
    assert by_name["replaying"][0] == "✕ missed"
    assert by_name["prepared"][0] == str(small.points["prepared"])
    assert by_name["driver killed"][0] == str(small.faults["driver killed"])


def test_the_folder_holds_the_page_and_the_facts(small: Result, tmp_path: Path) -> None:
    path = page.write(small, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "report.html"
    assert path.read_text(encoding="utf-8") == page.html(small)
    facts = json.loads(path.with_name("result.json").read_text())
    assert facts["exact"] is True
    assert facts["recovery_p95_s"] == small.recovery_s(95)
    assert len(facts["happenings"]) == len(small.happenings)


def test_a_run_in_which_nothing_happened_has_a_page_too(small: Result) -> None:
    text = page.html(replace(small, seconds=0.0, kills=0, faults={}, points={}, recoveries_s=(), happenings=()))
    assert "No driver had to come back." in text
    assert Page(text).seen["svg"]


def lived(happenings: list[Happening]) -> list[tuple[str, float, float]]:
    return [(life.start.what, life.start.at_s, life.end_s) for life in report_lanes.lives(happenings, 30)]


def test_a_paused_driver_lives_beside_its_successor_until_it_ends() -> None:
    assert lived(
        [
            Happening(0, "start", "driver 1 started", "driver"),
            Happening(5, "fault", "worker killed", "worker", kill=True),
            Happening(9, "fault", "driver 1 killed at 'begun'", "driver", kill=True),
            Happening(10, "start", "driver 2 started", "driver"),
            Happening(12, "fault", "driver 2 paused", "driver"),
            Happening(15, "start", "driver 3 started", "driver"),
            Happening(16, "heal", "driver 2 wakes", "driver"),
            Happening(17, "end", "driver 2 ended: fenced", "driver"),
            Happening(20, "end", "the job ended cleanly", "driver"),
        ]
    ) == [("driver 1 started", 0, 9), ("driver 2 started", 10, 17), ("driver 3 started", 15, 20)]


def test_a_driver_without_a_number_lives_until_the_next_starts() -> None:
    assert lived(
        [
            Happening(0, "start", "first", "driver"),
            Happening(9, "fault", "killed", "driver", kill=True),
            Happening(10, "start", "second", "driver"),
            Happening(15, "start", "third", "driver"),
        ]
    ) == [("first", 0, 9), ("second", 10, 15), ("third", 15, 30)]


def test_a_heal_belongs_to_the_newest_open_fault_of_the_same_thing() -> None:
    happenings = [
        Happening(1, "fault", "broker 1 paused", "broker"),
        Happening(1, "fault", "broker 2 killed", "broker", kill=True),
        Happening(2, "fault", "driver 3 paused", "driver"),
        Happening(3, "fault", "driver 4 killed", "driver", kill=True),
        Happening(4, "heal", "driver 3 wakes", "driver"),
        Happening(5, "heal", "broker 1 is back", "broker"),
        Happening(6, "heal", "nothing was broken", "network"),
    ]
    healed = {fault.fault.what: fault.heal.what for fault in report_lanes.faults(happenings) if fault.heal}
    assert healed == {"broker 1 paused": "broker 1 is back", "driver 3 paused": "driver 3 wakes"}
