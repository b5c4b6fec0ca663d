"""What a restored plan may say, of which Spark would load a class: words and numbers that are known, and no more."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceward.epoch.state_files import PROVIDER_CLASS, PROVIDERS
from onceward.epoch.storage import LocalStorage
from onceward.errors import SavepointUnusable
from onceward.pipeline.plan_classes import require_known_classes

CODEC = "spark.sql.streaming.stateStore.compression.codec"
WRITTEN_BY_SPARK = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "false",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    CODEC: "LZ4",
}


def look(folder: Path, settings: dict[str, str], session: dict[str, str]) -> None:
    offsets = folder / "checkpoint" / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / "0").write_text(f"v1\n{json.dumps({'conf': settings})}\n{{}}")
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=session.get))
    require_known_classes(spark, LocalStorage(folder), "checkpoint", "it")


@pytest.mark.parametrize("provider", PROVIDERS.values())
def test_what_spark_writes_is_taken(tmp_path: Path, provider: str) -> None:
    look(tmp_path, {**WRITTEN_BY_SPARK, PROVIDER_CLASS: provider}, {})


@pytest.mark.parametrize("name", [PROVIDER_CLASS, CODEC, "spark.sql.shuffle.partitions"])
@pytest.mark.parametrize("evil", ["Evil", "evil_2", "com.example.Evil", "Evil-1", "\u0664"])
def test_a_class_is_refused_also_one_of_the_default_package(tmp_path: Path, name: str, evil: str) -> None:
    """J4: its name is a word like any other; only what the session itself is set to may stand there."""
    with pytest.raises(SavepointUnusable, match=f"says {name}={evil}: a class, which Spark would load"):
        look(tmp_path, {name: evil}, {})
    look(tmp_path, {name: evil}, {name: evil})
