"""The page in a real browser, over made-up pipelines; test_browser_live.py has real ones."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.browser import Watched, browser
from dashboard.fake_api import POLICY, Served
from dashboard.fake_world import HOSTILE, STRANGER, World
from support.page_files import DOCS

pytestmark = pytest.mark.timeout(500)  # the first one may have to install a browser
log = logging.getLogger(__name__)
LAYOUTS = Path(__file__).parent / "layouts.js"
HUNDREDS = re.compile(r"2\d\d|300")  # epochs of 4 px each
BEYOND = """[...document.querySelectorAll("main *, #top *")]
    .filter((it) => it.getBoundingClientRect().right > 401).map((it) => it.className).slice(0, 10)"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


class Look:
    """Opens pages over made-up worlds. Each is watched to its end, which comes before its server's."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._servers: list[Served] = []
        self._opened: list[Watched] = []

    def served(self, world: World) -> Served:
        self._servers.append(Served(world))
        return self._servers[-1]

    def __call__(self, served: Served, **options: Any) -> Watched:
        self._opened.append(Watched(self._chromium, served.url, **options))
        return self._opened[-1]

    def close(self) -> None:
        for page in self._opened:
            page.page.context.close()
        for server in self._servers:
            server.away()
        for page in self._opened:
            page.require_well_behaved()


@pytest.fixture
def look(chromium: Browser) -> Iterator[Look]:
    it = Look(chromium)
    yield it
    it.close()


@pytest.fixture
def served(look: Look) -> Served:
    return look.served(World(6))


def test_the_overview_tells_of_every_pipeline_and_of_what_flows(look: Look, served: Served) -> None:
    page = look(served).open()
    expect(page.locator("h1")).to_contain_text("1 of 6 pipelines needs a look")
    expect(page.locator(".pipelines .row:not(.head)")).to_have_count(6)
    expect(page.locator(".pipelines .row:not(.head)").first).to_contain_text("in doubt")
    graph = served.world.overview()["graph"]
    expect(page.locator(".graph .node")).to_have_count(len(graph["nodes"]))
    expect(page.locator(".graph .edge")).to_have_count(len(graph["edges"]))  # the one that closes a cycle too


def test_what_is_not_known_to_be_read_is_not_said_to_be(look: Look) -> None:
    """I2: without Kafka nobody knows what has come since a driver died."""
    world = World(6)
    page = look(look.served(world)).open()
    longest = page.locator(".facts div", has_text="Longest lag")
    expect(longest).not_to_contain_text("not known")
    world.measures = False
    dead = [it.id for it in world.pipelines if it.state != "running"]
    expect(longest).to_contain_text(re.compile(rf"not known of {len(dead)} others?"))
    expect(longest).not_to_contain_text("nothing is unread")
    page.goto(f"{page.url.partition('#')[0]}#/p/{dead[0]}")
    lag = page.locator(".facts div", has_text="Lag")
    expect(lag).to_contain_text("–not known")


def test_a_pipeline_tells_its_two_phases_its_epochs_and_what_is_in_doubt(look: Look, served: Served) -> None:
    page = look(served).open("#/p/p3")
    expect(page.locator(".two-phases tbody tr")).to_have_count(3)
    expect(page.locator(".timeline")).to_have_attribute("data-bars", HUNDREDS)
    expect(page.get_by_role("region", name="Its drivers")).to_contain_text("killed")
    expect(page.get_by_role("region", name="What can be gone back to")).to_contain_text("before-2.0")
    page.goto(f"{served.url}/#/p/p4")
    expect(page.locator(".doubt")).to_contain_text("The next start: reads the marker in Kafka.")


def test_who_was_killed_needs_a_look_and_who_was_stopped_does_not(look: Look) -> None:
    world = World(3)
    world.held_since = None
    page = look(look.served(world)).open()
    expect(page.locator("h1")).to_contain_text("All 3 pipelines are well", timeout=10_000)
    world.pipelines[0].state, world.pipelines[1].state = "stopped", "killed"
    world.pipelines[1].reason = "process 4711 on batch-7 has ended without saying so"
    expect(page.locator("h1")).to_contain_text("1 of 3 pipelines needs a look")
    expect(page.locator(".pipelines .row:not(.head)").first).to_contain_text("killed")


def test_an_epoch_tells_positions_votes_the_decision_and_aborted_tries(look: Look, served: Served) -> None:
    again = next(epoch for epoch in range(99_990, 0, -1) if served.world.pipelines[0].attempts(epoch) > 1)
    panel = look(served).open(f"#/p/p0/e/{again}").locator("#epoch")
    for said in ("Decided by sink 'kafka'", "BrokerAway", "ad-events", "voted yes", "digest", "Committable", "2 tries"):
        expect(panel).to_contain_text(said)


def test_who_holds_committed_readers_back_is_named_and_since_when(look: Look, served: Served) -> None:
    page = look(served).open("#/kafka")
    expect(page.locator("h1")).to_contain_text("2 partitions held back, for 4 min")
    expect(page.locator(".banner")).to_contain_text(STRANGER)
    expect(page.locator(".log").first).to_contain_text("last stable offset")
    served.world.held_since = None
    expect(page.locator("h1")).to_contain_text("Nobody holds readers back")


def test_without_kafka_the_page_says_how_to_name_one(look: Look) -> None:
    served = look.served(World(3, kafka=False))
    page = look(served).open("#/kafka")
    expect(page.locator(".command")).to_contain_text("--kafka")


def test_hostile_names_stay_text(look: Look) -> None:
    """What a home contains is data (J5)."""
    watched = look(look.served(World(6, hostile=True)))
    page = watched.open()
    expect(page.locator(".pipelines")).to_contain_text(HOSTILE[0])
    expect(page.locator(".pipelines")).to_contain_text("\ufffdgnp.exe\ufffd\ufffd")  # turns nothing around
    for view in ("#/", "#/p/p0", "#/p/p2/e/99990", "#/kafka"):
        page = watched.open(view)
        expect(page.locator("img")).to_have_count(1)  # our own
        expect(page.locator("body script")).to_have_count(0)
        assert "owned" not in page.title()


def test_the_keyboard_reaches_epochs_and_closes_what_it_opened(look: Look, served: Served) -> None:
    page = look(served).open()
    page.keyboard.press("?")
    expect(page.locator("dialog.help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.help")).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".pipelines .go").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    timeline = page.locator(".timeline")
    expect(timeline).to_have_attribute("data-bars", HUNDREDS)
    page.keyboard.press("ArrowRight")  # none is chosen: the newest
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    chosen = int(page.locator("#epoch h2").inner_text().removeprefix("Epoch ").replace(",", ""))
    expect(timeline).to_have_attribute("aria-valuenow", str(chosen))
    expect(timeline).to_have_attribute("aria-valuetext", re.compile(f"epoch {chosen}, "))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#epoch h2")).to_have_text(f"Epoch {chosen - 1:,}")
    expect(page.locator("#epoch")).to_contain_text("Decided by")
    page.keyboard.press("Escape")
    expect(page.locator("#epoch")).to_have_count(0)
    expect(timeline).to_be_focused()
    page.keyboard.press("t")
    expect(page.locator("h1")).to_contain_text("held back")


def test_a_phone_does_not_scroll_sideways(look: Look) -> None:
    served = look.served(World(12, hostile=True))
    watched = look(served, viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True)
    for view in ("#/", "#/p/p3", "#/p/p3/e/99990", "#/kafka"):
        page = watched.open(view)
        expect(page.locator(".badge")).to_have_text(re.compile("2"), timeout=10_000)  # the head is as full as it gets
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 400, (view, page.evaluate(BEYOND))


def test_dark_and_light_follow_the_system_until_the_reader_chooses(look: Look, served: Served) -> None:
    page = look(served, color_scheme="dark").open()
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(21, 24, 27)"
    page.emulate_media(color_scheme="light")
    assert page.evaluate(paper) == "rgb(253, 253, 252)"
    page.keyboard.press("d")  # light
    page.keyboard.press("d")  # dark
    assert page.evaluate(paper) == "rgb(21, 24, 27)"
    page.reload()
    assert page.evaluate(paper) == "rgb(21, 24, 27)"  # remembered


def test_a_server_that_goes_away_is_told_and_comes_back(look: Look, served: Served) -> None:
    watched = look(served)
    watched.away_is_fine = True
    page = watched.open("#/p/p0")
    expect(page.locator(".live")).to_have_text("live")
    served.away()
    expect(page.locator("#connection")).to_contain_text("Connection lost, trying again")
    expect(page.locator("h1")).to_contain_text("ads-clean")  # what was known stays
    served.world.pipelines[0].state = "paused"
    served.back()
    expect(page.locator("#connection")).to_contain_text("Connected again")
    expect(page.locator("h1")).to_contain_text("paused")
    expect(page.locator("#connection")).to_have_text("")


def test_a_home_that_disappears_is_told_and_what_was_seen_stays(look: Look, served: Served) -> None:
    watched = look(served)
    watched.refused_is_fine = True
    page = watched.open("#/p/p0")
    expect(page.locator(".two-phases")).to_be_visible()
    served.world.away.add("p0")
    expect(page.locator("h1")).to_contain_text("gone")
    expect(page.locator(".problem")).to_contain_text("is not there")
    expect(page.locator(".timeline")).to_be_visible()
    served.world.away.clear()
    expect(page.locator("h1")).to_contain_text("running")
    expect(page.locator(".problem")).to_have_count(0)
    page.goto(f"{served.url}/#/p/nobody")
    expect(page.locator("h1")).to_contain_text("There is no such pipeline here")


def test_fifty_pipelines_and_two_thousand_epochs_stay_quick(look: Look) -> None:
    """Bounds are wide, since a test machine does other things too. The figures: `--log-cli-level=INFO`."""
    served = look.served(World(50))
    page = look(served).open()
    expect(page.locator(".pipelines .row:not(.head)")).to_have_count(50)
    overview = _draws(page)
    page.goto(f"{served.url}/#/p/p3")
    expect(page.locator(".timeline")).to_have_attribute("data-bars", HUNDREDS)
    for _ in range(3):
        page.get_by_role("button", name="More epochs").click()
    page.wait_for_function("() => Number(document.querySelector('.timeline').dataset.bars) >= 1800")
    painted = [
        page.evaluate(
            "async () => { const t = document.querySelector('.timeline');"
            "t.dispatchEvent(new WheelEvent('wheel', {deltaX: -40, bubbles: true, cancelable: true}));"
            "await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);"
            "return Number(t.dataset.painted); }"
        )
        for _ in range(20)
    ]
    frame = min(painted)
    bars = page.locator(".timeline").get_attribute("data-bars")
    log.info("50 pipelines drawn anew in %.1f ms, a frame of %s epochs in %.1f ms", overview, bars, frame)
    assert overview < 50
    assert frame < 50


def test_older_epochs_come_when_they_are_looked_at(look: Look, served: Served) -> None:
    page = look(served).open("#/p/p0")
    timeline = page.locator(".timeline")
    expect(timeline).to_have_attribute("data-bars", HUNDREDS)
    with page.expect_request(lambda it: "to=" in it.url and "limit=1000" in it.url):
        for _ in range(4):
            page.get_by_role("button", name="Older").click()
    page.get_by_label("Go to epoch").fill("1234")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page.locator("#epoch h2")).to_have_text("Epoch 1,234")
    expect(timeline).to_have_attribute("aria-valuenow", "1234")


def test_any_graph_has_a_place_for_every_box_and_none_covers_another(look: Look, served: Served) -> None:
    page = look(served).open()
    covering = page.evaluate(LAYOUTS.read_text(encoding="utf-8"))
    assert covering == []


def test_the_policy_of_the_decision_is_the_one_the_page_is_tested_under() -> None:
    assert POLICY in (DOCS / "decisions/0021-a-page-without-a-build-step.md").read_text(encoding="utf-8")


def _draws(page: Page) -> float:
    """Milliseconds of the quickest of some draws of the whole page: what it costs where nothing else runs."""
    found = []
    for _ in range(6):
        before = page.evaluate("document.documentElement.dataset.drawn")
        page.wait_for_function("(it) => document.documentElement.dataset.drawn !== it", arg=before, polling=50)
        found.append(float(page.evaluate("document.documentElement.dataset.drawn")))
    return min(found)
