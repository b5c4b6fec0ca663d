"""Who may ask, for what, and what a browser may do with the answer: in front of every route."""

from typing import Final

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
    """Refuses what is not a look from this machine under one of its own names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers["Cache-Control"] = "no-store" if scope["path"].startswith("/api/") else "no-cache"
            await send(message)

        refusal = _refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)


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
