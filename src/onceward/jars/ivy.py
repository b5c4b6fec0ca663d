"""Fetching through Ivy, which ships inside PySpark and knows where jars live; we name no address."""

import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from onceward.errors import JarsUnavailable
from onceward.jars.java import java_command
from onceward.jars.lock import JarLock
from onceward.jars.spark import spark_jars

SETTINGS_VARIABLE = "ONCEWARD_IVY_SETTINGS"
MIRROR_HINT = f"To use a mirror, name an Ivy settings file of yours in {SETTINGS_VARIABLE}."
FETCH_TIMEOUT_S = 600  # the broker's jars take half a minute on a common line; this one is slow or dead
ATTEMPTS = 2  # one dropped connection should not need a person; Ivy keeps what it already has
KEPT_LINES = 200


def retrieve(lock: JarLock, into: Path, *, work: Path, report: Callable[[str], None]) -> None:
    """All jars of the lock into the folder `into`; Ivy's own cache stays inside `work`."""
    command = [
        *(str(java_command()), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *_settings(),
        *("-cache", str(work / "ivy"), "-ivy", str(lock.ivy_file)),
        *("-retrieve", str(into / "[artifact]-[revision].[ext]")),
    ]
    code, said = _run(command, lock, report)
    for _ in range(1, ATTEMPTS):
        if code != 0:
            report(f"{lock.name}: Ivy failed, trying once more")
            code, said = _run(command, lock, report)
    if code == 0:
        return
    missing = ", ".join(_failed(said)) or f"jars of {lock.name}"
    reason = "\n".join(f"  {line}" for line in said if line.strip() and not line.startswith("."))[-1500:]
    raise JarsUnavailable(f"Ivy could not fetch {missing} (exit code {code}). {MIRROR_HINT} Its last words:\n{reason}")


def _ivy_jar() -> Path:
    folder = spark_jars()
    for jar in sorted(folder.glob("ivy-*.jar")) if folder is not None else ():
        return jar
    raise JarsUnavailable(
        "PySpark's own Ivy jar (pyspark/jars/ivy-*.jar) is missing. Install pyspark==4.2.0 from its package, "
        "not a client-only one."
    )


def _settings() -> list[str]:
    path = os.environ.get(SETTINGS_VARIABLE)
    if not path:
        return []
    if not Path(path).is_file():
        raise JarsUnavailable(f"{SETTINGS_VARIABLE} names {path}, which is no file.")
    return ["-settings", path]


def _run(command: list[str], lock: JarLock, report: Callable[[str], None]) -> tuple[int, list[str]]:
    said: deque[str] = deque(maxlen=KEPT_LINES)
    seen = {"found": 0, "fetched": 0}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        deadline = threading.Timer(FETCH_TIMEOUT_S, process.kill)
        deadline.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line.rstrip())
                step = "found" if line.startswith("\tfound ") else "fetched" if "[SUCCESSFUL ]" in line else None
                if step:
                    seen[step] += 1
                    if seen[step] in (len(lock.sha256), *range(0, 1000, 10)):
                        report(f"{lock.name}: {seen[step]} of {len(lock.sha256)} {step}")
            return process.wait(), list(said)
        finally:
            deadline.cancel()
            process.kill()


def _failed(said: list[str]) -> list[str]:
    """The modules that Ivy lists as unresolved or not downloaded, as jar names."""
    failed = (re.match(r"\s*:: [^#\s]+#([^;\s]+);([^:!\s]+)", line) for line in said)
    return list(dict.fromkeys(f"{match[1]}-{match[2]}.jar" for match in failed if match))
