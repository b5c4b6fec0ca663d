"""Who may ask, for what, and what a browser may do with the answer: in front of every route."""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A page elsewhere may point its own name at 127.0.0.1 (DNS rebinding): it then asks with that name.
NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
METHODS: Final = frozenset({"GET", "HEAD"})
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"  # docs/decisions/0021
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Refuses what is not a look from this machine, under one of its own names, by who has been given the address.

    Every user of the machine reaches the port; the homes may be one user's own. So the address has a token in it, and a
    browser that came with it gets a cookie: links and reloads need none.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._cookie = cookie_of(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        given = self._fits(_of_query(scope))
        refusal = _refusal(scope)
        if refusal is None and not given and not self._fits(_of_cookie(scope, self._cookie)):
            refusal = JSONResponse(
                {"error": "this page is for who has its address: open it as onceward ui prints it"}, 403
            )

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers["Cache-Control"] = "no-store" if scope["path"].startswith("/api/") else "no-cache"
                if given and refusal is None:
                    headers["Set-Cookie"] = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
            await send(message)

        await (refusal or self._app)(scope, receive, send_guarded)

    def _fits(self, told: str) -> bool:
        return hmac.compare_digest(told.encode(), self._token)  # takes as long for any guess


def new_token() -> str:
    """Nobody guesses it."""
    return secrets.token_urlsafe(32)


def cookie_of(port: int) -> str:
    """Cookies do not know ports: two pages of one machine must not overwrite each other's."""
    return f"onceward-ui-{port}"


def _of_query(scope: Scope) -> str:
    return next(iter(parse_qs(scope["query_string"].decode("latin-1")).get("token", [])), "")


def _of_cookie(scope: Scope, name: str) -> str:
    for header, value in scope["headers"]:
        if header == b"cookie":
            try:
                found = SimpleCookie(value.decode("latin-1")).get(name)
            except CookieError:
                continue
            if found is not None:
                return found.value
    return ""


def _refusal(scope: Scope) -> JSONResponse | None:
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or _name_of(hosts[0]) not in NAMES:
        return JSONResponse({"error": "ask for this page as http://127.0.0.1 or http://localhost"}, 403)
    if scope["method"] not in METHODS:
        return JSONResponse({"error": "this page only shows: GET alone is answered"}, 405, {"Allow": "GET, HEAD"})
    return None


def _name_of(host: str) -> str:
    """Without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()
