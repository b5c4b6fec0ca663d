"""The page and its JSON, on this machine only. Everything that reads files is done beside the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from onceward.dashboard.guard import Guard
from onceward.dashboard.model import Overview
from onceward.dashboard.watch import MOST_EPOCHS, Watch, Watched
from onceward.errors import OncewardError

STATIC: Final = Path(__file__).parent / "static"
EPOCHS: Final = 300  # in an answer, unless more are asked for
STREAM_S: Final = 1.0
PING_S: Final = 15.0
MOST_STREAMS: Final = 20  # whoever comes later takes the oldest one's place, and is not shut out
EPOCH_DIGITS: Final = 12  # as in the names of a ledger's files


class Pages:
    """The routes."""

    def __init__(self, watch: Watch, is_over: Callable[[], bool]) -> None:
        self._watch = watch
        self._is_over = is_over
        self._streams: list[object] = []  # the oldest first

    async def page(self, _request: Request) -> Response:
        """The page itself."""
        return FileResponse(STATIC / "index.html")

    async def overview(self, _request: Request) -> Response:
        """Every pipeline."""
        return _answer(await run_in_threadpool(self._watch.overview))

    async def pipeline(self, request: Request) -> Response:
        """One of them."""
        return _answer(await run_in_threadpool((await self._found(request)).detail, _now()))

    async def epochs(self, request: Request) -> Response:
        """Columns for its charts."""
        first, last = _number(request, "from"), _number(request, "to")
        limit = _number(request, "limit") or EPOCHS
        watched = await self._found(request)
        return _answer(await run_in_threadpool(watched.epochs, _now(), first, last, min(limit, MOST_EPOCHS)))

    async def epoch(self, request: Request) -> Response:
        """One epoch in full."""
        number = _whole(request.path_params["epoch"])
        watched = await self._found(request)
        found = await run_in_threadpool(watched.epoch, _now(), number) if number is not None else None
        if found is None:
            epoch = request.path_params["epoch"][:40]
            raise HTTPException(404, f"{watched.id} has no epoch {epoch} in its ledger, or no longer")
        return _answer(found)

    async def kafka(self, _request: Request) -> Response:
        """Kafka's transactions."""
        facts = await run_in_threadpool(self._watch.kafka)
        if facts is None:
            raise HTTPException(404, "no Kafka was named: start with --kafka HOST:PORT")
        return _answer(facts)

    async def stream(self, _request: Request) -> Response:
        """The overview again and again, whenever it has changed."""
        mine = object()
        self._streams = [*self._streams, mine][-MOST_STREAMS:]
        return StreamingResponse(self._events(mine), media_type="text/event-stream")

    async def _events(self, mine: object) -> AsyncIterator[bytes]:
        shown, silent = b"", 0.0
        try:
            while not self._is_over() and mine in self._streams:
                overview = await run_in_threadpool(self._watch.overview)
                now = _unchanging(overview)
                if now != shown:
                    yield b"event: overview\ndata: " + msgspec.json.encode(overview) + b"\n\n"
                    shown, silent = now, 0.0
                elif silent >= PING_S:
                    yield b": still here\n\n"
                    silent = 0.0
                await asyncio.sleep(STREAM_S)
                silent += STREAM_S
        finally:
            self._streams = [it for it in self._streams if it is not mine]

    async def _found(self, request: Request) -> Watched:
        id_ = request.path_params["id"]
        found = await run_in_threadpool(self._watch.find, id_)
        if found is None:
            raise HTTPException(404, f"there is no pipeline {id_!r} here")
        return found


def app_of(watch: Watch, token: str, port: int, *, is_over: Callable[[], bool] = lambda: False) -> Starlette:
    """The application, for any ASGI server. `token`: who has it is answered. `is_over`: streams are to end."""
    pages = Pages(watch, is_over)
    routes = [
        Route("/", pages.page),
        Mount("/static", StaticFiles(directory=STATIC, check_dir=False)),
        Route("/api/overview", pages.overview),
        Route("/api/stream", pages.stream),
        Route("/api/kafka", pages.kafka),
        Route("/api/pipelines/{id}", pages.pipeline),
        Route("/api/pipelines/{id}/epochs", pages.epochs),
        Route("/api/pipelines/{id}/epochs/{epoch}", pages.epoch),
    ]
    handlers: dict[Any, Any] = {HTTPException: _refused, OncewardError: _failed, OSError: _failed}
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token, port=port)], exception_handlers=handlers)


async def _refused(_request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code)


async def _failed(_request: Request, error: Exception) -> Response:
    """A home that is damaged or going while it is read."""
    return JSONResponse({"error": str(error)}, 503)


def _answer(facts: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(facts), media_type="application/json")


def _unchanging(overview: Overview) -> bytes:
    """The overview without what changes by itself."""
    still = [msgspec.structs.replace(it, last_commit_age_s=None) for it in overview.pipelines]
    return msgspec.json.encode(msgspec.structs.replace(overview, at="", pipelines=still))


def _now() -> datetime:
    return datetime.now(UTC)


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    if (number := _whole(text)) is None:
        raise HTTPException(400, f"{name}={text[:40]} is no number of an epoch")
    return number


def _whole(text: str) -> int | None:
    """As large as an epoch's number may be; None: it is none."""
    return int(text) if len(text) <= EPOCH_DIGITS and text.isascii() and text.isdecimal() else None
