"""Questions to the brokers of a source, through the Kafka client that Spark itself uses, with its own settings."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from onceward.epoch.outcome import Span, TopicPartition
from onceward.errors import BrokerUnreachable, TopicUnusable

TIMEOUT_MS: Final = "10000"
_UNKNOWN: Final = "UnknownTopicOrPartitionException"


@contextmanager
def admin(spark: SparkSession, options: Mapping[str, str]) -> Iterator[Any]:
    """Kafka's Admin with a source's own settings."""
    jvm = cast("Any", spark._jvm)  # noqa: SLF001 - PySpark has no Kafka client of its own
    settings = jvm.java.util.Properties()
    for name, value in options.items():
        if name.startswith("kafka.") and name != "kafka.isolation.level":
            settings.put(name.removeprefix("kafka."), value)
    settings.put("default.api.timeout.ms", TIMEOUT_MS)
    settings.put("request.timeout.ms", TIMEOUT_MS)
    made = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        yield made
    finally:
        made.close()


def topics_of(spark: SparkSession, options: Mapping[str, str]) -> frozenset[str]:
    """The topics that a Kafka source reads: named, or all that fit its pattern now."""
    named = [topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()]
    if named or "subscribepattern" not in options:
        return frozenset(named)
    matches = cast("Any", spark._jvm).java.util.regex.Pattern.compile(options["subscribepattern"])  # noqa: SLF001
    with admin(spark, options) as brokers, _answered("the names of all topics"):
        return frozenset(str(name) for name in brokers.listTopics().names().get() if matches.matcher(name).matches())


def spans(spark: SparkSession, options: Mapping[str, str], topics: Iterable[str]) -> dict[TopicPartition, Span]:
    """For each partition, the first offset that is there, and the one after the last that is committed."""
    jvm = cast("Any", spark._jvm)  # noqa: SLF001
    names = jvm.java.util.ArrayList()
    for topic in sorted(topics):
        names.add(topic)
    specs = jvm.org.apache.kafka.clients.admin.OffsetSpec
    committed = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(
        jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
    )
    with admin(spark, options) as brokers, _answered(f"where {', '.join(sorted(topics))} begins and ends"):
        described = brokers.describeTopics(names).allTopicNames().get()
        places = [
            TopicPartition(topic, number)
            for topic in sorted(topics)
            for number in range(described.get(topic).partitions().size())
        ]
        ends = []
        for spec in (specs.earliest(), specs.latest()):
            asked = jvm.java.util.HashMap()
            for place in places:
                asked.put(jvm.org.apache.kafka.common.TopicPartition(*place), spec)
            found = brokers.listOffsets(asked, committed).all().get()
            ends.append({place: int(found.get(_java(jvm, place)).offset()) for place in places})
    return {place: Span(ends[0][place], ends[1][place]) for place in places}


def _java(jvm: Any, place: TopicPartition) -> Any:
    return jvm.org.apache.kafka.common.TopicPartition(*place)


@contextmanager
def _answered(what: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        cause = thrown.getCause() or thrown
        if cause.getClass().getSimpleName() == _UNKNOWN:
            raise TopicUnusable(f"asked for {what}: a topic is not there ({cause.getMessage()})") from None
        raise BrokerUnreachable(f"the source's brokers did not tell {what}: {cause.toString()}") from None
