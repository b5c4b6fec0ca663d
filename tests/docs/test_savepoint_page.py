"""The page on savepoints as a reader follows it: its files, its commands, and what they say when they refuse."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from support.judge import Kafka
from support.pages import Reader, own_kafka, write_files

PAGE: Final = Path(__file__).parents[2] / "docs" / "savepoints.md"
# What each section commits, when ann has bought for 7.00 and bob for 4.00 before it.
TOTALS: Final = {
    "The job": [("ann", 700), ("bob", 400)],
    "Upgrade a job": [("ann", 1400)],  # from 10.00 on
    "Fork a staging copy": [],  # the copy's are elsewhere
    "Rescale": [("ann", 2800), ("bob", 1600)],
    "Change the state backend": [("ann", 3500), ("bob", 2000)],
    "Go back in time after a bad release": [("ann", 73500), ("bob", 42000), ("ann", 4200), ("bob", 2400)],
    "The query does not fit": [],
}


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with own_kafka(tmp_path_factory.mktemp("own")) as kafka:
        yield kafka


def sections(text: str) -> dict[str, str]:
    """Those with commands, by their headings."""
    parts = (it.partition("\n") for it in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:])
    return {heading: part for heading, _, part in parts if "```sh" in part}


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_who_follows_the_page_on_savepoints_finds_what_it_says(
    kafka: Kafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E6, E7, E8, E2, E10: an upgrade, a copy, another width, another backend, back in time; and what is refused."""
    monkeypatch.setenv("KAFKA", kafka.bootstrap)
    text, seen = PAGE.read_text("utf-8").partition("\n## Restore\n")[2], 0
    write_files(text, tmp_path)
    reader = Reader(monkeypatch, spark, tmp_path)
    assert list(sections(text)) == list(TOTALS)
    for heading, totals in TOTALS.items():
        kafka.feed("orders", [("ann", "700"), ("bob", "400")])
        reader.follow(sections(text)[heading])
        records = [(message.key().decode(), int(message.value())) for message in kafka.read("totals")]
        assert sorted(records[seen:]) == sorted(totals), heading  # of several partitions
        seen = len(records)
    copied = [(message.key().decode(), int(message.value())) for message in kafka.read("totals-staging")]
    assert sorted(copied) == [("ann", 2100), ("bob", 1200)]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # what was rescaled is a query's own
