"""`onceward run --standby`: a second process, with Spark up, takes the place of one that dies or ends."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onceward.cli.main import app
from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}]).select("key", "value")
    return ow.Pipeline({name!r}, home={home!r}, source=events).to(ow.KafkaSink({bootstrap!r}, topic={target!r}))
"""


@pytest.mark.slow
def test_a_standby_takes_over_from_a_killed_driver(
    kafka: Kafka, drivers: Callable[[str], Driver], name: str, tmp_path: Path
) -> None:
    """C6, I4: exact throughout; only one of the two drives at a time."""
    source, target = kafka.topic(1), kafka.topic(1)
    text = FILE.format(bootstrap=kafka.bootstrap, source=source, target=target, name=name, home=str(tmp_path / "home"))
    first, second = drivers(text), drivers(text)

    def feed(number: int) -> None:
        kafka.feed(source, [("k", str(number))])
        eventually(lambda: len(kafka.values(target)) == number + 1, f"event {number}")

    first.start("--trigger", "200ms", "--json")
    feed(0)
    second.start("--standby", "--trigger", "200ms", "--json")
    eventually(lambda: second.alive() and "standing by: the home is held by" in second.text(), "it stands by", 60)
    feed(1)
    assert "epoch" not in second.text().partition("standing by: the home")[2], "both of them write"
    first.kill()
    feed(2)
    assert "taking over" in second.text()
    assert second.finish()["ended"] == "SIGTERM"
    assert kafka.values(target) == ["0", "1", "2"]


@pytest.mark.parametrize("option", ["--once", "--take-over", "--trust-ledger=kafka", "--replan"])
def test_what_a_person_decides_now_does_not_wait_for_days(tmp_path: Path, option: str) -> None:
    done = CliRunner().invoke(app, ["run", str(tmp_path / "file.py"), "--standby", option])
    assert done.exit_code == 2
    assert "--standby waits" in done.output
