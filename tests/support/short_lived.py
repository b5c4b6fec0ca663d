"""What every process that a test starts is told: it dies soon, so what pays only in the long run is left out.

All of it is in the environment, and here: drivers, the demo's and the chaos runs' jobs, brokers and the shared session
take it from there, and what Onceward sets by itself stays as it is. `as_shipped` is the environment without it.
"""

import os
from typing import Final

JVM: Final = (
    # No time for the optimising compiler; the other one's 48 MB would be full after some minutes of tests, and nothing
    # be compiled any more.
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:-UsePerfData"
)
# Each query of a test runs a few times, over a few rows: it costs more to write and compile Java for it.
SPARK: Final = "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
OPTIONS: Final = {"JAVA_TOOL_OPTIONS": (JVM, ""), "PYSPARK_SUBMIT_ARGS": (SPARK, "pyspark-shell")}
NOT_COMPILED: Final = "PYTHONDONTWRITEBYTECODE"  # each process would compile all of Onceward again


def settle() -> None:
    """For this process and all that it starts. What the user has set stays, and counts, since it comes later."""
    os.environ.pop(NOT_COMPILED, None)
    for name, (ours, least) in OPTIONS.items():
        said = os.environ.get(name, least)
        if not said.startswith(ours):
            os.environ[name] = f"{ours} {said}".strip()


def as_shipped() -> dict[str, str]:
    """The environment of a user who has set nothing of this."""
    found = dict(os.environ)
    for name, (ours, least) in OPTIONS.items():
        said = found.pop(name, "").removeprefix(ours).strip()
        if said != least:
            found[name] = said
    return found
