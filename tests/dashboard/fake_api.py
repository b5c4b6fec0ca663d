"""The dashboard's JSON API over made-up pipelines that move: for working on the page, and for tests of how it looks.

By hand: `PYTHONPATH=tests python -m dashboard.fake_api --pipelines 50 --port 8700`, then open http://127.0.0.1:8700.
"""

import argparse
import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dashboard.fake_world import Fake, World

STATIC: Final = Path(__file__).parents[2] / "src/onceward/dashboard/static"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def app_of(world: World) -> Starlette:  # noqa: C901 - a list of small answers
    """The API of the world, and the page."""

    def error(status: int, text: str) -> JSONResponse:
        return JSONResponse({"error": text}, status)

    def found(request: Request) -> Fake | JSONResponse:
        it = world.find(request.path_params["id"])
        if it is None:
            return error(404, f"no pipeline {request.path_params['id']!r} is known here")
        return error(503, f"/srv/onceward/{it.name} is not there") if it.id in world.away else it

    async def overview(_: Request) -> JSONResponse:
        return JSONResponse(world.overview())

    async def pipeline(request: Request) -> JSONResponse:
        it = found(request)
        return it if isinstance(it, JSONResponse) else JSONResponse(world.detail(it))

    async def epochs(request: Request) -> JSONResponse:
        it = found(request)
        if isinstance(it, JSONResponse):
            return it
        asked = {name: int(value) for name, value in request.query_params.items()}
        limit = min(2000, asked.get("limit", 300))
        return JSONResponse(world.columns(it, asked.get("from"), asked.get("to"), limit))

    async def epoch(request: Request) -> JSONResponse:
        it = found(request)
        return it if isinstance(it, JSONResponse) else JSONResponse(world.epoch(it, int(request.path_params["n"])))

    async def kafka(_: Request) -> JSONResponse:
        facts = world.kafka_facts()
        return error(404, "no Kafka was named") if facts is None else JSONResponse(facts)

    async def stream(request: Request) -> StreamingResponse:
        async def events() -> AsyncIterator[str]:
            while not await request.is_disconnected():
                yield f"event: overview\ndata: {json.dumps(world.overview())}\n\n"
                await asyncio.sleep(1)

        return StreamingResponse(events(), media_type="text/event-stream")

    async def page(_: Request) -> FileResponse:
        return FileResponse(STATIC / "index.html")

    routes = [
        Route("/", page),
        Route("/api/overview", overview),
        Route("/api/stream", stream),
        Route("/api/kafka", kafka),
        Route("/api/pipelines/{id}", pipeline),
        Route("/api/pipelines/{id}/epochs", epochs),
        Route("/api/pipelines/{id}/epochs/{n:int}", epoch),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_Policy)])


class _Policy:
    """Every answer carries the policy that docs/decisions/0021 names."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def dressed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"content-security-policy", POLICY.encode()),
                    (b"cache-control", b"no-cache"),
                ]
            await send(message)

        await self.app(scope, receive, dressed)


class Served:
    """The world on a port of 127.0.0.1, in a thread; it can go away and come back on the same port."""

    def __init__(self, world: World, port: int = 0) -> None:
        self.world = world
        self.port = port
        self.back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def back(self) -> None:
        config = uvicorn.Config(
            app_of(self.world),
            host="127.0.0.1",
            port=self.port,
            log_level="critical",
            timeout_graceful_shutdown=1,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            assert self._thread.is_alive(), "the fake API ended"
            assert time.monotonic() < deadline, "the fake API did not start"
            threading.Event().wait(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def away(self) -> None:
        self._server.should_exit = self._server.force_exit = True  # open streams never end by themselves
        self._thread.join(10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=6)
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--hostile", action="store_true")
    asked = parser.parse_args()
    uvicorn.run(
        app_of(World(asked.pipelines, hostile=asked.hostile)), host="127.0.0.1", port=asked.port, log_level="warning"
    )
