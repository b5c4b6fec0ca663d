"""Which topics a pipeline reads, by Kafka's ids: one that was deleted and made again is another topic.

Its offsets begin anew, and the positions of the old one would skip its first events without an error.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import FILE, SourceTopics, of_sources
from onceward.epoch.storage import Storage
from onceward.errors import BrokerRefused, BrokerUnreachable, SourceRemoved, TopicUnusable
from onceward.events import logger
from onceward.kafka.admission import require_admission
from onceward.kafka.listening import require_listening
from onceward.kafka.patterns import matches, said
from onceward.pipeline.java_admin import TIMEOUT_MS, java_admin, reason
from onceward.pipeline.relations import is_kafka, numbered, options_of
from onceward.pipeline.source import sources

# What Kafka's Java client calls it when a broker will not have it, or it not the broker.
NOT_LET_IN: Final = frozenset(
    {
        "SaslAuthenticationException",
        "SslAuthenticationException",
        "UnsupportedSaslMechanismException",
        "IllegalSaslStateException",
    }
)

log = logger("onceward.pipeline")


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


def note(topics: SourceTopics, notes: Storage) -> None:
    """In a checkpoint that is ours."""
    notes.replace(FILE, seal(topics))


def topic_ids(frame: DataFrame) -> list[dict[str, str]]:
    """Of every topic that each source reads now, if it is Kafka; asked through the Kafka client that Spark itself uses.

    A broker that does not answer is `BrokerUnreachable`, a topic that is not there `TopicUnusable`: Spark's own source
    would try for minutes.
    """
    found: list[dict[str, str]] = []
    for relation in numbered(frame):
        options = options_of(relation) if is_kafka(relation) else {}
        if options:
            require_listening(options.get("kafka.bootstrap.servers", ""))
        named = not options.keys().isdisjoint({"subscribe", "subscribepattern"})
        found.append(_ask(frame.sparkSession, options) if named else {})
    return found


@dataclass(slots=True)
class JoiningTopics:
    """Topics that begin to fit a pattern while the pipeline runs: noted before the first epoch that reads them."""

    frame: DataFrame
    notes: Storage
    _patterns: dict[int, Mapping[str, str]] = field(init=False)
    _known: list[dict[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        relations = {source: options_of(it) for source, it in enumerate(numbered(self.frame)) if is_kafka(it)}
        self._patterns = {source: options for source, options in relations.items() if "subscribepattern" in options}
        self._known = of_sources(self.notes.read(FILE))

    def note(self, topics: Collection[str]) -> None:
        """Those of an epoch's positions; one that cannot be asked is asked again with the next epoch."""
        for source, options in self._patterns.items():
            known = self._known[source]
            if new := {topic for topic in topics if matches(options["subscribepattern"], topic)} - known.keys():
                known.update(_ask(self.frame.sparkSession, options, new))
                note(SourceTopics(ids=self._known), self.notes)


def _ask(spark: SparkSession, options: Mapping[str, str], topics: Collection[str] | None = None) -> dict[str, str]:
    """`topics`: of a pattern, while the pipeline runs; without them, all that the source reads, at a start."""
    with java_admin(spark, options) as admin:
        try:
            described = admin.describe(admin.topics() if topics is None else topics)
        except Py4JJavaError as error:
            if topics is None:
                _refuse(error, said(options["subscribepattern"]), options)
            log.warning(
                "the topics that fit %r could not be listed, so whether one was deleted and made again is not compared "
                "at this start: %s", said(options["subscribepattern"]), reason(error),
                extra={
                    "event": "topics_not_compared", "topics": said(options["subscribepattern"]),
                    "reason": reason(error),
                },
            )  # fmt: skip
            return {}
        found = {}
        for topic, told in described.items():
            if not isinstance(told, Py4JJavaError):
                found[topic] = told.id
                continue
            if topics is None:
                _refuse(told, topic, options)
            log.warning(
                "source topic %r could not be asked for its id, so whether it was deleted and made again is not "
                "compared at this start: %s",
                topic, reason(told),
                extra={"event": "topics_not_compared", "topics": topic, "reason": reason(told)},
            )  # fmt: skip
        return found


def _refuse(error: Py4JJavaError, topic: str, options: Mapping[str, str]) -> None:
    """At a start: what would have Spark's own source try for minutes. Anything else Spark says itself."""
    bootstrap = options.get("kafka.bootstrap.servers", "")
    thrown = error.java_exception.getCause() or error.java_exception
    kind = str(thrown.getClass().getSimpleName())
    if kind == "UnknownTopicOrPartitionException":
        raise TopicUnusable(
            f"source topic {topic!r} does not exist at {bootstrap}. Check its name (topics=[...]), or make it: "
            f"`onceward kafka topic create {topic}`"
        ) from error
    if kind in NOT_LET_IN:
        raise BrokerRefused(
            f"the brokers at {bootstrap} do not let the source in: {' '.join(str(thrown.getMessage()).split())}; check "
            f"{_what_lets_in(kind)} (read_kafka(settings=...))"
        ) from error
    if kind in {"TimeoutException", "DisconnectException"}:
        if options.get("kafka.security.protocol", "PLAINTEXT") == "PLAINTEXT":
            require_admission(bootstrap, {})  # that client does not tell
        raise BrokerUnreachable(
            f"no Kafka broker at {bootstrap} answered within {TIMEOUT_MS} ms: {thrown.getMessage()}"
        ) from error


def _what_lets_in(kind: str) -> str:
    if kind == "SslAuthenticationException":
        return (
            "security.protocol, ssl.ca.location and, where the brokers ask for them, ssl.certificate.location and key"
        )
    return "security.protocol, sasl.mechanism, sasl.username and sasl.password"
