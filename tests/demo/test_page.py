"""The page of the demo (F5): every number of the bill is on it, nothing hostile gets through, nothing is fetched."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from onceward.apps.ads.words import AD_EVENTS, ATTRIBUTED, DEAD, LATE, MADE, MINUTES, ORDERS
from onceward.apps.ads.world.judge import (
    HISTORY_MINUTES,
    HISTORY_ORDERS,
    SERVED_MINUTES,
    SERVED_ORDERS,
    BillLine,
    Finding,
    Judgement,
)
from onceward.cli.output import result
from onceward.demo import page, page_text, page_timeline, report
from onceward.demo.trial import Findings, Kill, Moment, Plan

VOID = {"meta"}
OUTPUTS = {AD_EVENTS: 2_850, ORDERS: 170, LATE: 40, DEAD: 30, MINUTES: 290, ATTRIBUTED: 170}
TABLES = {SERVED_MINUTES: 290, SERVED_ORDERS: 170, HISTORY_MINUTES: 290, HISTORY_ORDERS: 170}
HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00\x1b[2J\ud800"


class Page(HTMLParser):
    """What a browser would find: every tag closed, every cell, every text by the class around it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.seen: Counter[tuple[str, str]] = Counter()
        self.headings: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.points: dict[str, list[tuple[float, float]]] = {}
        self.bars: list[tuple[str, str]] = []
        self.references: list[str] = []
        self.styles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert not any(name.startswith("on") for name in given)
        style = given.get("class", "")
        self.seen[tag, style] += 1
        self.references += [value for name, value in given.items() if name in {"href", "src", "xlink:href", "action"}]
        if tag not in VOID:
            self.open.append((tag, style))
        if tag == "polyline":
            self.points[style] = [(float(x), float(y)) for x, y in (it.split(",") for it in given["points"].split())]
        if tag == "rect" and given["x"].endswith("%"):
            self.bars.append((given["x"], given["width"]))
        if tag == "h2":
            self.headings.append("")
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in {"td", "th"}:
            self.tables[-1][-1].append("")
        self.texts.setdefault(style or tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self.open]
        if "style" in tags:
            self.styles.append(data)
            return
        if "h2" in tags:
            self.headings[-1] += data
        if "td" in tags or "th" in tags:
            self.tables[-1][-1][-1] += data
        for style in {style or tag for tag, style in self.open}:
            self.texts[style][-1] += data

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.seen}

    def rows(self, table: int) -> dict[str, list[str]]:
        return {cells[0].strip(): [" ".join(cell.split()) for cell in cells[1:]] for cells in self.tables[table]}


def line(campaign: str, currency: str, truth: int, off: int = 0) -> BillLine:
    return BillLine(
        campaign=campaign,
        currency=currency,
        truth_cents=truth,
        charged_cents=truth + off,
        clicks_truth=1_200,
        clicks_charged=1_200 + off,
        orders_truth=34,
        orders_charged=34,
    )


def judged(*bill: BillLine, **twice: int) -> Judgement:
    """All is well, but for what came twice."""
    return Judgement(
        [
            Finding(
                output=output,
                expected=count,
                seen=count + twice.get(output, 0),
                lost=0,
                duplicated=twice.get(output, 0),
                wrong=0,
            )
            for output, count in (OUTPUTS | TABLES).items()
        ],
        list(bill),
    )


TRUTH = (line("north", "EUR", 123_456), line("south", "EUR", 20_000), line("west", "USD", 99))
OFF = (line("north", "EUR", 123_456, 1_234), line("south", "EUR", 20_000, -34), line("west", "USD", 99))


@pytest.fixture
def exact() -> Findings:
    """Ours exact, Spark's own sinks not, as it usually is."""
    return Findings(
        plan=Plan(events=3_000, kills=3, seed=7),
        records=3_201,
        ours=judged(*TRUTH),
        sparks=judged(*OFF, ad_events=500, history_orders=9),
        kills=[Kill(12.34, "application"), Kill(30.0, "broker"), Kill(41.0, "application")],
        moments=[Moment(n / 10, 6 * n, 7 * n, 8 * n) for n in range(501)],
        seconds=63.2,
        state={"ads-clean": {"rows": 1_200, "bytes": 3_400_000}},
        flow_seconds=50.0,
    )


@pytest.fixture
def violated(exact: Findings) -> Findings:
    plan = replace(exact.plan, guarantee="at-least-once")
    return replace(exact, plan=plan, ours=judged(*OFF, orders=2), sparks=judged(*TRUTH))


@pytest.fixture
def alone(exact: Findings) -> Findings:
    return replace(exact, plan=replace(exact.plan, contrast=False), sparks=None)


@pytest.fixture
def calm(exact: Findings) -> Findings:
    """Nothing is killed, so nothing is off."""
    return replace(exact, plan=replace(exact.plan, kills=0), sparks=judged(*TRUTH), kills=[])


@pytest.fixture
def single(exact: Findings) -> Findings:
    """One campaign."""
    return replace(exact, ours=judged(TRUTH[0]), sparks=judged(OFF[0]))


@pytest.mark.parametrize("run", ["exact", "violated", "alone", "calm", "single"])
def test_the_page_is_well_formed_complete_and_needs_nothing_from_outside(
    run: str, request: pytest.FixtureRequest
) -> None:
    text = page.html(request.getfixturevalue(run))
    found = Page(text)
    assert found.headings == [
        "What each campaign owes",
        "By how much each bill is off",
        "What was visible when",
        "Every output against the truth",
        "Once more",
    ]
    assert all(reference.startswith("#mark-") for reference in found.references)
    assert not found.tags() & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image"}
    assert "://" not in text
    assert found.styles
    assert not any("@import" in style or "url(" in style for style in found.styles)


def test_an_exact_run_says_so_first(exact: Findings) -> None:
    found = Page(page.html(exact))
    assert found.texts["h1"] == ["✓Exact, to the cent"]
    assert found.texts["title"][0] == "Onceward: Exact, to the cent: 3 kills, seed 7"
    assert found.texts["because"] == [report.because(exact)]
    assert found.texts["kicker"] == [
        "3,000 ad events, seed 7, exactly-once, 3 kills (application 2, broker 1), 1 min 3 s"
    ]
    assert found.texts["note"][0] == report.about_sparks(exact)


def test_a_violated_run_says_what_is_wrong_first(violated: Findings) -> None:
    found = Page(page.html(violated))
    assert found.texts["h1"] == ["✕VIOLATED under at-least-once"]
    (because,) = found.texts["because"]
    assert because.startswith(
        "orders: 2 twice. The bills are off by EUR 12.68. Duplicates are what at-least-once allows"
    )
    assert found.seen["header", "banner violation"] == 1


def test_every_campaign_has_its_bill_and_every_difference_is_marked(exact: Findings) -> None:
    """F5: to the cent, per campaign; sums per currency."""
    assert Page(page.html(exact)).rows(0) == {
        "campaign": ["clicks", "orders", "the truth", "Onceward", "Spark's own sinks"],
        "north": ["1,200", "34", "EUR 1,234.56", "EUR 1,234.56 ✓", "EUR 1,246.90 (+12.34)"],
        "south": ["1,200", "34", "EUR 200.00", "EUR 200.00 ✓", "EUR 199.66 (-0.34)"],
        "west": ["1,200", "34", "USD 0.99", "USD 0.99 ✓", "USD 0.99 ✓"],
        "all in EUR": ["2,400", "68", "EUR 1,434.56", "EUR 1,434.56 ✓", "EUR 1,446.56 (+12.00)"],
        "all in USD": ["1,200", "34", "USD 0.99", "USD 0.99 ✓", "USD 0.99 ✓"],
    }


def test_our_own_differences_are_marked_too(violated: Findings) -> None:
    rows = Page(page.html(violated)).rows(0)
    assert rows["north"][3:] == ["EUR 1,246.90 (+12.34)", "EUR 1,234.56 ✓"]
    assert rows["all in EUR"][3:] == ["EUR 1,446.56 (+12.00)", "EUR 1,434.56 ✓"]


def test_without_a_contrast_nothing_is_said_about_the_other_side(alone: Findings) -> None:
    text = page.html(alone)
    found = Page(text)
    assert found.rows(0)["north"] == ["1,200", "34", "EUR 1,234.56", "EUR 1,234.56 ✓"]
    assert "Spark" not in text
    assert len(found.tables) == 2
    assert set(found.points) == {"line fed", "line ours"}
    assert not any(style.startswith("bar ") for _, style in found.seen)


def test_differences_that_cancel_each_other_out_are_no_exact_sum(exact: Findings) -> None:
    """F5: a campaign that is charged too much does not pay for another."""
    sparks = judged(line("north", "EUR", 123_456, 50), line("south", "EUR", 20_000, -50), TRUTH[2])
    rows = Page(page.html(replace(exact, sparks=sparks))).rows(0)
    assert rows["all in EUR"][4] == "EUR 1,434.56 (±0.00)"
    assert rows["all in USD"][4] == "USD 0.99 ✓"


def test_a_campaign_that_only_one_side_charges_has_a_row(exact: Findings) -> None:
    unknown = BillLine(
        campaign="nobody's",
        currency="?",
        truth_cents=0,
        charged_cents=77,
        clicks_truth=0,
        clicks_charged=0,
        orders_truth=0,
        orders_charged=1,
    )
    found = Page(page.html(replace(exact, sparks=judged(*OFF, unknown))))
    assert found.rows(0)["nobody's"] == ["0", "0", "? 0.00", "? 0.00 ✓", "? 0.77 (+0.77)"]
    assert found.rows(0)["all in ?"][4] == "? 0.77 (+0.77)"
    assert "nobody's, Spark's own sinks: +0.77 ?" in found.texts["title"]


def test_a_bar_for_each_bill_that_is_off_and_words_for_those_that_are_right(exact: Findings) -> None:
    """Twelve bars of length zero tell less than a sentence."""
    found = Page(page.html(exact))
    assert [*found.texts["value after"], *found.texts["value before"]] == ["+12.34", "-0.34"]
    assert not any(style.startswith("bar ours") for _, style in found.seen)
    assert found.seen["rect", "bar sparks"] == 2 + 1  # and one in the legend
    assert "north, Spark's own sinks: +12.34 EUR" in found.texts["title"]
    assert "Onceward: every bill is right, to the cent. There is nothing to draw." in found.texts["note"]
    assert "Right on Spark's own sinks too: west." in found.texts["note"]


def test_where_both_sides_are_off_a_tick_stands_for_what_is_right(exact: Findings) -> None:
    ours = judged(TRUTH[0], line("south", "EUR", 20_000, 5), TRUTH[2])
    found = Page(page.html(replace(exact, ours=ours)))
    assert [*found.texts["value after"], *found.texts["value before"]] == ["0.00", "+12.34", "+0.05", "-0.34"]
    assert found.seen["line", "bar ours nothing"] == 1
    assert "Right on both sides too: west." in found.texts["note"]


def test_each_currency_has_an_axis_of_its_own(exact: Findings) -> None:
    """A hundred dollars and a hundred yen are not the same length."""
    sparks = judged(*OFF[:2], line("west", "USD", 99, 7), line("east", "JPY", 5_000, 90_000))
    found = Page(page.html(replace(exact, sparks=sparks)))
    assert found.texts["currency-name"] == ["EUR", "JPY", "USD"]
    assert len(found.texts["axis"]) == 3
    assert [place for _, place in found.bars][-1] == "87.5%"  # 0.07 of an axis to 0.08, beside 900.00


def test_what_matters_stands_at_the_top(exact: Findings) -> None:
    found = Page(page.html(exact))
    assert found.texts["amounts"] == ["0.00", "EUR 12.68"]
    assert found.texts["facts"] == [
        "charged wrongly3 of 3 bills right0 records lost, 0 there twice, 0 with a wrong value",
        (
            "charged wrongly, too much and too little added up1 of 3 bills right"
            "0 records lost, 509 there twice, 0 with a wrong value"
        ),
    ]


def test_a_wrong_value_is_explained_wherever_it_is_counted(exact: Findings) -> None:
    assert exact.sparks is not None
    assert "A wrong value" not in report.about_sparks(exact)
    findings = [replace(it, wrong=27 * (it.output == MINUTES)) for it in exact.sparks.findings]
    told = report.about_sparks(replace(exact, sparks=replace(exact.sparks, findings=findings)))
    assert f"{MINUTES}: 27 with a wrong value" in told
    assert "A wrong value is nearly always a sum" in told


def test_a_bar_goes_from_zero_to_the_difference_either_way(exact: Findings) -> None:
    """The axis goes from -5.00 to +15.00, so zero is at a quarter of it."""
    found = Page(page.html(exact))
    assert found.texts["axis"] == ["-5.000.00+5.00+10.00+15.00"]
    assert found.bars == [("25%", "61.7%"), ("23.3%", "1.7%")]


def test_the_timeline_has_at_most_so_many_points_and_keeps_both_ends(exact: Findings) -> None:
    points = Page(page.html(exact)).points
    assert set(points) == {"line fed", "line ours", "line sparks"}
    for drawn in points.values():
        assert len(drawn) == page_timeline.POINTS
        assert drawn[0] == (0.0, 1000.0)
        assert drawn[-1][0] == 1000.0
        assert drawn == sorted(drawn, key=lambda at: at[0])
    # 4,000 is the uppermost round number above all counts.
    assert [points[f"line {side}"][-1][1] for side in ("fed", "ours", "sparks")] == [250.0, 125.0, 0.0]


def test_few_moments_are_all_drawn() -> None:
    moments = [Moment(float(n), n, n, n) for n in range(page_timeline.POINTS)]
    assert page_timeline.thinned(moments) == moments


def test_every_kill_is_marked_by_what_was_killed(exact: Findings) -> None:
    found = Page(page.html(exact))
    legend = 1
    assert found.seen["g", "kill application"] == 2 + legend
    assert found.seen["g", "kill broker"] == 1 + legend
    assert "kill 1, 12.3 s: application" in found.texts["title"]
    assert "kill 2, 30.0 s: broker" in found.texts["title"]
    assert [said for said in found.texts["li"] if " s: " in said] == [
        "12.3 s: application",
        "30.0 s: broker",
        "41.0 s: application",
    ]


def test_without_kills_no_mark_and_no_legend_for_one(calm: Findings) -> None:
    found = Page(page.html(calm))
    assert not any("kill" in style for tag, style in found.seen if tag == "g")
    assert "Nothing was killed." in found.texts["note"]
    assert found.texts["because"][0].startswith("Never killed, and each of the 3,201 records")


def test_the_goal_counts_what_is_visible_in_the_topics(exact: Findings) -> None:
    heartbeats = 2
    assert page_timeline.wanted(exact) == sum(OUTPUTS[name] for name in MADE) + heartbeats
    assert "must be visible in the end: 3,552" in Page(page.html(exact)).texts["li"]


def test_a_run_that_nobody_watched_has_a_page_too(exact: Findings) -> None:
    found = Page(page.html(replace(exact, moments=[], kills=[])))
    assert "Nobody looked while it ran." in found.texts["note"]
    assert not found.points


def test_every_output_of_both_sides_is_compared(exact: Findings) -> None:
    """F1: nothing lost, nothing twice, nothing wrong, in every topic and table."""
    found = Page(page.html(exact))
    ours, sparks = found.tables[1:]
    names = ["output", "expected", "seen", "lost", "twice", "wrong"]
    assert ours[0] == sparks[0] == names
    assert [cells[0] for cells in ours[1:]] == [
        *("Kafka topics", *(f"✓ {name}" for name in MADE)),
        *("PostgreSQL tables", f"✓ {MINUTES}", f"✓ {ATTRIBUTED}"),
        *("History in Delta", f"✓ {MINUTES}", f"✓ {ATTRIBUTED}"),
    ]
    assert ours[2][1:] == ["2,850", "2,850", "0", "0", "0"]
    assert sparks[2] == ["✕ ad_events", "2,850", "3,350", "0", "500", "0"]
    assert sparks[-1] == ["✕ attributed_orders", "170", "179", "0", "9", "0"]
    assert found.texts["caption"] == ["Onceward", "Spark's own sinks"]


def test_an_output_that_the_page_does_not_know_is_shown_all_the_same(exact: Findings) -> None:
    other = Finding(output="elsewhere", expected=5, seen=4, lost=1, duplicated=0, wrong=3)
    ours = replace(exact.ours, findings=[*exact.ours.findings, other])
    assert Page(page.html(replace(exact, ours=ours))).tables[1][-1] == ["✕ elsewhere", "5", "4", "1", "0", "3"]


@pytest.mark.parametrize(
    ("run", "command"),
    [
        ("exact", "onceward demo --events 3000 --kills 3 --seed 7"),
        ("alone", "onceward demo --events 3000 --kills 3 --seed 7 --no-contrast"),
        ("violated", "onceward demo --events 3000 --kills 3 --seed 7 --guarantee at-least-once"),
    ],
)
def test_the_page_says_how_to_do_it_again(run: str, command: str, request: pytest.FixtureRequest) -> None:
    findings = request.getfixturevalue(run)
    assert Page(page.html(findings)).texts["command"] == [command]
    assert report.again(findings.plan) == command


def test_hostile_text_stays_text(exact: Findings, tmp_path: Path) -> None:
    bill = [replace(it, campaign=f"{number}{HOSTILE}", currency=HOSTILE) for number, it in enumerate(OFF)]
    findings = [replace(it, output=HOSTILE, wrong=1) for it in exact.ours.findings]
    hostile = Judgement(findings, bill)
    plan = replace(exact.plan, guarantee=HOSTILE)
    kills = [Kill(1.0, HOSTILE)]
    path = page.write(replace(exact, plan=plan, ours=hostile, sparks=hostile, kills=kills), tmp_path)
    written = path.read_text(encoding="utf-8")
    found = Page(written)
    assert not found.tags() & {"script", "img"}
    assert not re.search(r"<script|<img|\x00|\x1b", written)
    assert written.count("</title></style><") == 0
    assert any(name.startswith("0</title></style><script>alert(1)</script>") for name in found.rows(0))


def test_hostile_text_in_the_terminals_bill_is_no_markup(
    exact: Findings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    bill = [replace(it, campaign=f"{number}[/red]\x1b[2J", currency="[/x]") for number, it in enumerate(OFF)]
    hostile = Judgement([replace(it, output=HOSTILE, wrong=1) for it in exact.ours.findings], bill)
    result({}, report.text(replace(exact, ours=hostile, sparks=hostile)), as_json=False)
    told = capsys.readouterr().out
    assert r"0[/red]\x1b[2J" in told
    assert all(it == "\n" or it.isprintable() for it in told)


def test_the_folder_holds_the_page_and_the_facts(exact: Findings, tmp_path: Path) -> None:
    path = page.write(exact, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "bill.html"
    assert path.read_text(encoding="utf-8") == page.html(exact)
    assert json.loads(path.with_name("result.json").read_text()) == report.facts(exact)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 3_552, 6, [0, 1000, 2000, 3000, 4000]),
        (0, 50.0, 8, [0, 10, 20, 30, 40, 50]),
        (-34, 1_234, 5, [-500, 0, 500, 1000, 1500]),
        (-1, 0, 5, [-1, 0]),
        (0, 0.4, 5, [0, 1]),
        (0, 0, 5, [0, 1]),
        (-5_000, -5_000, 5, [-5000, -4999]),
    ],
)
def test_ticks_are_round_and_span_everything(low: float, high: float, most: int, expected: list[int]) -> None:
    assert page_text.ticks(low, high, most) == expected


def test_ticks_are_never_more_than_asked_for() -> None:
    for low in range(-300, 1, 7):
        for high in range(1, 3_000, 83):
            found = page_text.ticks(low, high, 5)
            assert len(found) <= 6
            assert found[0] <= low < high <= found[-1]
            assert low == 0 or 0 in found


def test_the_terminal_tells_speed_and_state(exact: Findings) -> None:
    told = report.text(exact)
    assert f"{report.facts(exact)['records_per_second']:,.0f} records a second" in told
    assert "state at its largest since the last kill: ads-clean 1,200 rows (3.4 MB)" in told
    assert report.facts(exact)["state"] == exact.state
