"""The two applications of the demo: ours, and the same on Spark's own sinks, on one Kafka and one PostgreSQL."""

from pathlib import Path
from typing import Final

from onceward.apps.ads.places import Places

SPARKS: Final = "spark_"  # prefix of the contrast's topics, tables and pipelines
SERVERS: Final = (
    "ONCEWARD_DEMO_BOOTSTRAP",
    "ONCEWARD_DEMO_DSN",
)  # the job's environment: no password on a command line


def ours(folder: Path, bootstrap: str, dsn: str, guarantee: str) -> Places:
    return Places(bootstrap=bootstrap, dsn=dsn, folder=folder, guarantee=guarantee)


def sparks(folder: Path, bootstrap: str, dsn: str) -> Places:
    return Places(bootstrap=bootstrap, dsn=dsn, folder=folder, prefix=SPARKS)
