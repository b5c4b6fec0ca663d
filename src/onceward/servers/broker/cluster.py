"""The dev cluster: its folder, its nodes, and how they start and stop."""

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from onceward.errors import DevBrokerError
from onceward.jars import broker_jars, java_command
from onceward.servers.broker import archive
from onceward.servers.broker.layout import Detour, Layout, taken
from onceward.servers.broker.node import FORMAT_TIMEOUT_S, POLL_S, Node, end, kill
from onceward.servers.broker.probe import ask_metadata
from onceward.servers.broker.process import Watchdog

DEFAULT_PORT: Final = 9092
SIZES: Final = (1, 3)
START_TIMEOUT_S: Final = 60.0  # 2 s on a quiet machine; a busy one with three brokers needs far more
RELEASE_S: Final = 3.0
PAUSE_S: Final = 10.0
JVM: Final = (
    "-Xmx384m",
    "-Xms128m",
    # Some 40 MB less than G1 after 3 million records, and no collector threads beside Spark on a small machine.
    # Whether one is faster than the other is not known: the runs were on a busy machine and did not agree.
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)


def _released(port: int) -> bool:
    """A killed broker's last threads may hold its port for a moment longer than the process can be seen."""
    deadline = time.monotonic() + RELEASE_S
    while taken(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def default_dir() -> Path:
    """Where `onceward kafka` keeps its cluster: the user's data folder as the XDG rules name it."""
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    base = xdg if xdg.is_absolute() else Path.home() / ".local" / "share"
    return base / "onceward" / "kafka"


class DevBroker:
    """One broker or three, in one folder.

    As a context manager the brokers belong to this process and end with it, even if it is killed.
    `start()` and `stop()` alone leave them running in between, for the command line.
    """

    def __init__(
        self,
        dir: Path | str,  # noqa: A002 - named like the command's option
        *,
        port: int | None = None,
        brokers: int | None = None,
        settings: Mapping[str, str] | None = None,
        detours: Sequence[Detour] = (),
        jvm: Sequence[str] | None = None,
        classes: Sequence[Path] = (),
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`port` 0 means free ones; None for `port` or `brokers`: what the folder has, else 9092 and 1.

        `settings`: of the server, beside ours. `detours`: one for each broker, if clients shall reach them through
        proxies too. `jvm`: options in place of the class archive's. `classes`: folders or jars with plugins.
        """
        if brokers is not None and brokers not in SIZES:
            raise DevBrokerError(f"A dev cluster has 1 or 3 brokers, not {brokers} (--brokers).")
        if port is not None and not 0 <= port <= 65_535 - max(SIZES):
            raise DevBrokerError(f"{port} is no usable port (--port).")
        self.dir = Path(dir).absolute()
        self._port = port
        self._brokers = brokers
        self._settings = dict(settings or {})
        self._detours = tuple(detours)
        self._jvm = jvm
        self._classes = tuple(classes)
        self._report = report
        self._watchdogs: dict[int, Watchdog] = {}
        self._owned = False

    def __enter__(self) -> Self:
        if self.exists() and any(self.pid(number) for number in self.layout.nodes):
            raise DevBrokerError(f"A cluster that somebody else started already runs in {self.dir}.")
        self._owned = True
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def exists(self) -> bool:
        return Layout.read(self.dir) is not None

    @property
    def layout(self) -> Layout:
        layout = Layout.read(self.dir)
        if layout is None:
            raise DevBrokerError(f"No dev cluster is in {self.dir}. `onceward kafka start` makes one (--dir).")
        return layout

    @property
    def bootstrap(self) -> str:
        return self.layout.bootstrap

    def log_dir(self, node: int = 1) -> Path:
        """The node's data: partitions, their segments, the metadata log."""
        return self._node(node).data

    def log_file(self, node: int = 1) -> Path:
        """What the node's process says."""
        return self._node(node).log_file

    def pid(self, node: int = 1) -> int | None:
        process = self._node(node).process()
        return process.pid if process else None

    def state(self, node: int = 1) -> str:
        """`stopped`, `paused`, `starting` or `ready`."""
        process = self._node(node).process()
        if process is None:
            return "stopped"
        if process.paused():
            return "paused"
        return "ready" if self._serves(self.layout, node, {node}) else "starting"

    def start(self) -> bool:
        """Start what does not run; True unless everything ran already. Returns when all brokers serve."""
        self.dir.mkdir(parents=True, exist_ok=True)
        with self._alone():
            layout = self._settle()
            missing = [number for number in layout.nodes if not self.pid(number)]
            if missing:
                self._launch(layout, missing)
            self._await_ready(layout, layout.nodes, started=missing)
            return bool(missing)

    def stop(self) -> bool:
        """Stop every node: ask, wait, then kill. True if any ran."""
        if not self.exists():
            return False
        with self._alone():
            return self._stop(self.layout.nodes)

    def kill(self, node: int = 1) -> None:
        """SIGKILL: what a crash looks like to clients and to the data."""
        kill([self._node(node).running()])
        self._dismiss(node)

    def restart(self, node: int = 1) -> None:
        """The node again, on the same data and ports; stopped first if it runs."""
        with self._alone():
            self._stop([node])
            self._launch(self.layout, [node])
            self._await_ready(self.layout, [node], started=[node])

    def pause(self, node: int = 1) -> None:
        """SIGSTOP: connections stay open and nobody answers, from when this returns."""
        process = self._node(node).running()
        process.send(signal.SIGSTOP)
        deadline = time.monotonic() + PAUSE_S
        while process.alive() and not process.paused():  # its threads stop one after the other
            if time.monotonic() > deadline:
                raise DevBrokerError(f"broker {node} has not stopped {PAUSE_S:.0f} s after SIGSTOP")
            time.sleep(POLL_S)

    def resume(self, node: int = 1) -> None:
        self._node(node).running().send(signal.SIGCONT)

    def _node(self, number: int) -> Node:
        return Node(number, self.dir / f"node-{number}")

    def _settle(self) -> Layout:
        """The layout to run with, written to the folder."""
        found = Layout.read(self.dir)
        if found is None:
            port = DEFAULT_PORT if self._port is None else self._port
            layout = Layout.new(brokers=self._brokers or 1, port=port, detours=self._detours)
        else:
            layout = self._fit(found)
        if self._detours and len(self._detours) != len(layout.nodes):
            raise DevBrokerError(f"{len(layout.nodes)} broker(s) need a detour each, not {len(self._detours)} in all.")
        idle = [number for number in layout.nodes if not self.pid(number)]
        for port in (port for number in idle for port in layout.client_ports(number)):
            if not _released(port):
                raise DevBrokerError(
                    f"Port {port} is taken by another program. Choose another with --port "
                    "(a cluster of three uses the port and the two after it)."
                )
        layout.write(self.dir)
        return layout

    def _fit(self, found: Layout) -> Layout:
        """The folder's layout as it was asked for, as far as its data and what already runs allow."""
        if self._brokers not in (None, len(found.nodes)):
            raise DevBrokerError(
                f"The cluster in {self.dir} was made with {len(found.nodes)} broker(s), not {self._brokers}. "
                "Choose another folder (--dir), or remove this one."
            )
        port = self._port or found.ports[0]
        if not any(self.pid(number) for number in found.nodes):
            return found.on(port, self._detours)
        if port != found.ports[0]:
            raise DevBrokerError(
                f"The cluster in {self.dir} already runs on port {found.ports[0]}, not {port}. "
                "Stop it first (`onceward kafka stop`), or choose another folder (--dir)."
            )
        return found

    def _launch(self, layout: Layout, numbers: Iterable[int]) -> None:
        jars = os.pathsep.join(str(jar) for jar in (*broker_jars(self._report), *self._classes))
        java = [str(java_command()), *JVM, *(archive.options() if self._jvm is None else self._jvm), "-cp", jars]
        nodes = [self._node(number) for number in numbers]
        for node in nodes:
            node.prepare(layout.properties(node.number, node.data, self._settings))
        self._format(java, layout.cluster_id, [node for node in nodes if not node.formatted.exists()])
        self._report(f"starting Kafka on {layout.bootstrap}")
        for node in nodes:
            process = node.spawn(java)
            self._dismiss(node.number)  # one that watched a process that ended by itself
            if self._owned:
                self._watchdogs[node.number] = Watchdog(process)

    def _format(self, java: list[str], cluster_id: str, fresh: list[Node]) -> None:
        """Give new nodes their identity. One that was cut short is done anew: there is no data yet."""
        for node in fresh:
            shutil.rmtree(node.data, ignore_errors=True)
        begun = [(node, node.begin_format(java, cluster_id)) for node in fresh]
        failed = [node for node, formatting in begun if not node.finish_format(formatting)]
        if failed:
            raise DevBrokerError(f"Formatting node {failed[0].number} failed. {failed[0].log_tail()}")

    def _await_ready(self, layout: Layout, numbers: Iterable[int], *, started: list[int]) -> None:
        """Each of these brokers knows all of them. A start that fails leaves nothing of itself behind."""
        deadline = time.monotonic() + START_TIMEOUT_S
        members = set(numbers)
        waiting = sorted(members)
        while waiting := [number for number in waiting if not self._serves(layout, number, members)]:
            gone = [number for number in waiting if not self.pid(number)]
            if gone or time.monotonic() > deadline:
                number = (gone or waiting)[0]
                why = "ended before it served" if gone else f"does not serve after {START_TIMEOUT_S:.0f} s"
                tail = self._node(number).log_tail()
                self._stop(started)
                raise DevBrokerError(f"Node {number} {why}. {tail}")
            time.sleep(POLL_S)

    def _serves(self, layout: Layout, number: int, members: set[int]) -> bool:
        answer = ask_metadata(layout.ports[number - 1])
        return answer is not None and answer.cluster_id == layout.cluster_id and answer.nodes >= members

    def _stop(self, numbers: Iterable[int]) -> bool:
        nodes = [self._node(number) for number in numbers]
        running = [process for process in (node.process() for node in nodes) if process]
        end(running)
        for node in nodes:
            self._dismiss(node.number)
            node.forget_process()
        return bool(running)

    def _dismiss(self, number: int) -> None:
        watchdog = self._watchdogs.pop(number, None)
        if watchdog:
            watchdog.dismiss()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One start or stop at a time; a second one waits as long as the first can take."""
        deadline = time.monotonic() + 2 * START_TIMEOUT_S + FORMAT_TIMEOUT_S
        with (self.dir / "lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise DevBrokerError(f"Another process keeps {lock.name} locked.") from None
                time.sleep(POLL_S)
            yield
