"""What can be told before a pipeline's very first epoch, and matters only then."""

import json

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from onceward.errors import ConfigurationError
from onceward.events import logger
from onceward.kafka.patterns import said
from onceward.pipeline.first_positions import silent_about
from onceward.pipeline.java_admin import Described, JavaAdmin, java_admin, reason
from onceward.pipeline.source import sources

log = logger("onceward.pipeline")


def require_first_positions(frame: DataFrame) -> None:
    """Offsets that `starting=` names are all there; else Spark would fail within, or take it for lost data.

    Later starts go on where the last one ended, so that a topic which has got more partitions is no error then.
    """
    for name, options in sources(frame):
        if name != "kafka" or options.keys().isdisjoint({"subscribe", "subscribepattern"}):
            continue
        told = options.get("startingoffsets", "")
        if not told.startswith("{") and "subscribepattern" not in options:
            continue
        with java_admin(frame.sparkSession, options) as admin:
            try:
                _require_there(admin, json.loads(told) if told.startswith("{") else None)
            except Py4JJavaError as error:  # away: where it hinders reading, Spark says so itself
                log.warning(
                    "Kafka could not be asked about the first positions: %s", reason(error),
                    extra={"event": "first_positions_unknown", "reason": reason(error)},
                )  # fmt: skip


def _require_there(admin: JavaAdmin, told: dict[str, dict[str, int]] | None) -> None:
    topics = admin.topics()
    if not topics:
        pattern = said(admin.options["subscribepattern"])
        log.warning(
            "no topic fits the pattern %r yet: waiting for one", pattern,
            extra={"event": "no_topic_yet", "topics": pattern},
        )  # fmt: skip
    if told is None:
        return
    places: dict[tuple[str, int], int] = {}
    for topic, found in admin.describe(sorted({*topics, *told})).items():
        named = {int(partition): offset for partition, offset in told.get(topic, {}).items()}
        if not isinstance(found, Described):
            continue
        if missing := found.partitions - named.keys():
            raise ConfigurationError(silent_about(topic, missing))
        if strange := sorted(named.keys() - found.partitions):
            raise ConfigurationError(
                f"starting= names partition {strange[0]} of topic {topic!r}, which has {len(found.partitions)} (from 0)"
            )
        places |= {(topic, partition): offset for partition, offset in named.items() if offset >= 0}
    for place, (begin, end) in admin.ranges(places).items():
        if not begin <= places[place] <= end:
            raise ConfigurationError(
                f"starting= has offset {places[place]} for partition {place[1]} of topic {place[0]!r}, which holds "
                f"{begin} to {end - 1}: events before {begin} are deleted, and {end} is the next one"
            )
