"""What a sink hands to Spark's tasks, and how it gets there without telling anybody on the way.

Spark ships functions to tasks as broadcast blocks, which it serves to whoever may connect to it. With a local master
every task runs on this machine and as this user, so that nothing needs to be shipped: what is inside a parcel stays in
the driver's memory, and tasks read it from there. On a cluster it has to travel. References such as `${env:NAME}` then
travel as they are, and what is given in clear is warned about (docs/credentials.md).
"""

import os
import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar, cast, runtime_checkable

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from onceward.errors import EpochFailed
from onceward.events import logger
from onceward.secret import Exposure

T = TypeVar("T")
_LOCAL: Final = re.compile(r"local(\[.*\])?|local-cluster\[.*\]")

log = logger("onceward.credentials")


def is_local(master: str) -> bool:
    """Every task runs on this machine."""
    return _LOCAL.fullmatch(master) is not None


def is_local_cluster(master: str) -> bool:
    """So they do, in executors that are processes of their own."""
    return is_local(master) and master.startswith("local-cluster")


@runtime_checkable
class Exposed(Protocol):
    """A function for tasks that knows whether there are credentials in it."""

    @property
    def exposure(self) -> Exposure:
        """What somebody who reads it learns."""


@dataclass(frozen=True, slots=True)
class Parcel(Generic[T]):
    """Shipped to tasks in place of what is in it: the path where the driver keeps it, or itself."""

    path: str | None
    content: T | None = field(default=None, repr=False)
    name: str = ""  # of this parcel and no other: a task of an older job must never open a newer job's

    def open(self) -> T:
        """What is in it; in a task, or in the driver."""
        if self.path is None:
            return cast("T", self.content)
        try:
            with os.fdopen(open_kept(self.path, self.name, os.O_RDONLY), "rb") as file:
                data = file.read()
        except OSError as error:
            raise EpochFailed(
                f"a task cannot read its work from the driver's memory ({error}). Its job is over; or Spark's "
                "processes run as several users or see another /proc, which a local master must not"
            ) from error
        name, content = cloudpickle.loads(data)
        if name != self.name:
            raise EpochFailed(f"{self.path} holds the work of another job by now: this task's job is over")
        return cast("T", content)


@contextmanager
def packed(spark: SparkSession, content: T) -> Iterator[Parcel[T]]:
    """A parcel for the tasks of one job; it cannot be opened any more when the block is left."""
    if not is_local(spark.sparkContext.master or ""):
        warn(spark.sparkContext, content)
        yield Parcel(None, content)
        return
    name = f"onceward-{uuid.uuid4().hex}"
    with kept_in_memory(name, cloudpickle.dumps((name, content))) as path:  # type: ignore[no-untyped-call]
        yield Parcel(path, name=name)


def warn(context: SparkContext, content: object) -> None:
    """One line for each way in which credentials can be read on a cluster, once for each application."""
    exposure = content.exposure if isinstance(content, Exposed) else Exposure.NOTHING
    said = _warned.setdefault(str(context.applicationId), set())
    for text in warnings(exposure, dict(context.getConf().getAll())):
        if text not in said:
            said.add(text)
            log.warning(text, extra={"event": "credentials_readable"})


def warnings(exposure: Exposure, conf: dict[str, str]) -> list[str]:
    """What should be said of sinks with credentials in a session with these settings."""
    if exposure is Exposure.NOTHING:
        return []
    found = []
    wanted = [name for name in ("spark.authenticate", _ENCRYPTION[0]) if conf.get(name, "false").lower() != "true"]
    if any(conf.get(name, "false").lower() == "true" for name in _ENCRYPTION):
        wanted = [name for name in wanted if name != _ENCRYPTION[0]]
    if wanted:
        found.append(
            "sinks have credentials, and Spark's processes talk to each other where others can listen or join: set "
            f"{' and '.join(f'{name}=true' for name in wanted)} (docs/credentials.md)"
        )
    if exposure is Exposure.CLEAR:
        found.append(
            "sinks have passwords in clear, which travel to Spark's executors with every epoch: give them as "
            "'${env:NAME}' or '${file:/path}', which each executor looks up for itself (docs/credentials.md)"
        )
    return found


_ENCRYPTION: Final = (
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
)
_warned: dict[str, set[str]] = {}


@contextmanager
def kept_in_memory(name: str, data: bytes) -> Iterator[str]:
    """In memory, where other processes of this user can open it; gone with this process at the latest."""
    if not _has_memory_files():
        with _file(data) as path:
            yield path
        return
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def open_kept(path: str, name: str, flags: int) -> int:
    """A descriptor of what is kept in memory under that name; whatever else the path leads to by now is left alone.

    A path is a number in the driver's table of open files. When a job is over the number may become any other file's,
    and a task that its job has left behind must neither read that one nor write into it, nor wait at a pipe: so it
    looks before it opens, and again at what it has opened.
    """
    _require_kept(path, path, name)
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        _require_kept(f"/proc/self/fd/{descriptor}", path, name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_kept(link: str, path: str, name: str) -> None:
    if path.startswith("/proc/") and name not in str(Path(link).readlink()):
        raise FileNotFoundError(f"{path} is something else by now")


def _has_memory_files() -> bool:
    """On Linux, unless this program runs with rights of its own: the system then gives its /proc to root."""
    mine = Path(f"/proc/{os.getpid()}")
    return hasattr(os, "memfd_create") and mine.exists() and mine.stat().st_uid == os.geteuid()


@contextmanager
def _file(data: bytes) -> Iterator[str]:
    """Where there is no such memory: a file that only this user can read, for as long as the job runs."""
    descriptor, path = tempfile.mkstemp(prefix="onceward-work-")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        with suppress(FileNotFoundError):
            Path(path).unlink()
