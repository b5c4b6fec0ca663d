"""Sources: Kafka read as it should be, and the check that a source can give the same events again."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.readwriter import DataStreamReader

from onceward.errors import ConfigurationError, SourceNotReplayable
from onceward.kafka import copies
from onceward.kafka.copies import topic
from onceward.kafka.patterns import matches, said, whole
from onceward.kafka.wire import Cluster
from onceward.pipeline.first_positions import Starting, spark_offsets
from onceward.pipeline.java_settings import java_settings, require_usable_in_java
from onceward.secret import remember

# Sources that give the same rows for the same positions, after any restart.
REPLAYABLE: Final = frozenset(
    {"kafka", "rate", "rate-micro-batch", "delta", "iceberg", "text", "json", "csv", "parquet", "orc", "avro", "xml"}
)
# A broker answers one connection's requests in order, and Spark asks for offsets behind a fetch that waits for new
# records: with Kafka's default of 500 ms every quiet partition would add half a second to its epoch.
FETCH_WAIT_MS: Final = "0"
# Spark asks Kafka for the first and the last offset after each poll, so that Kafka's default of 500 records costs two
# requests for every 500. Not more: Spark keeps what a poll returned and an epoch did not take, for each partition, and
# a fetch's bound in bytes (1 MiB) is about compressed ones.
POLL_RECORDS: Final = "5000"
NO_CONNECTOR: Final = frozenset({"DATA_SOURCE_NOT_FOUND", "_LEGACY_ERROR_TEMP_1140"})  # Spark's names of the condition


def read_kafka(
    spark: SparkSession,
    bootstrap: str,
    *,
    topics: Iterable[str] | None = None,
    pattern: str | None = None,
    starting: Starting = "earliest",
    max_records_per_epoch: int | None = None,
    settings: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A streaming DataFrame with Spark's Kafka columns, read_committed and strict about lost data.

    topics: their names. Or pattern: a regular expression for whole names; topics that fit later join in from their
    beginning.
    starting: where the very first epoch begins, and none but it: "earliest", "latest", a moment (a datetime with a
    zone, or text such as "2026-03-01T12:00:00Z"; in a partition without a record that young, its end), or offsets of
    all partitions: {"topic": {0: 17, 1: 20}}, {("topic", 0): 17}, or Spark's JSON of them.
    settings: Kafka client settings for security, by Kafka's names. options: further options of Spark's source.
    """
    remember(spark.conf.getAll)
    remember(options or {})
    names, expression = _subscription(topics, pattern)
    cluster = Cluster(bootstrap, dict(settings or {}))
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribePattern" if expression else "subscribe", expression or ",".join(map(topic, names)))
        .option("startingOffsets", spark_offsets(starting, names, expression, cluster))
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("failOnDataLoss", "true")
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        .option("kafka.max.poll.records", POLL_RECORDS)
    )
    if max_records_per_epoch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(max_records_per_epoch))
    java = java_settings(cluster.settings, spark)
    for name, value in {**java, **(options or {})}.items():
        reader = reader.option(name, value)
    records = _loaded(reader)
    require_usable_in_java(cluster.settings, java, spark)
    return _as_the_file_says(records, names)


def _subscription(topics: Iterable[str] | None, pattern: str | None) -> tuple[list[str], str]:
    """The topics' names, or an expression for them."""
    if (topics is None) == (pattern is None):
        raise ConfigurationError("read_kafka needs one of topics=['events'] and pattern='events-.*', and not both")
    if pattern is not None:
        if copies.current() is not None:
            raise ConfigurationError(
                f"a copy cannot read by pattern={pattern!r}: which of the topics are the copy's own could not be told. "
                "Restore the snapshot in place, or name the topics: topics=[...]"
            )
        return [], whole(pattern)
    names = [topics] if isinstance(topics, str) else list(topics or ())
    if not names:
        raise ConfigurationError("read_kafka needs at least one topic: topics=['events']")
    return names, ""


def _loaded(reader: DataStreamReader) -> DataFrame:
    try:
        return reader.load()
    except AnalysisException as error:
        if error.getCondition() not in NO_CONNECTOR:
            raise
        raise ConfigurationError(
            "this Spark session has no Kafka connector. Make it with ow.session('name'), or with "
            "ow.configure(SparkSession.builder).getOrCreate(), before this process has any other session: Spark takes "
            "jars only when it starts."
        ) from error


def _as_the_file_says(records: DataFrame, names: list[str]) -> DataFrame:
    """In a copy the topics are called otherwise, and rows show the names that the file knows."""
    others = {topic(name): name for name in names if topic(name) != name}
    if not others:
        return records
    whens = " ".join(f"when {_literal(theirs)} then {_literal(ours)}" for theirs, ours in others.items())
    return records.withColumn("topic", expr(f"case topic {whens} else topic end"))


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def require_replayable(frame: DataFrame, trusted: Iterable[str], *, accept_lost_input: bool = False) -> None:
    """Refuse what cannot be read again, or would be read wrongly; the message says what to use instead.

    accept_lost_input: events that Kafka has deleted may be skipped, knowingly.
    """
    if not frame.isStreaming:
        raise ConfigurationError("the source does not stream; begin with ow.read_kafka or spark.readStream")
    remember(frame.sparkSession.conf.getAll)
    for name, options in sources(frame):
        remember(options)
        if name not in REPLAYABLE and name not in set(trusted):
            raise SourceNotReplayable(
                f"source {name!r} cannot give the same events again after a crash, so exactly-once lacks its first "
                "half, a replayable source. Put Kafka in front of it (ow.read_kafka), choose guarantee='at-least-once' "
                f"or 'at-most-once', or, if you know that it replays, say Pipeline(replayable_sources=[{name!r}])."
            )
        if name == "kafka":
            _require_strict_kafka(options, accept_lost_input=accept_lost_input)


def _require_strict_kafka(options: Mapping[str, str], *, accept_lost_input: bool) -> None:
    if options.get("kafka.isolation.level", "read_uncommitted") != "read_committed":
        raise SourceNotReplayable(
            "the Kafka source reads uncommitted records (kafka.isolation.level is not read_committed), so records of "
            "aborted transactions would be counted. Use ow.read_kafka, or set option "
            "'kafka.isolation.level' to 'read_committed'."
        )
    if options.get("failondataloss", "true").lower() != "true" and not accept_lost_input:
        raise SourceNotReplayable(
            "the Kafka source has failOnDataLoss=false, so events that Kafka has deleted would be skipped silently. "
            "Set it to true; or, if they are lost already and the pipeline shall go on without them, start it once "
            "with --accept-lost-input (accept_lost_input=True)."
        )


def require_not_its_own_output(frame: DataFrame, bootstrap: str, topics: Iterable[str]) -> None:
    """A pattern that fits what the pipeline writes would let it read its own output, without end."""
    for _, options in sources(frame):
        told = options.get("subscribepattern")
        if told is None or _servers(options.get("kafka.bootstrap.servers", "")).isdisjoint(_servers(bootstrap)):
            continue
        for name in topics:
            if matches(told, name):
                raise ConfigurationError(
                    f"the source's pattern {said(told)!r} fits {name!r}, which this pipeline writes: it would read its "
                    "own output again and again. Give the output a name that the pattern does not fit, or name the "
                    "source's topics: topics=[...]"
                )


def _servers(bootstrap: str) -> set[str]:
    return {server.strip() for server in bootstrap.split(",")}


def sources(frame: DataFrame) -> list[tuple[str, dict[str, str]]]:
    """Name and options of every streaming source in the plan."""
    found: list[tuple[str, dict[str, str]]] = []
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows no plan's sources
    _collect(plan, found)
    return found


def _collect(plan: Any, found: list[tuple[str, dict[str, str]]]) -> None:
    kind = plan.getClass().getSimpleName()
    if kind == "StreamingRelationV2":
        options = plan.extraOptions().asCaseSensitiveMap()
        found.append((str(plan.sourceName()).lower(), {str(key).lower(): str(options[key]) for key in options}))
    elif kind == "StreamingRelation":
        options = plan.dataSource().options()
        entries = options.iterator()
        pairs = {}
        while entries.hasNext():
            pair = entries.next()
            pairs[str(pair._1()).lower()] = str(pair._2())  # noqa: SLF001 - a Scala tuple's fields
        found.append((str(plan.dataSource().className()).lower(), pairs))
    elif kind in {"StreamingExecutionRelation", "StreamingDataSourceV2Relation"}:
        found.append((kind, {}))
    children = plan.children()
    for index in range(children.size()):
        _collect(children.apply(index), found)
