"""Which Java runs Spark, Ivy and the dev broker."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from onceward.errors import JavaUnusable

OLDEST_JAVA = 17  # Spark 4 and Kafka 4 both refuse older ones
FIX = f"Install Java {OLDEST_JAVA} or newer (Debian: openjdk-17-jre-headless) or set JAVA_HOME to one you have."
VERSION_TIMEOUT_S = 30


def java_command() -> Path:
    """The `java` of JAVA_HOME, else the one on PATH: the order in which Spark's own scripts look."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise JavaUnusable(f"JAVA_HOME is {home}, but there is no bin/java in it. {FIX}")
    else:
        on_path = shutil.which("java")
        if on_path is None:
            raise JavaUnusable(f"There is no Java: JAVA_HOME is not set and PATH has no `java`. {FIX}")
        java = Path(on_path)
    version = _feature_version(java)
    if version < OLDEST_JAVA:
        raise JavaUnusable(f"{java} is Java {version}, which is too old. {FIX}")
    return java


@functools.cache
def _feature_version(java: Path) -> int:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnusable(f"{java} does not run: {error}. {FIX}") from error
    # Up to Java 8 the version began with "1.": 1.8.0_402 is Java 8.
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or found is None:
        said = (answer.stderr + answer.stdout).strip()[:300] or "nothing"
        raise JavaUnusable(f"`{java} -version` exited with {answer.returncode} and said: {said}. {FIX}")
    return int(found[1])
