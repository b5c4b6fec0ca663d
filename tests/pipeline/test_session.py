"""Sessions: what Onceward sets, and that a builder of one's own keeps its say."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import ConfigurationError
from onceward.jars import connector_jars
from onceward.sinks.kafka import jobs
from onceward.sinks.kafka.jobs import Poisoned


def test_a_builder_of_ones_own_keeps_what_it_says_and_gets_what_is_missing() -> None:
    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "9").config("spark.jars", "mine.jar")
    builder = builder.config("spark.driver.extraJavaOptions", "-Dmine=1")
    options = ow.configure(builder)._options
    assert options["spark.sql.shuffle.partitions"] == "9"
    assert options["spark.jars"].split(",") == ["mine.jar", *map(str, connector_jars())]
    assert options["spark.speculation"] == "false"
    assert options["spark.stage.maxConsecutiveAttempts"] == "1"
    assert options["spark.driver.extraJavaOptions"].startswith("-Dmine=1 -Dlog4j2")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_settings_are_taken_with_underscores_or_dots(spark: SparkSession) -> None:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        again = ow.session("tests", master="local[2,4]", spark_sql_session_timeZone="Asia/Tokyo")
        assert again.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)  # the other tests share this session


def test_another_spark_is_refused_before_anything_is_claimed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4: SPARK_HOME may be of another release than PySpark; it was noticed in the middle of an epoch."""
    (tmp_path / "in").mkdir()
    lines = spark.readStream.format("text").load(str(tmp_path / "in"))
    pipeline = ow.Pipeline("p", home=tmp_path / "home", source=lines).to(ow.FileSink(tmp_path / "out"))
    monkeypatch.setitem(vars(spark), "version", "4.1.1")  # PySpark keeps it there
    with pytest.raises(ConfigurationError, match=r"the Spark of this session is 4\.1\.1, .* works with Spark 4\.2\.0"):
        pipeline.start()
    assert not (tmp_path / "home").exists()


def stage(**facts: int) -> SimpleNamespace:
    found = {"stageId": 3, "numTasks": 4, "numCompletedTasks": 4, "numFailedTasks": 0, "currentAttemptId": 0, **facts}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in found.items()})


def test_a_stage_that_ran_again_or_lost_a_task_poisons_the_transaction() -> None:
    """Trap 14: only the driver can see it."""
    jobs._require_one_run(stage())
    jobs._require_one_run(stage(numCompletedTasks=0))  # skipped: its output was there already
    for wrong in ({"currentAttemptId": 1}, {"numFailedTasks": 1}, {"numCompletedTasks": 3}):
        with pytest.raises(Poisoned, match="stage 3"):
            jobs._require_one_run(stage(**wrong))


def test_the_driver_sees_through_spark_whether_a_task_failed(spark: SparkSession) -> None:
    """The real status store: a job whose task failed once and succeeded at its second attempt."""

    def stumble(index: int, rows: object) -> list[int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if index == 1 and context.attemptNumber() == 0:
            raise RuntimeError("once")
        return [index]

    with jobs._tagged(spark) as clean:
        spark.sparkContext.parallelize(range(4), 2).collect()
    jobs.require_untouched(spark, clean)
    with jobs._tagged(spark) as tag:
        assert spark.sparkContext.parallelize(range(4), 2).mapPartitionsWithIndex(stumble).collect() == [0, 1]
    with pytest.raises(Poisoned, match="failed"):
        jobs.require_untouched(spark, tag)


SERVING = """
import json, os, sys
from pathlib import Path
import onceward as ow
from onceward import processes
from onceward.pipeline.session import end

def listening(pids):
    inodes = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            try:
                name = os.readlink(file)
            except OSError:
                continue
            if name.startswith("socket:["):
                inodes.add(name[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.append(fields[1].split(":")[0])
    return found

spark = ow.session("serving", master=sys.argv[1])
assert spark.range(0, 1000, 1, 4).repartition(3).count() == 1000
family = [os.getpid(), *processes.family(os.getpid())]
secret = spark.sparkContext.getConf().get("spark.authenticate.secret", None)
lines = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in family]
print(json.dumps({
    "addresses": listening(family),
    "authenticates": spark._jvm.org.apache.spark.SparkEnv.get().securityManager().isAuthenticationEnabled(),
    "told": [line for line in lines if secret is not None and secret in line],
    "executors": sum("Coarse" + "GrainedExecutorBackend" in line for line in lines),
}))
end(spark)
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]"])
def test_with_a_local_master_spark_serves_this_machine_only_and_asks_for_a_secret(master: str) -> None:
    """J4: otherwise its block manager hands out what tasks are sent to whoever connects."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    ended = subprocess.run(
        [sys.executable, "-c", SERVING, master],
        capture_output=True, text=True, check=False, timeout=150, env=environment,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["addresses"]
    assert set(found["addresses"]) <= LOOPBACK
    assert found["authenticates"] is True
    assert found["told"] == [], "a process's command line can be read by everybody"
    assert (found["executors"] > 0) == (master != "local[2]")


def test_what_a_builder_says_about_the_network_stays() -> None:
    def told(**settings: str) -> dict[str, str]:
        builder = SparkSession.builder
        for name, value in settings.items():
            builder = builder.config(name, value)
        wanted = ("spark.driver.host", "spark.driver.bindAddress", "spark.authenticate", "spark.authenticate.secret")
        options = ow.configure(builder)._options
        return {name: options[name] for name in wanted if name in options}

    mine = {"spark.driver.host": "10.0.0.1", "spark.authenticate": "false"}
    assert told(**{"spark.master": "local[2]", **mine}) == mine
    assert told(**{"spark.master": "spark://h:7077"}) == {}
    assert told(**{"spark.master": "yarn"}) == {}
    assert told(**{"spark.master": "local"}) == {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",
    }
