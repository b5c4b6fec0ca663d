"""Skipped records on their way to a topic for dead letters, in the commit of the epoch that passes them over.

The home says which records are skipped. It is trusted neither for what they hold, which Kafka is asked for again, nor
for where they go, which the pipeline's file says: whoever can write into a home must not be able to write into a topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from onceward.epoch import skips
from onceward.epoch.skips import Skipped
from onceward.errors import SkipRefused
from onceward.pipeline.dead_letters import PREFIX
from onceward.pipeline.skipped_records import record_at

SCHEMA: Final = "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string"


@dataclass(frozen=True, slots=True)
class Letters:
    """For one pipeline. `sink`: the Kafka sink that carries them, by its name; `topic`: to where, as it was made."""

    source: DataFrame
    sink: str
    topic: str | None

    def added(self, rows: DataFrame, skipped: Sequence[Skipped]) -> DataFrame:
        """The sink's rows, and those records of the epoch that go to the topic for dead letters."""
        wanted = [self._letter(it) for it in skipped if it.dead_letters is not None]
        if not wanted:
            return rows
        in_bytes = [
            F.col(f"`{name}`").cast("binary").alias(name) if name.lower() in {"key", "value"} else F.col(f"`{name}`")
            for name in rows.columns
        ]
        letters = rows.sparkSession.createDataFrame(wanted, SCHEMA)
        return rows.select(*in_bytes).unionByName(letters, allowMissingColumns=True)

    def _letter(self, noted: Skipped) -> tuple[Any, ...]:
        """As it came, with headers that say why and from where; those of an earlier time as a dead letter go."""
        if noted.dead_letters != self.topic:
            named = f"names {self.topic!r}" if self.topic is not None else "names none"
            raise SkipRefused(
                f"{skips.FILE} of the home has {noted.place} carried to {noted.dead_letters!r}, and the pipeline's "
                f"file {named}; say KafkaSink(..., dead_letters={noted.dead_letters!r}) if that is right, else undo "
                f"it: onceward skip HOME {noted.place} --file FILE.py --undo"
            )
        record = record_at(self.source, noted.place)
        if (record.key, record.value, record.headers) != (noted.key, noted.value, noted.headers):
            raise SkipRefused(
                f"{noted.place} holds something else than {skips.FILE} of the home has noted: the topic was replaced, "
                "or the file was altered; look at both (onceward skip HOME --list, onceward kafka consume), then undo "
                f"it: onceward skip HOME {noted.place} --file FILE.py --undo"
            )
        facts = {
            "reason": noted.reason or "skipped",
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "timestamp": str(record.timestamp_ms),
        }
        kept = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
        headers = [*kept, *((f"{PREFIX}{name}", value.encode()) for name, value in facts.items())]
        return record.key, record.value, headers, self.topic
