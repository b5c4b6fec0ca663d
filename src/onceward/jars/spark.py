"""Where Spark's own jars are, and whether it is the Spark that ours go with."""

import importlib.util
import os
import re
from pathlib import Path
from typing import Final

from onceward.errors import ConfigurationError

LOCKED: Final = "4.2.0"  # of the connector's jars (connector.xml)
_VERSION: Final = re.compile(r"__version__\b.*?[\"']([^\"']+)[\"']")


def spark_jars() -> Path | None:
    """The folder `jars` of the Spark that a driver here runs: SPARK_HOME's, else the one inside PySpark.

    Under spark-submit PySpark is imported from a zip, which has no jars; SPARK_HOME is set there.
    """
    # find_spec does not import pyspark, which would take most of a second.
    spec = importlib.util.find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME"), *((spec and spec.submodule_search_locations) or [])]
    return next((jars.resolve() for home in homes if home and (jars := Path(home) / "jars").is_dir()), None)


def require_pyspark() -> None:
    """Before it is imported, which takes a second and fails in its own way where it is another release."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec and spec.submodule_search_locations) or []:
        try:
            # Under spark-submit it is in a zip: what loads it reads it.
            text = spec.loader.get_data(f"{place}/version.py").decode()  # type: ignore[union-attr] # those of files do
        except (OSError, AttributeError):
            continue
        if found := _VERSION.search(text):
            require_spark("PySpark", found[1])
        return


def require_spark(what: str, found: str) -> None:
    """The locked one, or a build of it (4.2.0-...)."""
    if found.partition("-")[0] != LOCKED:
        raise ConfigurationError(
            f"{what} is {found}, and this Onceward works with Spark {LOCKED}: its connector's jars are of that "
            "release, and so are the plans, logs and checkpoints that it reads. Install "
            f"pyspark=={LOCKED}; under spark-submit SPARK_HOME is the Spark that counts."
        )
