"""Which Kafka a command talks to: the one that was named, or the development broker that runs here."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.errors import BrokerUnreachable, ConfigurationError
from onceward.servers.broker import DevBroker, default_dir

if TYPE_CHECKING:
    from onceward.kafka.wire import Wire

KNOCK_S: Final = 5.0

KafkaOption = Annotated[
    str | None,
    typer.Option("--kafka", metavar="HOST:PORT", help="The brokers. Default: the development broker that runs here."),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option("--setting", metavar="NAME=VALUE", help="A Kafka client setting, such as security.protocol=SSL."),
]
DirOption = Annotated[
    Path | None, typer.Option("--dir", help="The development cluster's folder. Default: the user's data folder.")
]


@contextmanager
def connected(kafka: str | None, settings: list[str] | None, folder: Path | None) -> "Iterator[Wire]":
    """To the named brokers, or to the development broker of the folder; closed at the end."""
    from onceward.kafka.admission import require_admission

    if kafka is None and settings:
        raise typer.BadParameter("--setting goes with --kafka HOST:PORT")
    if kafka is not None and folder is not None:
        raise typer.BadParameter("--kafka and --dir exclude each other: one names the brokers, the other a folder")
    with wire_to(kafka or _running(folder or default_dir()), settings) as wire:
        _knock(wire.cluster.bootstrap)
        require_admission(wire.cluster.bootstrap, wire.cluster.settings)
        yield wire


@contextmanager
def wire_to(bootstrap: str, settings: list[str] | None) -> "Iterator[Wire]":
    """Settings as the user gave them: NAME=VALUE."""
    from onceward.kafka.wire import Cluster, Wire

    wire = Wire(Cluster(bootstrap, named_values("--setting", settings)))
    try:
        yield wire
    finally:
        wire.close()


def named_values(option: str, texts: list[str] | None) -> dict[str, str]:
    """What an option that is NAME=VALUE, and may be given more than once, says."""
    pairs = [text.partition("=") for text in texts or []]
    if not all(name and equals for name, equals, _ in pairs):
        raise typer.BadParameter(f"{option} is NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _running(folder: Path) -> str:
    broker = DevBroker(folder)
    start = "onceward kafka start" if folder == default_dir() else f"onceward kafka start --dir {folder}"
    if not broker.exists():
        raise ConfigurationError(f"no Kafka is named, and none was started here. Start one: {start}. Or name yours: "
                                 "--kafka HOST:PORT")  # fmt: skip
    if not any(broker.pid(node) for node in broker.layout.nodes):
        raise ConfigurationError(f"the development Kafka in {broker.dir} does not run. Start it: {start}")
    return broker.bootstrap


def _knock(bootstrap: str) -> None:
    """An address where nobody listens is told at once: who restarts brokers would be waited for, a typing error not."""
    reasons = []
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{server.strip()}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise BrokerUnreachable(f"no Kafka answers ({'; '.join(reasons)}); check the address, and that the broker runs")
