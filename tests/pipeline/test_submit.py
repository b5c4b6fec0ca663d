"""`spark-submit FILE.py`: the JVM comes first, with the settings of its command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.judge import Kafka

JOB = """
import json
import sys

from pyspark.sql import SparkSession

import onceward as ow

bootstrap, source, targets, home = sys.argv[1], sys.argv[2], sys.argv[3:5], sys.argv[5]


def shout(text):
    return text.upper()


def build(spark, target):
    from pyspark.sql import functions as F

    loud = F.udf(shout)
    events = ow.read_kafka(spark, bootstrap, topics=[source])
    return ow.Pipeline(f"to-{target}", home=f"{home}/{target}", source=events).to(
        ow.KafkaSink(bootstrap, topic=target),
        rows=lambda batch: batch.select("key", loud(batch.value.cast("string")).alias("value")),
    )


if __name__ == "__main__":
    makers = (lambda: ow.session("submitted"), lambda: ow.configure(SparkSession.builder).getOrCreate())
    for make, target in zip(makers, targets):
        spark = make()
        build(spark, target).start(trigger="once").wait()
        conf = dict(spark.sparkContext.getConf().getAll())
        wanted = ("spark.master", "spark.sql.shuffle.partitions", "spark.speculation", "spark.authenticate")
        print(json.dumps({name: conf.get(name) for name in wanted}))
        spark.stop()
"""


def test_a_file_runs_under_spark_submit_with_a_session_of_ours_and_with_a_configured_one(
    kafka: Kafka, tmp_path: Path
) -> None:
    """I6: PySpark is imported from a zip there, and it is too late for the driver's class path."""
    source, targets = kafka.topic(1), [kafka.topic(1), kafka.topic(1)]
    kafka.feed(source, [("k", "a"), ("k", "b")])
    file = tmp_path / "job.py"
    file.write_text(JOB)
    submit = Path(sys.executable).with_name("spark-submit")
    settings = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=3")
    done = subprocess.run(
        [str(submit), *settings, str(file), kafka.bootstrap, source, *targets, str(tmp_path / "homes")],
        capture_output=True, text=True, check=False, timeout=150, cwd=tmp_path,
        env={**os.environ, "PATH": f"{submit.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    expected = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "3",
        "spark.speculation": "false",
        "spark.authenticate": "true",
    }
    assert told == [expected, expected]
    assert [kafka.values(target) for target in targets] == [["A", "B"], ["A", "B"]]
