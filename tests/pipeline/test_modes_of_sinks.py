"""Every sink under every guarantee, with the same crash: one duplicates, one loses, one does neither."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.servers.postgres import PostgresServer
from support import outputs
from support.judge import Kafka
from support.postgres import Database

SMALL = 10 << 20


@pytest.fixture(params=["files", "postgres", "delta", "iceberg"])
def output(request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path) -> outputs.Output:
    makers = {
        "files": lambda: outputs.files(tmp_path, SMALL),
        "postgres": lambda: outputs.postgres(Database.new(postgres).dsn(), SMALL),
        "delta": lambda: outputs.delta(tmp_path, SMALL),
        "iceberg": lambda: outputs.iceberg(tmp_path, SMALL),
    }
    return makers[request.param]()


@pytest.mark.parametrize(
    "case",
    [("exactly-once", "written", 1), ("exactly-once", "decided", 1), ("at-least-once", "written", 2),
     ("at-most-once", "begun", 0), ("at-most-once", "written", 1)],
    ids=lambda case: f"{case[0]}-killed-when-{case[1]}",
)  # fmt: skip
def test_a_crash_has_the_effect_that_the_guarantee_names(
    spark: SparkSession,
    kafka: Kafka,
    name: str,
    tmp_path: Path,
    output: outputs.Output,
    crash_at: Callable[[str | None], None],
    case: tuple[str, str, int],
) -> None:
    """A5: exactly-once neither loses nor doubles, at-least-once doubles, at-most-once loses."""
    (guarantee, point, times), source = case, kafka.topic(2)

    def run() -> None:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).selectExpr("cast(value as string) as value")
        pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events, guarantee=guarantee)
        pipeline.to(eval(output.text, {"ow": ow})).start(trigger="once").wait(120)

    kafka.feed(source, ((str(n), str(n)) for n in range(10)))
    run()
    kafka.feed(source, ((str(n), str(n)) for n in range(10, 20)))
    crash_at(point)
    with pytest.raises(Exception, match="Crash"):
        run()
    crash_at(None)
    run()
    kafka.feed(source, ((str(n), str(n)) for n in range(20, 30)))
    run()
    wanted = Counter({str(n): times if 10 <= n < 20 else 1 for n in range(30)})
    assert Counter(output.values()) == +wanted
