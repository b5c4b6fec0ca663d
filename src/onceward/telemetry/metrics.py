"""The way to Prometheus' metrics, whether or not its client is installed; and the endpoint that serves them."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from onceward.epoch.observing import blame
from onceward.errors import DependencyMissing

if TYPE_CHECKING:
    from onceward.telemetry.prometheus import Metering, Metrics

LOCAL: Final = "127.0.0.1"  # who wants it reachable from elsewhere says so


def is_installed() -> bool:
    return find_spec("prometheus_client") is not None


def require_installed() -> None:
    """Or say what to do, in a line."""
    if not is_installed():
        raise DependencyMissing("metrics need prometheus-client: pip install 'onceward[metrics]'")


def metering(pipeline: str) -> "Metering | None":
    """For a pipeline that is being started; None where the client is not installed, or does not work."""
    if not is_installed():
        return None
    try:
        from onceward.telemetry.prometheus import books
    except Exception as error:  # noqa: BLE001 - a pipeline runs without being measured
        blame("Prometheus' client", error)
        return None
    return books().of(pipeline)


def of_pipeline(pipeline: str) -> "Metrics":
    """What `query.metrics()` gives."""
    require_installed()
    from onceward.telemetry.prometheus import Metrics, books

    return Metrics(books().registry, pipeline)


def address(text: str) -> tuple[str, int]:
    """Of `PORT` or `HOST:PORT`; `[::1]:PORT` for IPv6. Port 0: any that is free."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is neither PORT nor HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or LOCAL, int(port)


@contextmanager
def endpoint(host: str, port: int) -> Iterator[str]:
    """Serve every pipeline of this process at the address that is given back. `OSError`: the port is not to be had."""
    from prometheus_client import start_http_server

    from onceward.telemetry.prometheus import books

    server, thread = start_http_server(port, addr=host, registry=books().registry)
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
