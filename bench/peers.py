"""The systems that Onceward is measured against, in environments of their own.

    python -m bench.peers [status|install|remove]

PyFlink goes into a virtual environment in the user's cache, from the versions in bench/pyflink.requirements.txt; its
Kafka connector comes by its Maven coordinates, pinned by its SHA-256, as Onceward's own jars do. A peer that is not
installed is left out of a benchmark, with a line that says so.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onceward.errors import OncewardError
from onceward.jars.cache import cache_root, jars_of
from onceward.jars.java import java_command
from onceward.jars.lock import JarLock

VERSION = "2.2.1"
SYSTEMS = ("pyflink", "pyflink-tuned")
FOLDER = Path(__file__).parent
REQUIREMENTS = FOLDER / "pyflink.requirements.txt"
LOCK = FOLDER / "pyflink.xml"
PYTHONS = ("python3.11", "python3.12", "python3.10")  # that PyFlink 2.2 runs on
INSTALL_S = 1800


class PeerUnavailable(OncewardError):
    """A peer cannot be installed here; the message says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """PyFlink, installed."""

    home: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    def command(self) -> list[str]:
        return [str(self.python), "-m", "bench.flink_job"]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "FLINK_HOME"}}
        logs = self.home / "log"
        logs.mkdir(exist_ok=True)
        return {
            **kept,
            "JAVA_HOME": str(java_command().resolve().parents[1]),
            "FLINK_LOG_DIR": str(logs),
            # A Python inside the JVM does not know that it is one of a virtual environment.
            "PYTHONPATH": str(self.libraries().parents[1]),
        }

    def libraries(self) -> Path:
        (found,) = self.home.glob("lib/python*/site-packages/pyflink/lib")
        return found


def home() -> Path:
    return cache_root().parent / "peers" / f"pyflink-{VERSION}"


def installed() -> Peer | None:
    peer = Peer(home())
    return peer if (peer.home / "ready").exists() else None


def install() -> Peer:
    """As a whole or not at all: what was begun and not finished is begun anew."""
    if (found := installed()) is not None:
        return found
    peer = Peer(home())
    shutil.rmtree(peer.home, ignore_errors=True)
    peer.home.parent.mkdir(parents=True, exist_ok=True)
    _run([_python(), "-m", "venv", str(peer.home)], "its virtual environment cannot be made")
    pip = [str(peer.python), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    # Some of its packages are built here, by a setuptools that still has what they ask for.
    _run([*pip, "setuptools<81", "wheel"], "its packages cannot be had")
    _run([*pip, "--no-deps", "-r", str(REQUIREMENTS)], "its packages cannot be had")
    for jar in jars_of(JarLock.read(LOCK)):
        shutil.copy(jar, peer.libraries() / jar.name)
    (peer.home / "ready").touch()
    return peer


def _python() -> str:
    """Onceward runs on newer Pythons than PyFlink does."""
    for name in PYTHONS:
        path = shutil.which(name)
        if path is not None and _works(path):
            return path
    raise PeerUnavailable(f"PyFlink {VERSION} needs one of {', '.join(PYTHONS)} on PATH")


def _works(python: str) -> bool:
    """A version manager's shim may stand for a Python that is not there."""
    tried = subprocess.run([python, "-c", "import venv"], capture_output=True, check=False, timeout=60)
    return tried.returncode == 0


def _run(command: Sequence[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S)
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise PeerUnavailable(f"PyFlink {VERSION}: {failure}:\n{last}")


def main() -> None:
    asked = sys.argv[1] if len(sys.argv) > 1 else "status"
    try:
        if asked == "install":
            print(f"PyFlink {VERSION} is in {install().home}")
        elif asked == "remove":
            shutil.rmtree(home(), ignore_errors=True)
        elif asked == "status":
            found = installed()
            print(f"PyFlink {VERSION}: {found.home if found else 'not installed (python -m bench.peers install)'}")
        else:
            raise SystemExit(__doc__)
    except OncewardError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
