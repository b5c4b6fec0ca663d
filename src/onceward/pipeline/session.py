"""A Spark session that Onceward can work with: jars, interpreter and streaming settings."""

import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from onceward import python_workers
from onceward.errors import ConfigurationError, SpeculationEnabled
from onceward.jars import connector_jars, ivy, java_command
from onceward.jars.spark import require_pyspark, require_spark
from onceward.pipeline import archive, interpreter, submitted
from onceward.sinks.parcel import is_local, is_local_cluster

JVM_END_S: Final = 30.0
LOOPBACK: Final = "127.0.0.1"
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
SETTINGS: Final = {
    "spark.speculation": "false",
    # A stage that runs again after lost shuffle files would write other bytes under known sequences.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.sql.shuffle.partitions": "4",
    # RocksDB keeps state larger than memory; its changelog makes an epoch's commit small.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}
# With a local master nobody outside this machine has any business with Spark, and nobody on it without its secret:
# otherwise its block manager listens on every network for whoever asks (docs/credentials.md).
LOCAL_SETTINGS: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.authenticate": "true",
}
JARS: Final = "spark.jars"
PACKAGES: Final = "spark.jars.packages"
IVY_SETTINGS: Final = "spark.jars.ivySettings"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Hadoop starts a process for each file that it creates (docs/decisions/0006): quicker without a helper in between.
LAUNCH: Final = "jdk.lang.Process.launchMechanism"
SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - the setting's name


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Give a builder of one's own what Onceward needs. What the builder already says otherwise stays.

    So does what spark-submit was told.
    """
    require_pyspark()
    given = {**submitted.settings(), **builder._options}  # noqa: SLF001 - the builder has no public way to ask
    interpreter.choose(given)
    if submitted.is_so():
        if not submitted.has_connector():
            submitted.add(connector_jars())
            builder.config(JARS, _with_connector(given))
    else:
        builder.config(JARS, _with_connector(given))
        builder.config(JAVA_OPTIONS, _java_options(given))
    mirror = os.environ.get(ivy.SETTINGS_VARIABLE)
    wanted = {**SETTINGS, **_local_settings(given), **({IVY_SETTINGS: mirror} if mirror else {})}
    for name, value in wanted.items():
        if name not in given:
            builder.config(name, value)
    return builder


def session(name: str = "onceward", *, master: str | None = None, **settings: str) -> SparkSession:
    """A configured session. Settings are Spark's names with dots as underscores, or `**{"spark.x": "y"}`.

    master: unless given, what spark-submit was told, or SPARK_MASTER says, or `local[*]`.
    """
    builder = SparkSession.builder.appName(name)
    if master is not None or not submitted.is_so():
        builder = builder.master(master or os.environ.get("SPARK_MASTER") or "local[*]")
    for key, value in settings.items():
        builder = builder.config(key if "." in key else key.replace("_", "."), value)
    _launch(configure(builder))
    return builder.getOrCreate()


def _with_connector(given: Mapping[str, str]) -> str:
    """A builder's own jars, and Spark's Kafka connector."""
    own = [given[JARS]] if given.get(JARS) else []
    return ",".join([*own, *map(str, connector_jars())])


def _java_options(given: Mapping[str, str]) -> str:
    """For a driver's JVM that is still to be started."""
    java = java_command()
    os.environ.setdefault("JAVA_HOME", str(java.parent.parent))
    options = [said] if (said := given.get(JAVA_OPTIONS, "").strip()) else []
    if "log4j2.configurationFile" not in said:
        options.append(f"-Dlog4j2.configurationFile={LOGGING.as_uri()}")
    if LAUNCH not in said and sys.platform == "linux":  # elsewhere Java knows no such way
        options.append(f"-D{LAUNCH}=VFORK")
    if "SharedArchiveFile" not in said and "ArchiveClassesAtExit" not in said:
        options += archive.options()
    return " ".join(options)


def _local_settings(given: Mapping[str, str]) -> dict[str, str]:
    """What a local master gets besides; a builder that says another host or address means it."""
    master = given.get("spark.master", "")
    if not is_local(master):
        return {}
    settings = dict(LOCAL_SETTINGS)
    if interpreter.is_the_drivers(os.environ[interpreter.VARIABLE]) and _workers_find_onceward():
        settings["spark.python.daemon.module"] = python_workers.__name__
    if "spark.driver.host" in given or "spark.driver.bindAddress" in given:
        del settings["spark.driver.host"], settings["spark.driver.bindAddress"]
    if is_local_cluster(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # its master, workers and executors know no other way
        if given.get("spark.authenticate", "true") == "true":
            settings[SECRET] = secrets.token_hex(32)  # elsewhere Spark makes one by itself
    return settings


def _workers_find_onceward() -> bool:
    """Whether a new interpreter finds this package where it is: not if the script's own folder holds it."""
    root = str(Path(python_workers.__file__).parents[1])
    return root in sys.path[1:] or root == str(Path.cwd())


def _launch(builder: SparkSession.Builder) -> None:
    """Start the JVM before the session, where PySpark's own way does harm.

    PySpark puts every setting on the JVM's command line, which all users can read. And a builder that names jars
    keeps those that the JVM fetches for `spark.jars.packages` from executors.
    """
    options = builder._options  # noqa: SLF001
    if submitted.is_so() or not {SECRET, PACKAGES} & set(options):
        return
    conf = SparkConf(loadDefaults=False).setAll([(k, v) for k, v in options.items() if k != SECRET])
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - PySpark has no public way to do so
    if options.get(PACKAGES):
        builder.config(JARS, SparkConf().get(JARS, options[JARS]))


def end(spark: SparkSession, within_s: float = JVM_END_S) -> None:
    """Stop Spark and wait for its JVM, which PySpark leaves to die after this process; then no session can follow."""
    gateway = cast("Any", SparkContext._gateway)  # noqa: SLF001 - PySpark has no public way to end its JVM
    with suppress(Py4JError, OSError):  # a JVM that has crashed: why is told by whoever noticed
        spark.stop()
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        process.stdin.close()  # the JVM ends with its standard input
        process.wait(within_s)


def require_usable(spark: SparkSession) -> None:
    """Refuse a session in which the guarantee cannot hold, and say what to set."""
    if not hasattr(spark, "_jsparkSession"):
        raise ConfigurationError("Spark Connect sessions have no foreachBatch on the driver; use a classic session")
    require_pyspark()
    require_spark("the Spark of this session", spark.version)
    conf = spark.sparkContext.getConf()
    if conf.get("spark.speculation", "false").lower() == "true":
        raise SpeculationEnabled(
            "spark.speculation is true: Spark may run two copies of a task, which would write with the same sequence "
            "numbers, and brokers keep whichever comes first. Set spark.speculation=false."
        )
    _local_files(spark)


def write_no_checksums(spark: SparkSession) -> None:
    """Local files of this JVM get no `.crc` beside them.

    pip's Spark has no native Hadoop library and starts a process for each file that it creates (docs/decisions/0006).
    """
    _local_files(spark).setWriteChecksum(False)


def _local_files(spark: SparkSession) -> Any:
    """Hadoop's local file system, which Spark also needs to copy a snapshot of its state into the checkpoint."""
    files = cast("Any", spark._jvm).org.apache.hadoop.fs.FileSystem  # noqa: SLF001 - PySpark has none of its own
    try:
        return files.getLocal(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    except Py4JJavaError as error:
        raise ConfigurationError(
            "spark.hadoop.fs.file.impl is no org.apache.hadoop.fs.LocalFileSystem: Spark could never take a snapshot "
            "of its state, would replay every change at each start, and would fail in the end. Remove the setting. "
            f"({error.java_exception})"
        ) from error
