"""A real Chromium for tests of the page, and a watch over what it must never do."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
AWAY: Final = (
    "ERR_CONNECTION_REFUSED",
    "ERR_CONNECTION_RESET",
    "ERR_EMPTY_RESPONSE",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
)


def executable() -> str:
    """Of a Chromium that is there, or that apt-get brings; otherwise the test fails, and says what to install."""
    found = _on_path()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with Path(tempfile.gettempdir(), "onceward-chromium.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the other test process may be at it
            found = _on_path() or _installed()
    if found is None:
        pytest.fail(
            f"these tests drive a real browser: install one of {', '.join(NAMES)} (Debian: apt-get install chromium)"
        )
    return found


def _on_path() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _installed() -> str | None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
        ran = subprocess.run(
            ["apt-get", "-q", *command], env=quiet, capture_output=True, text=True, check=False, timeout=600
        )
        if ran.returncode:
            pytest.fail(f"apt-get {' '.join(command)} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
    return _on_path()


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable(), args=list(ARGUMENTS), headless=True)
        try:
            yield started
        finally:
            started.close()


class Watched:
    """A page, and all it said and asked for. What the browser itself says of a server that is away may be fine."""

    def __init__(self, browser: Browser, url: str, **options: object) -> None:
        self.away_is_fine = False
        self.refused_is_fine = False
        self.said: list[str] = []
        self.hosts: set[str] = set()
        self.url, _, token = url.partition("?")
        self.token = f"?{token}" if token else ""
        self.page: Page = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}).new_page()  # type: ignore[arg-type]
        self.page.set_default_timeout(20_000)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)

    def open(self, hash_: str = "#/") -> Page:
        self.page.goto("about:blank")  # another fragment alone would not load it anew
        self.page.goto(f"{self.url.rstrip('/')}/{self.token}{hash_}")
        self.page.wait_for_selector("main h1")
        return self.page

    def require_well_behaved(self) -> None:
        """What must hold for every test: no error, no violation of the policy, nothing asked for elsewhere."""
        assert self.said == []
        assert self.hosts <= {urlsplit(self.url).netloc}

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        if self.away_is_fine and any(name in message.text for name in AWAY):
            return
        if self.refused_is_fine and "the server responded with a status of" in message.text:
            return
        self.said.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(urlsplit(request.url).netloc)
