"""The server's socket and its life: on 127.0.0.1 and nowhere else, until somebody interrupts it."""

import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from onceward.errors import ConfigurationError, DependencyMissing

if TYPE_CHECKING:
    import uvicorn

    from onceward.dashboard.watch import Watch

LOCAL: Final = "127.0.0.1"
NEEDED: Final = ("starlette", "uvicorn")
GRACE_S: Final = 5  # streams end within a second


def require_installed() -> None:
    """Or say what to do, in a line."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise DependencyMissing(f"the page needs {' and '.join(missing)}: pip install 'onceward[ui]'")


def bound(port: int) -> socket.socket:
    """A listening socket; port 0: any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOCAL, port))
        listening.listen()  # from here on whoever asks waits, and is not refused
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"port {port} of {LOCAL} is not to be had ({error.strerror}); choose another: --port N, or --port 0 for "
            "any that is free"
        ) from error
    return listening


def serve(watch: "Watch", listening: socket.socket, started: Callable[[str], None]) -> None:
    """Until SIGINT or SIGTERM. `started` is told the page's address; nobody is let in with another one."""
    from onceward.dashboard.guard import new_token

    token, port = new_token(), listening.getsockname()[1]
    server = server_of(watch, token, port)
    started(f"http://{LOCAL}:{port}/?token={token}")
    server.run(sockets=[listening])


def server_of(watch: "Watch", token: str, port: int) -> "uvicorn.Server":
    """Not listening yet."""
    import uvicorn

    from onceward.dashboard.connections import Connection
    from onceward.dashboard.server import app_of

    config = uvicorn.Config(
        app_of(watch, token, port, is_over=lambda: server.should_exit),
        http=Connection,
        log_level="warning",
        access_log=False,  # it would hold the token
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)
    return server
