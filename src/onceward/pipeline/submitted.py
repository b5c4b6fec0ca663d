"""A driver that spark-submit has started: its JVM runs already, with the settings of the command line."""

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext

GATEWAY: Final = "PYSPARK_GATEWAY_PORT"  # by which spark-submit tells Python where the JVM is
CONNECTOR: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def is_so() -> bool:
    """Whether this process was started by spark-submit."""
    return GATEWAY in os.environ


def settings() -> dict[str, str]:
    """What the command line, spark-defaults.conf and a properties file say; nothing unless spark-submit was used."""
    if not is_so():
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 - PySpark has no public way to do so
    return dict(SparkConf().getAll())


@functools.cache  # `add` changes the answer, and not what executors have
def has_connector() -> bool:
    """Whether the JVM came with Spark's Kafka connector: in its own jars, or by --jars or --packages."""
    try:
        _loader().loadClass(CONNECTOR)
    except Py4JJavaError:
        return False
    return True


def add(jars: Iterable[Path]) -> None:
    """Let the running driver find classes: it is too late for its class path. Executors get `spark.jars`."""
    file = cast("Any", SparkContext._jvm).java.io.File  # noqa: SLF001
    for jar in jars:
        _loader().addURL(file(str(jar)).toURI().toURL())


def _loader() -> Any:
    """Spark's class loader for what a user brings, which every thread of the driver inherits."""
    return cast("Any", SparkContext._jvm).java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001
