"""The page over the real server, and a real pipeline that is killed while somebody looks."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from dashboard.browser import Watched, browser
from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    sink = ow.KafkaSink({bootstrap!r}, topic={target!r})
    return ow.Pipeline({name!r}, home={home!r}, source=events.select("value").dropDuplicates(["value"])).to(sink)
"""
LIFE_MS = 90_000  # a JVM starts, on a machine that does other things too


@contextmanager
def ui(homes: Path, bootstrap: str, log: Path) -> Iterator[str]:
    """`onceward ui` in a process of its own; its address."""
    with log.open("wb") as written:
        command = [sys.executable, "-m", "onceward", "ui", str(homes), "--kafka", bootstrap, "--port", "0"]
        process = subprocess.Popen(command, stdout=written, stderr=written, env=os.environ)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(30)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    def said() -> list[str]:
        assert process.poll() is None, log.read_text()
        return [word for word in log.read_text().split() if word.startswith("http://")]

    eventually(said, "the address of the page")
    return said()[0]


def test_a_pipeline_killed_while_the_page_is_open_is_seen_to_stop_and_to_come_back(
    kafka: Kafka, drivers: Callable[[str], Driver], name: str, tmp_path: Path
) -> None:
    """kill -9, and the same again: the page tells both, and marks the take-over among the epochs."""
    source, target = kafka.topic(2), kafka.topic(2)
    homes = tmp_path / "homes"
    homes.mkdir()
    driver = drivers(
        FILE.format(bootstrap=kafka.bootstrap, source=source, target=target, name=name, home=str(homes / name))
    )
    kafka.feed(source, ((str(number), str(number)) for number in range(50)))
    with browser() as chromium, ui(homes, kafka.bootstrap, tmp_path / "ui.log") as url:
        driver.start("--json")
        watched = Watched(chromium, url)
        page = watched.open()
        assert urlsplit(page.url).query == ""  # the token is not left in the address, nor in what is bookmarked
        tab = page.context.new_page()
        tab.goto(watched.url)
        expect(tab.locator("main h1")).to_be_visible()
        tab.close()
        stranger = chromium.new_context().new_page()
        assert stranger.goto(watched.url).status == 403  # type: ignore[union-attr] # it has an answer
        stranger.context.close()
        row = page.locator(".pipelines .row", has_text=name)
        expect(row).to_contain_text("running", timeout=LIFE_MS)
        row.locator("a").click()
        expect(page.locator("h1")).to_contain_text(f"{name}running")
        expect(page.locator(".timeline")).to_have_attribute("data-bars", "1", timeout=LIFE_MS)

        driver.kill()
        expect(page.locator("h1")).to_contain_text(f"{name}killed", timeout=LIFE_MS)
        expect(page.get_by_role("region", name="Its drivers")).to_contain_text("killed", timeout=LIFE_MS)

        kafka.feed(source, ((str(number), str(number)) for number in range(50, 100)))
        driver.start("--json")
        expect(page.locator("h1")).to_contain_text(f"{name}running", timeout=LIFE_MS)
        happened = page.get_by_role("table", name="What happened")
        expect(happened).to_contain_text("takeover", timeout=LIFE_MS)
        expect(happened).to_contain_text("killed")
        expect(page.locator(".timeline")).to_have_attribute("data-marks", "killed takeover", timeout=LIFE_MS)
        expect(page.locator(".timeline")).to_have_attribute("data-bars", re.compile("[2-9]"), timeout=LIFE_MS)
        page.locator(".timeline").focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        expect(page.locator("#epoch")).to_contain_text("voted yes")
        expect(page.locator("#epoch")).to_contain_text("Committed everywhere")
        driver.finish()
        expect(page.locator("h1")).to_contain_text("stopped", timeout=LIFE_MS)
        policy = page.request.get(url).headers["content-security-policy"]
        assert "unsafe" not in policy
        watched.page.context.close()
        watched.require_well_behaved()
