"""Which topics a pipeline reads, by Kafka's ids: one that was deleted and made again is another topic.

Its offsets begin anew, and the positions of the old one would skip its first events without an error.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import FILE, SourceTopics, ids_in
from onceward.epoch.storage import Storage
from onceward.errors import SourceRemoved, SourceReplaced
from onceward.pipeline.source import sources

TIMEOUT_MS: Final = "10000"

log = logging.getLogger("onceward.pipeline")


def require_same_topics(frame: DataFrame, storage: Storage) -> SourceTopics | None:
    """Compare with what the home has seen. What is to be noted once the home is ours; None: nothing new."""
    now = topic_ids(frame)
    known = ids_in(storage.read(FILE))
    for topic, number in now.items():
        if known.get(topic, number) != number:
            raise SourceReplaced(
                f"source topic {topic!r} was deleted and made again (its id was {known[topic]}, now {number}): the "
                "home's positions are those of the old one, and the new one's first events would be skipped. Begin "
                "anew: onceward reset HOME --file FILE.py says what that means for each sink; or, if the state must be "
                "kept, write the events to a topic of another name and read that one as well."
            )
    return None if now.keys() <= known.keys() else SourceTopics(ids={**known, **now})


def require_still_read(frame: DataFrame, checkpoint: Checkpoint, home: str) -> None:
    """Topics that the home has positions of are still among the sources: Spark would call their events lost."""
    reads: set[str] = set()
    for name, options in sources(frame):
        if name == "kafka" and "subscribe" not in options:
            return  # a pattern: what it finds is told by the brokers alone
        reads.update(topic.strip() for topic in options.get("subscribe", "").split(","))
    if gone := sorted(checkpoint.topics() - reads):
        topics, reading = ", ".join(map(repr, gone)), ", ".join(map(repr, sorted(reads))) or "no topic"
        raise SourceRemoved(
            f"{home} has positions of {topics}, and the pipeline reads {reading} now. If the first start named the "
            f"wrong topic, begin anew: onceward reset {home} --file FILE.py, which says what that means for each sink. "
            f"Otherwise put {topics} back; or, if its unread events may be left out, start once with "
            "--accept-lost-input."
        )


def note(topics: SourceTopics, storage: Storage) -> None:
    """In a home that is ours."""
    storage.replace(FILE, seal(topics))


def topic_ids(frame: DataFrame) -> dict[str, str]:
    """Of every Kafka source that names its topics; asked through the Kafka client that Spark itself uses."""
    found: dict[str, str] = {}
    for name, options in sources(frame):
        topics = [topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()]
        if name == "kafka" and topics:
            found.update(_ask(frame.sparkSession, options, topics))
    return found


def _ask(spark: SparkSession, options: Mapping[str, str], topics: Iterable[str]) -> dict[str, str]:
    jvm = cast("Any", spark._jvm)  # noqa: SLF001 - PySpark has no Kafka client of its own
    settings = jvm.java.util.Properties()
    for name, value in options.items():
        if name.startswith("kafka.") and name != "kafka.isolation.level":
            settings.put(name.removeprefix("kafka."), value)
    settings.put("default.api.timeout.ms", TIMEOUT_MS)
    settings.put("request.timeout.ms", TIMEOUT_MS)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        wanted = jvm.java.util.ArrayList()
        for topic in topics:
            wanted.add(topic)
        answers = admin.describeTopics(wanted).topicNameValues()
        found = {}
        for topic in topics:
            try:
                found[topic] = str(answers.get(topic).get().topicId())
            except Py4JJavaError as error:  # missing or out of reach: where it hinders reading, Spark says so itself
                log.warning(
                    "source topic %r could not be asked for its id, so whether it was deleted and made again is not "
                    "compared at this start: %s",
                    topic, _reason(error),
                )  # fmt: skip
        return found
    finally:
        admin.close()


def _reason(error: Py4JJavaError) -> str:
    thrown = error.java_exception
    return str((thrown.getCause() or thrown).toString())
