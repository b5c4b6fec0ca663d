"""Is this broker ready? Only an answer to a Metadata request counts: a port opens earlier."""

import socket
import struct
from dataclasses import dataclass

HOST = "127.0.0.1"
METADATA, VERSION = 3, 4
TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    cluster_id: str
    nodes: frozenset[int]  # the brokers that the controller has let in


def ask_metadata(port: int) -> MetadataAnswer | None:
    """What the broker on this port says about its cluster; None if nothing there speaks Kafka (yet).

    By hand, because the wire proper follows leaders and retries: here one broker is asked, once.
    """
    client = b"onceward-dev"
    body = struct.pack(f">hhih{len(client)}s", METADATA, VERSION, 1, len(client), client)
    body += struct.pack(">ib", 0, 0)  # no topics, create none
    try:
        with socket.create_connection((HOST, port), timeout=TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                return _decode(answer.read(min(size, 1 << 20)))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _decode(answer: bytes) -> MetadataAnswer:
    at = 8  # correlation id, throttle time
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    nodes = set()
    for _ in range(count):
        (node,) = struct.unpack_from(">i", answer, at)
        nodes.add(node)
        _, at = _string(answer, at + 4)  # host
        _, at = _string(answer, at + 4)  # port, rack
    cluster_id, _ = _string(answer, at)
    return MetadataAnswer(cluster_id, frozenset(nodes))


def _string(answer: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + max(length, 0)  # -1 is null
    return answer[at + 2 : end].decode(), end
