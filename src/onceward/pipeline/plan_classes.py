"""Spark loads the classes that a plan's settings name, and a savepoint's plan may be somebody else's.

So a restored plan, and one whose state is only looked at, may name Spark's own classes and those that this session
itself is set to. Every other setting that Spark takes over from a plan is a word or a number.
"""

import re
from typing import Final

from pyspark.sql import SparkSession

from onceward.epoch.checkpoint import settings_of
from onceward.epoch.storage import Storage
from onceward.errors import SavepointUnusable
from onceward.pipeline.state import PROVIDERS

_WORD: Final = re.compile(r"[\w-]*")
_KNOWN: Final = frozenset(PROVIDERS.values())


def require_known_classes(spark: SparkSession, storage: Storage, checkpoint: str, location: str) -> None:
    """Of every plan below a checkpoint's folder."""
    for number in storage.names(f"{checkpoint}/offsets"):
        plan = (storage.read(f"{checkpoint}/offsets/{number}") or b"").decode("utf-8", "replace")
        for name, value in settings_of(plan).items():
            text = str(value)
            if not _WORD.fullmatch(text) and text not in _KNOWN and text != spark.conf.get(name, None):
                raise SavepointUnusable(
                    f"{location} says {name}={text}: a class, which Spark would load and run, and neither Spark's own "
                    "nor what this session is set to. Nothing was touched. If you know the class and trust the "
                    f"savepoint, set it yourself: --conf {name}={text}"
                )
