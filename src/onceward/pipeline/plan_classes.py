"""Spark loads the classes that a plan's settings name, and a savepoint's plan may be somebody else's.

So a restored plan, and one whose state is only looked at, may name Spark's own classes and those that this session
itself is set to. Every other setting that Spark takes over from a plan is a number, a switch or one of few words; a
class may have a name of one word too (`Evil`), so no other word is taken.
"""

import re
from typing import Final

from pyspark.sql import SparkSession

from onceward.epoch.checkpoint import settings_of
from onceward.epoch.state_files import PROVIDERS
from onceward.epoch.storage import Storage
from onceward.errors import SavepointUnusable

_NUMBER: Final = re.compile(r"-?[0-9]+")
# Spark takes them in any case.
_WORDS: Final = frozenset({"", "true", "false", "min", "max", "unsaferow", "avro", "lz4", "lzf", "snappy", "zstd"})
_KNOWN: Final = frozenset(PROVIDERS.values())


def require_known_classes(spark: SparkSession, storage: Storage, checkpoint: str, location: str) -> None:
    """Of every plan below a checkpoint's folder."""
    for number in storage.names(f"{checkpoint}/offsets"):
        plan = (storage.read(f"{checkpoint}/offsets/{number}") or b"").decode("utf-8", "replace")
        for name, value in settings_of(plan).items():
            text = str(value)
            if not _is_known(text) and text != spark.conf.get(name, None):
                raise SavepointUnusable(
                    f"{location} says {name}={text}: a class, which Spark would load and run, or a word that Onceward "
                    "does not know; and it is not what this session is set to. Nothing was touched. If you know it and "
                    f"trust the savepoint, set it yourself: --conf {name}={text}"
                )


def _is_known(text: str) -> bool:
    return text.lower() in _WORDS or text in _KNOWN or _NUMBER.fullmatch(text) is not None
