"""Where Spark's own jars are."""

import importlib.util
import os
from pathlib import Path


def spark_jars() -> Path | None:
    """The folder `jars` of the Spark that a driver here runs: SPARK_HOME's, else the one inside PySpark.

    Under spark-submit PySpark is imported from a zip, which has no jars; SPARK_HOME is set there.
    """
    # find_spec does not import pyspark, which would take most of a second.
    spec = importlib.util.find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME"), *((spec and spec.submodule_search_locations) or [])]
    return next((jars.resolve() for home in homes if home and (jars := Path(home) / "jars").is_dir()), None)
