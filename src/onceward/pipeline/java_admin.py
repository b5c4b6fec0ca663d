"""Kafka asked through the client that Spark's source itself uses, with the source's own settings."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from onceward.kafka.patterns import matches

TIMEOUT_MS: Final = "10000"


@dataclass(frozen=True, slots=True)
class Described:
    """A topic as the cluster has it."""

    id: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class JavaAdmin:
    """Of one source, as long as it is open."""

    jvm: Any
    client: Any
    options: Mapping[str, str]

    def topics(self) -> list[str]:
        """What the source reads: the topics that it names, or those that fit its pattern now."""
        if named := self.options.get("subscribe"):
            return [topic.strip() for topic in named.split(",") if topic.strip()]
        if pattern := self.options.get("subscribepattern"):
            return sorted(topic for topic in self.client.listTopics().names().get() if matches(pattern, topic))
        return []

    def describe(self, topics: Iterable[str]) -> dict[str, Described | Py4JJavaError]:
        """Each topic, or why it cannot be told."""
        answers = self.client.describeTopics(self._list(topics)).topicNameValues()
        found: dict[str, Described | Py4JJavaError] = {}
        for topic in topics:
            try:
                told = answers.get(topic).get()
                found[topic] = Described(str(told.topicId()), frozenset(it.partition() for it in told.partitions()))
            except Py4JJavaError as error:
                found[topic] = error
        return found

    def ranges(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """The first offset of each partition, and the one after its last."""
        named = {place: self.jvm.org.apache.kafka.common.TopicPartition(*place) for place in places}
        spec = self.jvm.org.apache.kafka.clients.admin.OffsetSpec
        ends = []
        for which in (spec.earliest(), spec.latest()):
            asked = self.jvm.java.util.HashMap()
            for place in named.values():
                asked.put(place, which)
            answers = self.client.listOffsets(asked)
            ends.append({place: int(answers.partitionResult(it).get().offset()) for place, it in named.items()})
        return {place: (ends[0][place], ends[1][place]) for place in named}

    def _list(self, topics: Iterable[str]) -> Any:
        wanted = self.jvm.java.util.ArrayList()
        for topic in topics:
            wanted.add(topic)
        return wanted


@contextmanager
def java_admin(spark: SparkSession, options: Mapping[str, str]) -> Iterator[JavaAdmin]:
    """For a source with these options."""
    jvm = cast("Any", spark._jvm)  # noqa: SLF001 - PySpark has no Kafka client of its own
    settings = jvm.java.util.Properties()
    for name, value in options.items():
        if name.startswith("kafka.") and name != "kafka.isolation.level":
            settings.put(name.removeprefix("kafka."), value)
    settings.put("default.api.timeout.ms", TIMEOUT_MS)
    settings.put("request.timeout.ms", TIMEOUT_MS)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        yield JavaAdmin(jvm, client, options)
    finally:
        client.close()


def reason(error: Py4JJavaError) -> str:
    """What Kafka's client says, without the layers around it."""
    thrown = error.java_exception
    return str((thrown.getCause() or thrown).toString())
