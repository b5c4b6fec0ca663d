"""A standalone Spark cluster whose workers share neither directories nor environment with the driver.

Spark's own scripts start it, from pip's package. Each of its processes has a mount namespace of its own, in which the
virtual environment, this repository, the cache and the driver's folders are empty, and which has a folder that nobody
else sees. Workers have addresses of their own (Linux answers for all of 127.0.0.0/8), so that errors can name them.
"""

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from shlex import quote

import pyspark
import pytest

import onceward
from onceward import processes
from onceward.jars.cache import cache_root
from support.waiting import eventually

PYTHON = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")  # the workers' own
WORKERS = ("127.0.0.2", "127.0.0.3")
EXECUTOR = "CoarseGrainedExecutorBackend"
LEFT_OUT = {"..", "__pycache__", "tests", "include"}
PACKED = ("google-crc32c", "kafka-python", "msgspec", "numpy", "pyarrow")  # what tasks of the Kafka sink need


def require_namespaces() -> None:
    """Skip where nobody may make mount namespaces, as in most containers."""
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        pytest.skip("this machine has no unshare(1) and mount(8): workers cannot be kept apart from the driver")
    tried = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"no mount namespaces here (they need root): {tried.stderr.strip()}")


def packed_environment(target: Path) -> Path:
    """What docs/deploy/standalone.md packs, less what these tests do not use: a tar of installed packages."""
    source = Path(onceward.__file__).parent
    with tarfile.open(target, "w") as archive:
        archive.add(source, "onceward", filter=lambda it: None if "__pycache__" in it.name else it)
        for name in PACKED:
            for file in distribution(name).files or []:
                if not LEFT_OUT & set(file.parts) and "flight" not in file.name:
                    archive.add(str(file.locate()), str(file))
    return target


@dataclass
class StandaloneCluster:
    """A master and two workers of one core each."""

    folder: Path
    hidden: Iterable[Path]
    url: str = ""
    conf: Path = field(init=False)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.conf = self.folder / "conf"
        self.conf.mkdir(parents=True)
        self.private.mkdir()
        (self.folder / "spark").mkdir()
        (self.folder / "own").mkdir()
        defaults = self.conf / "spark-defaults.conf"
        defaults.touch(0o600)
        defaults.write_text(
            "spark.authenticate true\n"
            f"spark.authenticate.secret {secrets.token_hex(16)}\n"
            "spark.network.crypto.enabled true\n"
        )

    @property
    def private(self) -> Path:
        """A folder of each worker's own: the same path, other files."""
        return self.folder / "private"

    def own(self, name: str) -> Path:
        """Where those files are, as this process sees them; no worker sees another's."""
        return self.folder / "own" / name

    def start(self) -> None:
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = self._told("master", r"Starting Spark master at (spark://\S+)")
        for host in WORKERS:
            self.start_worker(host)
        for host in WORKERS:
            self._told(host, "Successfully registered with master")

    def start_worker(self, host: str) -> None:
        work = str(self.private / "work")
        self._start(
            host, "worker.Worker", "--host", host, "--cores", "1", "--memory", "700m", "--work-dir", work, self.url
        )

    def sees(self, host: str, path: Path) -> bool:
        """Whether there is such a file for this worker."""
        return (Path(f"/proc/{self._running[host].pid}/root") / path.relative_to("/")).exists()

    def kill_executor(self, host: str) -> None:
        """SIGKILL to the worker's executor and its Python workers; the worker lives and starts another."""
        for pid in processes.family(self._running[host].pid):
            if EXECUTOR in processes.command(pid):
                processes.send(processes.family(pid)[::-1], signal.SIGKILL)
                return
        raise AssertionError(f"no executor on {host}\n{self.log(host)[-3000:]}")

    def kill_worker(self, host: str) -> None:
        """SIGKILL to the worker and all that it has started."""
        running = self._running.pop(host)
        processes.send(processes.family(running.pid), signal.SIGKILL)
        running.wait(30)

    def stop(self) -> None:
        for name in list(self._running):
            self.kill_worker(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def _start(self, name: str, role: str, *arguments: str) -> None:
        spark = self.folder / "spark"
        self.own(name).mkdir(parents=True, exist_ok=True)
        shown = {Path(pyspark.__file__).resolve().parent: spark, self.own(name): self.private}
        steps = [
            *(f"mount --bind {quote(str(source))} {quote(str(target))}" for source, target in shown.items()),
            *(f"mount -t tmpfs none {quote(str(place))}" for place in (*self.hidden, self.folder / "own")),
            f"cd {quote(str(self.private))}",
            f'exec {quote(str(spark))}/bin/spark-class "$@"',  # unshare, sh and the script become the JVM
        ]
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "SPARK_HOME": str(spark),
            "SPARK_CONF_DIR": str(self.conf),
            "SPARK_DAEMON_MEMORY": "200m",
            "SPARK_LOCAL_DIRS": str(self.private),
            "TMPDIR": str(self.private),
            **{key: os.environ[key] for key in ("JAVA_HOME", "JAVA_TOOL_OPTIONS") if key in os.environ},
        }
        command = ["sh", "-ec", "\n".join(steps), "sh", f"org.apache.spark.deploy.{role}", "--webui-port", "0"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                ["unshare", "-m", *command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _told(self, name: str, pattern: str) -> str:
        def found() -> re.Match[str] | None:
            assert self._running[name].poll() is None, self.log(name)[-3000:]
            return re.search(pattern, self.log(name))

        eventually(found, f"{name} says {pattern}\n", 60)
        match = found()
        assert match is not None
        return match[match.lastindex or 0]


@contextmanager
def standalone_cluster(folder: Path, drivers: Path) -> Iterator[StandaloneCluster]:
    """`drivers`: where drivers keep their files, which no worker may see."""
    repository = Path(__file__).parents[2]
    places = [Path(sys.prefix), repository, Path(onceward.__file__).parents[1], cache_root(), drivers]
    resolved = sorted({place.resolve() for place in places if place.exists()})
    outermost = [it for it in resolved if not any(other in it.parents for other in resolved)]
    cluster = StandaloneCluster(folder, outermost)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
