"""A pipeline of a file: its home, its sources and its sinks, each asked and judged. Nothing is started or fenced."""

from collections.abc import Callable, Iterable, Iterator

from onceward.doctor import cluster, homes
from onceward.doctor.finding import Finding, note, ok, risk
from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.errors import ConfigurationError, OncewardError
from onceward.kafka import cluster_facts
from onceward.kafka.cluster_facts import ClusterFacts
from onceward.kafka.wire import Cluster, Wire
from onceward.pipeline.pipeline import Pipeline
from onceward.pipeline.source import require_replayable, sources
from onceward.sinks.files import FileSink
from onceward.sinks.kafka import KafkaSink

Judge = Callable[[ClusterFacts], Iterable[Finding]]


def examine(pipeline: Pipeline, downtime_s: float) -> Iterator[Finding]:
    """Everything that the pipeline touches. A source's cluster is asked with the sink's settings, if it is the same."""
    yield from homes.examine(str(pipeline.home))
    known = {it.cluster.bootstrap: it.cluster for it in pipeline.sinks.values() if isinstance(it, KafkaSink)}
    try:
        require_replayable(pipeline.source, pipeline.replayable_sources)
    except ConfigurationError as error:
        yield risk(f"pipeline {pipeline.name}", str(error), "change the source: a start refuses it")
    for kind, options in sources(pipeline.source):
        if kind == "kafka":
            yield from _source(options, known, downtime_s)
        else:
            yield ok(f"source {kind}", "can be read again, as far as its name tells")
    for name, sink in pipeline.sinks.items():
        yield from _sink(pipeline.name, name, sink, downtime_s)


def examine_cluster(where: Cluster, downtime_s: float) -> Iterator[Finding]:
    """A cluster alone."""
    return _asked(where, cluster.INTERNAL, lambda facts: cluster.judge_brokers(facts, where.bootstrap, downtime_s))


def _source(options: dict[str, str], known: dict[str, Cluster], downtime_s: float) -> Iterator[Finding]:
    where = options.get("kafka.bootstrap.servers", "")
    topics = [it.strip() for it in options.get("subscribe", "").split(",") if it.strip()]
    secured = any(key.startswith(("kafka.sasl", "kafka.ssl", "kafka.security")) for key in options)
    if not topics:
        told = "a pattern or an assignment: which topics it will find is not known before an epoch"
        yield note(f"source at {where}", told, "onceward kafka topic describe TOPIC")
    elif secured and where not in known:
        told = f"topics {', '.join(topics)} are read with credentials of Spark's own, and are not looked at"
        yield note(f"source at {where}", told, "check their replication and retention with Kafka's tools")
    else:

        def judged(facts: ClusterFacts) -> Iterable[Finding]:
            return (finding for topic in topics for finding in cluster.judge_source(facts, topic, downtime_s))

        yield from _asked(known.get(where, Cluster(where)), topics, judged)


def _sink(pipeline: str, name: str, sink: TwoPhaseCommitSink, downtime_s: float) -> Iterator[Finding]:
    about = f"sink {name}"
    if isinstance(sink, KafkaSink):
        yield from _kafka_sink(pipeline, about, sink, downtime_s)
    elif isinstance(sink, FileSink):
        found = homes.writable(about, sink.path)
        yield found if found is not None else ok(about, f"{sink.path} can be written")
    elif type(sink).__module__.startswith("onceward.sinks.postgres"):  # it is loaded only where psycopg is installed
        from onceward.doctor import database
        from onceward.sinks.postgres import PostgresSink

        assert isinstance(sink, PostgresSink)
        yield from database.examine(about, sink)
    else:
        yield note(about, f"{sink!r} is not looked at", "see what its documentation asks for")


def _kafka_sink(pipeline: str, about: str, sink: KafkaSink, downtime_s: float) -> Iterator[Finding]:
    targets = [sink.topic] if sink.topic is not None else []

    def judged(facts: ClusterFacts) -> Iterable[Finding]:
        yield from cluster.judge_brokers(facts, sink.cluster.bootstrap, downtime_s, sink.transaction_timeout_ms)
        for topic in targets:
            yield from cluster.judge_target(facts, topic)

    yield from _asked(sink.cluster, [*targets, *cluster.INTERNAL], judged, pipeline)
    if not targets:
        told = "its rows name their topics, which are not known before an epoch"
        yield note(about, told, "onceward kafka topic describe TOPIC")


def _asked(where: Cluster, topics: Iterable[str], judged: Judge, pipeline: str | None = None) -> Iterator[Finding]:
    wire = Wire(where)
    try:
        yield from judged(cluster_facts.look(wire, topics))
        if pipeline is not None:
            yield from _names(wire, pipeline)
    except OncewardError as error:
        yield risk(f"Kafka at {where.bootstrap}", str(error), "without it no pipeline starts")
    finally:
        wire.close()


def _names(wire: Wire, pipeline: str) -> Iterator[Finding]:
    """The pipeline's name is its consumer group and its transactional id."""
    if cluster_facts.group_is_allowed(wire, pipeline) is False:
        yield risk(f"group {pipeline}", "we may not READ it", f"allow READ on group {pipeline!r} for this user")
    if not cluster_facts.transactional_id_is_visible(wire, pipeline):
        fix = f"allow WRITE and DESCRIBE on transactional id {pipeline!r} for this user"
        yield risk(f"transactional id {pipeline}", "we may not look at it", fix)
