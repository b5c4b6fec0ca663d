"""The page's server: on this machine only, for looking only, and with answers that a browser cannot misuse."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest

from dashboard.homes import MadeHome
from onceward.dashboard import connections
from onceward.dashboard import server as serving_routes
from onceward.dashboard.guard import cookie_of, new_token
from onceward.dashboard.serving import bound, server_of
from onceward.dashboard.watch import Watch
from onceward.errors import ConfigurationError
from support.waiting import eventually

TOKEN = new_token()


class Page:
    """A served page, asked as a browser asks."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = f"other=1; {cookie_of(port)}={TOKEN}"

    def ask(
        self, path: str, *, method: str = "GET", known: bool = True, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """`known`: by the cookie, as a browser is that came with the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers={**({"Cookie": self.cookie} if known else {}), **headers})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        status, headers, body = self.ask(path)
        assert (status, headers["content-type"]) == (200, "application/json"), body
        return json.loads(body)

    def error(self, path: str) -> tuple[int, str]:
        status, _, body = self.ask(path)
        return status, json.loads(body)["error"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeHome:
    home = MadeHome(tmp_path_factory.mktemp("homes") / "orders")
    home.driven()
    home.epochs(20)
    home.says(state="running")
    return home


@pytest.fixture(scope="module")
def page(made: MadeHome) -> Iterator[Page]:
    """On a port of its own, in this process."""
    listening = bound(0)
    server = server_of(Watch([made.path]), TOKEN, listening.getsockname()[1])
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    eventually(lambda: server.started, "the server listens", 20)
    yield Page(listening.getsockname()[1])
    server.should_exit = True
    thread.join(20)
    listening.close()


def test_the_answers_are_as_the_page_expects_them(page: Page) -> None:
    """I2."""
    overview = page.json("/api/overview")
    assert [it["name"] for it in overview["pipelines"]] == ["orders"]
    assert overview["kafka"] is None
    assert overview["graph"]["edges"][0]["from"] == "topic:clicks"
    assert page.json("/api/pipelines/orders")["epochs"] == {"first": 0, "last": 19, "count": 20}
    columns = page.json("/api/pipelines/orders/epochs?from=3&to=8&limit=4")
    assert columns["epoch"] == [5, 6, 7, 8]
    assert page.json("/api/pipelines/orders/epochs/7")["positions"][0] == {
        "topic": "clicks",
        "partition": 0,
        "from": 70,
        "to": 80,
        "raw": None,
    }


def test_what_is_not_there_is_told_in_json(page: Page) -> None:
    assert page.error("/api/pipelines/nobody") == (404, "there is no pipeline 'nobody' here")
    assert page.error("/api/pipelines/orders/epochs/999")[0] == 404
    assert page.error("/api/kafka") == (404, "no Kafka was named: start with --kafka HOST:PORT")
    assert page.error("/nothing")[0] == 404
    assert page.error("/api/pipelines/orders/epochs?limit=many")[0] == 400
    assert page.error("/api/pipelines/orders/epochs?from=-1")[0] == 400


def test_a_limit_that_is_too_large_is_not_believed(page: Page) -> None:
    assert len(page.json("/api/pipelines/orders/epochs?limit=99999999999")["epoch"]) == 20


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8484", "127.0.0.1.evil.example", "10.0.0.1", ""])
def test_a_page_elsewhere_that_points_its_own_name_here_is_refused(page: Page, host: str) -> None:
    """J5: DNS rebinding."""
    assert page.ask("/api/overview", Host=host)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8484", "LOCALHOST", "[::1]:8484"])
def test_this_machine_is_answered_under_its_own_names(page: Page, host: str) -> None:
    assert page.ask("/api/overview", Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/overview", "/", "/static/app.js"])
def test_nothing_but_looking_is_answered(page: Page, method: str, path: str) -> None:
    """I2."""
    assert page.ask(path, method=method)[0] == 405


@pytest.mark.parametrize("path", ["/", "/api/overview", "/api/pipelines/nobody", "/static/app.js", "/nothing"])
def test_every_answer_says_what_a_browser_may_do_with_it(page: Page, path: str) -> None:
    _, headers, _ = page.ask(path)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not any(name.startswith("access-control") for name in headers)
    assert headers["cache-control"] == ("no-store" if path.startswith("/api/") else "no-cache")


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static//etc/passwd"]
)
def test_no_file_but_the_pages_own_is_served(page: Page, path: str) -> None:
    status, _, body = page.ask(path)
    assert (status, b"Starlette" in body, b"root:" in body) == (404, False, False)


def test_the_page_and_its_files_are_served(page: Page) -> None:
    for path, kind in (("/", "text/html"), ("/static/app.js", "text/javascript"), ("/static/base.css", "text/css")):
        status, headers, body = page.ask(path)
        assert (status, headers["content-type"].partition(";")[0], len(body) > 100) == (200, kind, True)


def test_the_stream_tells_the_overview_when_it_changes(page: Page, made: MadeHome) -> None:
    """I2: and not when only time has passed."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    connection.request("GET", "/api/stream", headers={"Cookie": page.cookie})
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")

    def next_overview() -> Any:
        lines: list[bytes] = []
        while not lines or lines[-1] != b"\n":
            lines.append(answer.readline())
        assert lines[0] == b"event: overview\n"
        return json.loads(lines[1].removeprefix(b"data: "))

    assert next_overview()["pipelines"][0]["state"] != "failed"
    made.says(state="failed", last_error="out of disk")
    seen = next_overview()
    while seen["pipelines"][0]["state"] != "failed":  # rates fall meanwhile
        seen = next_overview()
    assert (seen["pipelines"][0]["state"], seen["pipelines"][0]["reason"]) == ("failed", "out of disk")
    connection.close()
    made.says(state="running")


def test_of_too_many_streams_the_newest_are_served(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """J5: whoever holds many open does not shut out the one who looks."""
    monkeypatch.setattr(serving_routes, "MOST_STREAMS", 3)
    opened = [http.client.HTTPConnection("127.0.0.1", page.port, timeout=30) for _ in range(6)]
    answers = []
    for connection in opened:
        connection.request("GET", "/api/stream", headers={"Cookie": page.cookie})
        answers.append(connection.getresponse())
        assert answers[-1].readline() == b"event: overview\n"
    for answer in answers[:3]:
        answer.read()  # it ends
    for connection, answer in zip(opened[3:], answers[3:], strict=True):
        assert answer.readline().startswith(b"data: ")
        assert connection.sock is not None
    for connection in opened:
        connection.close()


def test_of_too_many_connections_the_oldest_that_ask_for_nothing_are_closed(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J5: silent ones, and half requests, are anybody's; whoever has the address is let in, and keeps what it asked."""
    asking = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    asking.request("GET", "/api/stream", headers={"Cookie": page.cookie})
    answer = asking.getresponse()
    assert answer.readline() == b"event: overview\n"
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 5)
    silent = [socket.create_connection(("127.0.0.1", page.port), timeout=30) for _ in range(12)]
    silent[3].sendall(b"GET / HTTP/1.1\r\nHost: 127")
    for _ in range(3):
        assert page.ask("/api/overview")[0] == 200
    for passive in silent[:8]:
        with suppress(ConnectionResetError):
            assert passive.recv(1) == b""
    assert answer.readline().startswith(b"data: ")
    assert asking.sock is not None
    for passive in silent:
        passive.close()
    asking.close()


class TestWhoIsLetIn:
    """Every user of a machine reaches its ports; a home may be one user's alone (mode 700)."""

    ANYTHING = ("/", "/api/overview", "/api/stream", "/api/pipelines/orders", "/static/app.js", "/nothing")

    @pytest.mark.parametrize("path", ANYTHING)
    def test_who_does_not_have_the_address_sees_nothing(self, page: Page, path: str) -> None:
        """J5."""
        for told in ("", "?token=", f"?token={TOKEN}x", f"?token={TOKEN[:-1]}", f"?token=x&token={TOKEN}"):
            status, headers, body = page.ask(f"{path}{told}", known=False)
            assert (status, b"orders" in body, "set-cookie" in headers) == (403, False, False)
            assert b"as onceward ui prints it" in body
        for cookie in (
            f"{cookie_of(page.port)}=x",
            f"{cookie_of(page.port + 1)}={TOKEN}",
            '"',
            f"a={TOKEN}",
            "\u00e9=",
        ):
            assert page.ask(path, known=False, Cookie=cookie)[0] == 403

    @pytest.mark.parametrize("path", ["/", "/api/overview", "/static/app.js"])
    def test_who_has_it_is_let_in_and_needs_it_once(self, page: Page, path: str) -> None:
        status, headers, _ = page.ask(f"{path}?token={TOKEN}", known=False)
        assert status == 200
        assert headers["set-cookie"] == f"{cookie_of(page.port)}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
        assert headers["referrer-policy"] == "no-referrer"
        cookie = headers["set-cookie"].partition(";")[0]
        status, headers, _ = page.ask("/api/overview", known=False, Cookie=cookie)
        assert (status, "set-cookie" in headers) == (200, False)

    def test_each_start_has_another_token_that_nobody_guesses(self) -> None:
        assert len({new_token() for _ in range(100)}) == 100
        assert min(len(new_token()) for _ in range(100)) >= 43  # 256 bits


@pytest.mark.parametrize("number", ["9" * 12, "9" * 13, "9" * 400, "9" * 5000, "-1", "1e3", "\u0661", "+1", "0x1"])
def test_a_number_that_no_epoch_has_is_answered_and_looks_for_nothing(page: Page, number: str) -> None:
    """J5: neither Python's own limit for texts of digits, nor a file name that is too long."""
    path = f"/api/pipelines/orders/epochs/{quote(number)}"
    status, says = page.error(path)
    assert (status, len(says) < 120) == (404, True)
    status = page.ask(f"/api/pipelines/orders/epochs?from={quote(number)}&to={quote(number)}")[0]
    assert status == (200 if number == "9" * 12 else 400)


def test_a_port_that_is_taken_is_told_with_the_way_out() -> None:
    with bound(0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1 .*--port N"):
            bound(port)


def test_it_listens_on_this_machine_alone() -> None:
    with bound(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
        assert listening.family is socket.AF_INET
