"""What a dev cluster's folder remembers: its id, its ports, and the settings of each node.

The ports stay with the folder, so a restarted cluster is found where it was.
"""

import base64
import itertools
import json
import random
import socket
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, Self

from onceward.errors import DevBrokerError
from onceward.servers.broker.probe import HOST

FORMATS: Final = (1, 2)  # 2: nodes have detours. A cluster without them is written as 1, which every version reads.
FILE_NAME: Final = "cluster.json"
# Below the ports that systems hand to outgoing connections (Linux from 32768, macOS from 49152): a client
# that keeps knocking at a stopped broker's port could otherwise be given that very port, and hold it.
FREE_PORTS: Final = range(20_000, 32_000)


class Detour(NamedTuple):
    """A second listener of a node, for clients that come through a proxy: the node tells them to stay on it."""

    listener: int  # the port that the node opens, and the proxy forwards to
    proxy: int  # the port that the node's clients are told


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    cluster_id: str
    ports: tuple[int, ...]  # of the brokers; node n has ports[n - 1]
    controller_ports: tuple[int, ...]
    detours: tuple[Detour, ...] = ()  # one per node, or none

    @classmethod
    def new(cls, *, brokers: int, port: int, detours: tuple[Detour, ...] = ()) -> Self:
        """A cluster on `port` and the ones after it, or on free ports if it is 0."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # Kafka's command line tools take a leading dash for an option.
        layout = cls(cluster_id=cluster_id.replace("-", "A", 1), ports=(), controller_ports=(0,) * brokers)
        return layout.on(port, detours)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        path = folder / FILE_NAME
        try:
            found = json.loads(path.read_bytes())
            if found.pop("format") not in FORMATS:
                raise ValueError("another format")
            detours = tuple(Detour(*pair) for pair in found.pop("detours", ()))
            found = {key: tuple(it) if isinstance(it, list) else it for key, it in found.items()}
            return cls(**found, detours=detours)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DevBrokerError(
                f"{path} cannot be read ({error}). Remove {folder} to begin anew, or choose another (--dir)."
            ) from error

    def write(self, folder: Path) -> None:
        fresh = folder / f"{FILE_NAME}.new"
        facts = {"format": FORMATS[-1], **asdict(self)}
        if not self.detours:
            facts = {key: value for key, value in facts.items() if key != "detours"} | {"format": FORMATS[0]}
        fresh.write_text(json.dumps(facts), encoding="ascii")
        fresh.replace(folder / FILE_NAME)

    def on(self, port: int, detours: tuple[Detour, ...] = ()) -> Self:
        """The same cluster with its first broker on this port, and its controllers wherever there is room."""
        brokers = len(self.controller_ports)
        used = [detour.listener for detour in detours]  # nobody listens there yet, nor on the brokers' ports
        ports = self.ports
        if not ports or port != ports[0]:
            ports = tuple(range(port, port + brokers)) if port else free_ports(brokers, besides=used)
        controllers = free_ports(brokers, besides=[*used, *ports])
        return replace(self, ports=ports, controller_ports=controllers, detours=detours)

    @property
    def nodes(self) -> range:
        return range(1, len(self.ports) + 1)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def client_ports(self, node: int) -> tuple[int, ...]:
        """Where the node listens to clients."""
        return (self.ports[node - 1], *(detour.listener for detour in self.detours[node - 1 : node]))

    def properties(self, node: int, data: Path, settings: Mapping[str, str]) -> str:
        voters = (f"{it}@{HOST}:{self.controller_ports[it - 1]}" for it in self.nodes)
        replicas, in_sync = (1, 1) if len(self.nodes) == 1 else (3, 2)
        lines = {
            "process.roles": "broker,controller",
            "node.id": node,
            **self._listeners(node),
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": data,
            "num.partitions": 4,
            "auto.create.topics.enable": "false",
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            # A transaction that timed out is aborted within half a second, not ten.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            **SMALL,
            **settings,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _listeners(self, node: int) -> dict[str, str]:
        """One for clients and the other brokers, one for controllers; and one for clients that were sent there."""
        direct, controller = (f"{HOST}:{ports[node - 1]}" for ports in (self.ports, self.controller_ports))
        lines = {
            "listeners": f"PLAINTEXT://{direct},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
        }
        if self.detours:
            detour = self.detours[node - 1]
            lines |= {
                "listeners": f"{lines['listeners']},DETOUR://{HOST}:{detour.listener}",
                "advertised.listeners": f"PLAINTEXT://{direct},DETOUR://{HOST}:{detour.proxy}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,DETOUR:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
            }
        return lines


# A broker for one person: fewer threads, smaller buffers, quick to notice a node that came back.
SMALL: Final = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    # A node that was killed may not come back before its old session has ended: 4 s, not 9.
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
}


def taken(port: int) -> bool:
    """Whether somebody listens there. SO_REUSEADDR, as Java sets it: a dying connection does not count."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return True
    return False


def free_ports(count: int, *, besides: Collection[int] = ()) -> tuple[int, ...]:
    """Ports on which nobody listens, and which are not promised to anybody (`besides`)."""
    candidates = random.SystemRandom().sample(FREE_PORTS, len(FREE_PORTS))
    free = list(itertools.islice((it for it in candidates if it not in besides and not taken(it)), count))
    if len(free) < count:
        raise DevBrokerError(f"There are no {count} free ports from {FREE_PORTS[0]} to {FREE_PORTS[-1]}.")
    return tuple(free)
