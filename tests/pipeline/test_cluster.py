"""A cluster whose workers share nothing with the driver: no folder, no environment, only the network."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from support import standalone
from support.driver import Driver
from support.judge import Kafka
from support.standalone import PYTHON, WORKERS, StandaloneCluster, packed_environment, standalone_cluster
from support.waiting import eventually

RECORDS = 60_000  # of 200 bytes: an epoch of 12 MB goes over tasks
PADDING = "." * 180
DEADLINE_S = 240.0  # seven JVMs share the machine
pytestmark = pytest.mark.timeout(600)

JOB = """
import beside
import onceward as ow
from pyspark.sql import functions as F

@F.udf("string")
def marked(text):
    return text + beside.mark()

def build(spark):
    whole = {{"minOffsetsPerTrigger": "60000", "maxTriggerDelay": "15m"}}  # a batch is one epoch
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}], options=whole)
    return ow.Pipeline({name!r}, home={home!r}, source=events).to(
        ow.KafkaSink({bootstrap!r}, topic={target!r}),
        rows=lambda batch: batch.select("key", marked(F.col("value").cast("string")).alias("value")))
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Of drivers: it is hidden from workers."""
    folder = Path(tempfile.mkdtemp(prefix="onceward-drivers-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[StandaloneCluster]:
    standalone.require_namespaces()
    with standalone_cluster(Path(tempfile.mkdtemp(prefix="onceward-cluster-")), place) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def environment(place: Path) -> Path:
    return packed_environment(place / "environment.tar")


@pytest.fixture
def driver(place: Path, cluster: StandaloneCluster) -> Iterator[Callable[[str], Driver]]:
    made: list[Driver] = []

    def make(text: str) -> Driver:
        folder = Path(tempfile.mkdtemp(dir=place))
        (folder / "beside.py").write_text("def mark():\n    return '!'\n")
        file = folder / "job.py"
        file.write_text(text)
        made.append(Driver(file, folder / "driver.log"))
        made[-1].environment = {**os.environ, "SPARK_CONF_DIR": str(cluster.conf), "SPARK_LOCAL_IP": "127.0.0.1"}
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.kill()


def options(cluster: StandaloneCluster, settings: Mapping[str, str]) -> list[str]:
    """Of `onceward run`, on the cluster."""
    chosen = {"spark.executor.memory": "600m", **settings}
    conf = [part for name, value in chosen.items() for part in ("--conf", f"{name}={value}")]
    return ["--master", cluster.url, "--json", *conf]


def shipped(environment: Path) -> dict[str, str]:
    """The environment travels with the job, and the workers' own interpreter runs it (docs/deploy/standalone.md)."""
    return {
        "spark.archives": f"{environment}#environment",
        "spark.executorEnv.PYTHONPATH": "environment",
        "spark.pyspark.python": PYTHON,
    }


def batch(number: int) -> list[tuple[str, str]]:
    return [(str(it), f"{number}-{it:06d}{PADDING}") for it in range(RECORDS)]


def test_a_worker_that_lacks_the_interpreter_or_the_package_is_named_at_the_start(
    cluster: StandaloneCluster, driver: Callable[[str], Driver], kafka: Kafka, name: str, place: Path
) -> None:
    """J1, I3: before the first epoch, with the host and what to install there; nothing is written."""
    home = place / name
    job = driver(
        JOB.format(bootstrap=kafka.bootstrap, source=kafka.topic(), target=kafka.topic(), name=name, home=str(home))
    )
    for host in WORKERS:
        cluster.own(host).joinpath("bin").mkdir(exist_ok=True)
    cluster.own(WORKERS[0]).joinpath("bin/python3").symlink_to(PYTHON)
    job.start(*options(cluster, {"spark.pyspark.python": str(cluster.private / "bin/python3")}))
    assert job.wait(DEADLINE_S) == 4
    said = job.text()
    assert "2 of 2 Spark executors cannot run Onceward's tasks" in said, said
    assert f"{WORKERS[0]} (executor " in said
    assert "has no module 'onceward'" in said, said
    assert f"{WORKERS[1]} (executor " in said
    assert "Cannot run program" in said
    assert "Install onceward" in said
    assert "Traceback" not in said
    assert not home.exists()


def paused(cluster: StandaloneCluster, host: str) -> Path:
    """Absent: the next Python worker there that is writing stands still, and makes it."""
    return cluster.own(host) / "paused"


def _is_paused(job: Driver, cluster: StandaloneCluster, host: str) -> bool:
    return job.alive() and paused(cluster, host).exists()


def committed(job: Driver, kafka: Kafka, topic: str, batches: int) -> None:
    """Records and the end marker of each transaction take offsets; what is aborted takes some, too."""

    def all_there() -> bool:
        ends = sum(kafka.end_offsets(topic, "read_committed").values())
        return job.alive() and ends >= batches * RECORDS and len(kafka.read(topic)) == batches * RECORDS

    eventually(all_there, f"{batches} batches", DEADLINE_S, every_s=0.3)


STATEFUL = """
import onceward as ow

def build(spark):
    counts = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}]).groupBy("key").count()
    return ow.Pipeline({name!r}, home={home!r}, source=counts, output_mode="update").to(
        ow.KafkaSink({bootstrap!r}, topic={target!r}),
        rows=lambda batch: batch.selectExpr("key", "cast(count as string) as value"))
"""


def test_state_in_a_home_that_workers_do_not_share_is_refused_at_the_start(
    cluster: StandaloneCluster, environment: Path, driver: Callable[[str], Driver], kafka: Kafka, name: str, place: Path
) -> None:
    """J1: each executor would keep the state on a disk of its own."""
    topics = {"source": kafka.topic(1), "target": kafka.topic(1)}
    job = driver(STATEFUL.format(bootstrap=kafka.bootstrap, **topics, name=name, home=str(place / name)))
    job.start(*options(cluster, shipped(environment)), "--once")
    assert job.wait(DEADLINE_S) == 4
    assert f"its {place} is not the driver's, and the query keeps its state there" in job.text(), job.text()
    assert not (place / name).exists()


FILES = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    return ow.Pipeline({name!r}, home={home!r}, source=events.select("value")).to(
        ow.FileSink({target!r}, small_epoch_bytes=0))
"""


def test_files_in_a_folder_that_workers_do_not_share_are_never_lost_in_silence(
    cluster: StandaloneCluster, environment: Path, driver: Callable[[str], Driver], kafka: Kafka, name: str, place: Path
) -> None:
    """J1, B4: a named error, and nothing committed."""
    source, target = kafka.topic(1), place / f"{name}-files"
    kafka.feed(source, [("k", "v")])
    job = driver(
        FILES.format(bootstrap=kafka.bootstrap, source=source, target=str(target), name=name, home=str(place / name))
    )
    job.start(*options(cluster, shipped(environment)), "--once")
    assert job.wait(DEADLINE_S) == 4
    assert "must be on a file system that the driver and all executors share" in job.text(), job.text()
    assert list(target.glob("epoch=*")) == []


def test_spark_submit_runs_a_file_on_the_cluster(
    cluster: StandaloneCluster, environment: Path, kafka: Kafka, name: str, place: Path
) -> None:
    """I6, J1."""
    source, target = kafka.topic(2), kafka.topic(2)
    kafka.feed(source, batch(0))
    text = JOB.format(bootstrap=kafka.bootstrap, source=source, target=target, name=name, home=str(place / name))
    file = place / f"{name}.py"
    first = "import onceward as ow\nspark = ow.session('submitted')\n"  # before the file's decorators, which need one
    file.write_text(f"{first}{text}\nif __name__ == '__main__':\n    build(spark).start(trigger='once').wait()\n")
    (place / "beside.py").write_text("def mark():\n    return '!'\n")
    settings = {**shipped(environment), "spark.pyspark.driver.python": sys.executable, "spark.executor.memory": "600m"}
    conf = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    submit = Path(sys.executable).with_name("spark-submit")
    done = subprocess.run(
        [str(submit), "--master", cluster.url, *conf, "--py-files", str(place / "beside.py"), str(file)],
        capture_output=True, text=True, check=False, timeout=170,
        env={
            **os.environ, "PATH": f"{submit.parent}:{os.environ['PATH']}",  # its script looks for a python with PySpark
            "SPARK_CONF_DIR": str(cluster.conf), "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert sorted(kafka.values(target)) == [f"{value}!" for _, value in batch(0)]


def test_an_executor_and_a_whole_worker_are_killed_in_the_middle_of_an_epoch_and_the_output_is_exact(
    cluster: StandaloneCluster, environment: Path, driver: Callable[[str], Driver], kafka: Kafka, name: str, place: Path
) -> None:
    """J1: large epochs over tasks, the environment and the modules beside the file shipped."""
    source, target = kafka.topic(2), kafka.topic(2)
    job = driver(JOB.format(bootstrap=kafka.bootstrap, source=source, target=target, name=name, home=str(place / name)))
    for host in WORKERS:
        paused(cluster, host).touch()
    pausing = {
        "spark.executorEnv.ONCEWARD_CRASH_AT": "task-writing",
        "spark.executorEnv.ONCEWARD_CRASH_SIGNAL": "SIGSTOP",
        "spark.executorEnv.ONCEWARD_CRASH_ONCE": str(cluster.private / "paused"),
    }
    kafka.feed(source, batch(0))
    job.start(*options(cluster, {**shipped(environment), **pausing}), "--trigger", "200ms")
    committed(job, kafka, target, 1)
    for host in WORKERS:
        assert not cluster.sees(host, environment)
        assert not cluster.sees(host, Path(__file__))
    for number, (host, strike) in enumerate(zip(WORKERS, (cluster.kill_executor, cluster.kill_worker), strict=True)):
        paused(cluster, host).unlink()
        kafka.feed(source, batch(number + 1))
        standing_still = partial(_is_paused, job, cluster, host)
        eventually(standing_still, f"{host} stands still while it writes", DEADLINE_S)
        strike(host)
        committed(job, kafka, target, number + 2)
    assert sorted(kafka.values(target)) == sorted(f"{value}!" for it in range(3) for _, value in batch(it))
    job.finish()
