"""A home in HDFS: a real namenode and datanode, the same promises."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.home import Home
from onceward.errors import HomeInUse, LedgerCorrupt
from onceward.jars import java_command
from onceward.jars.cache import jars_of
from onceward.jars.lock import JarLock
from onceward.lookups.kept import KeptLookups
from onceward.pipeline.hadoop import HadoopStorage, open_home
from onceward.pipeline.opening import now
from onceward.savepoint.creating import create
from onceward.savepoint.keeping import delete, find
from onceward.savepoint.manifest import load
from onceward.savepoint.unpacking import unpack
from onceward.savepoint.verifying import verify
from support.driver import Driver
from support.judge import Kafka

SUPPORT = Path(__file__).parents[1] / "support"
FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    unique = events.select("value").dropDuplicates(["value"])
    return ow.Pipeline({name!r}, home={home!r}, source=unique).to(ow.KafkaSink({bootstrap!r}, topic={target!r}))
"""


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of an HDFS of this test's own."""
    jars = [*jars_of(JarLock.read(SUPPORT / "hdfs.xml")), Path(pyspark.__file__).parent / "jars" / "*"]
    folder = tmp_path_factory.mktemp("hdfs")
    command = [str(java_command()), "-Xmx512m", "-cp", ":".join(map(str, jars)), str(SUPPORT / "MiniHdfs.java")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, str(folder / "data")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        assert line.startswith("ready "), (folder / "log").read_text()[-3000:]
        yield line.split()[1].rstrip("/")
    finally:
        server.communicate("\n", timeout=60)


def test_a_claim_is_exclusive_and_a_file_is_whole(spark: SparkSession, hdfs: str) -> None:
    storage = HadoopStorage(spark, f"{hdfs}/storage")
    assert storage.read("a/b.json") is None
    assert storage.names("a") == []
    assert storage.claim("a/b.json", b"first")
    assert not storage.claim("a/b.json", b"second")
    assert storage.read("a/b.json") == b"first"
    storage.replace("a/b.json", b"third")
    storage.replace("a/c.json", bytes(range(256)), sync=False)
    assert storage.read("a/b.json") == b"third"
    assert storage.read("a/c.json") == bytes(range(256))
    assert storage.names("a") == ["b.json", "c.json"]
    storage.remove("a/b.json")
    storage.remove("a/b.json")
    assert storage.names("a") == ["c.json"]


def test_a_home_in_hdfs_is_made_for_its_owner_alone_and_an_existing_one_is_left_as_it_is(
    spark: SparkSession, hdfs: str
) -> None:
    """J5: whoever can write there can forge what it says."""
    for there in (False, True):
        storage = HadoopStorage(spark, f"{hdfs}/rights-{there}")
        root = storage._path("")
        if there:
            storage._files.mkdirs(root, storage._fs.permission.FsPermission("755"))
        storage.replace("a/b.json", b"x")
        assert str(storage._files.getFileStatus(root).getPermission()) == ("rwxr-xr-x" if there else "rwx------")


def test_what_hdfs_cannot_do_is_an_os_error_that_names_the_file(spark: SparkSession, hdfs: str) -> None:
    """A1: what is unproven, written once more or fenced is told by OSErrors; a Java one would pass them all by."""
    storage = HadoopStorage(spark, f"{hdfs}/failing")
    assert storage.claim("file", b"not a folder")
    below = re.escape(f"{hdfs}/failing/file/below: ")
    failing: list[Callable[[], object]] = [
        lambda: storage.read("file/below"),
        lambda: storage.names("file/below"),
        lambda: storage.replace("file/below", b""),
        lambda: storage.claim("file/below", b""),
        lambda: storage.remove("file/below"),
    ]
    for fails in failing:
        with pytest.raises(OSError, match=below):
            fails()


def test_large_files_are_written_linked_walked_and_cleared(spark: SparkSession, hdfs: str) -> None:
    """E6: what savepoints need of a storage."""
    storage = HadoopStorage(spark, f"{hdfs}/large files")
    large = bytes(range(256)) * 40_000
    storage.write("a/b/large ü", [large[:5_000_000], large[5_000_000:]])
    assert b"".join(storage.chunks("a/b/large ü")) == large
    assert storage.link("a/b/large ü", "c/.pins/it")
    assert not storage.link("a/none", "c/none")
    storage.replace("c/x", b"")
    storage.settle("c")
    assert (storage.walk("a"), storage.walk("c"), storage.walk("d")) == (["b/large ü"], [".pins/it", "x"], [])
    storage.clear("a")
    storage.clear("a")
    assert storage.walk("a") == []
    assert b"".join(storage.chunks("c/.pins/it")) == large
    with pytest.raises(FileNotFoundError):
        list(storage.chunks("a/b/large ü"))


def test_a_pipeline_lives_in_hdfs(spark: SparkSession, kafka: Kafka, hdfs: str, name: str, tmp_path: Path) -> None:
    """B1: state, positions, ledger and lease in HDFS; a second driver is kept out, damage is named."""
    source, target = kafka.topic(2), kafka.topic(2)
    home = f"{hdfs}/homes/{name}"

    def pipeline() -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        return ow.Pipeline(name, home=home, source=events.groupBy("key").count(), output_mode="update").to(
            ow.KafkaSink(kafka.bootstrap, topic=target),
            rows=lambda batch: batch.selectExpr("key", "cast(count as string) as value"),
        )

    kafka.feed(source, [("a", "1")])
    with pipeline().start() as query:
        query.process_all_available()
        with pytest.raises(HomeInUse):
            pipeline().start()
    kafka.feed(source, [("a", "2")])
    pipeline().start(trigger="once").wait(120)
    assert kafka.values(target) == ["1", "2"]
    _require_savepoints(open_home(home, spark), tmp_path)
    storage = HadoopStorage(spark, home)
    newest = storage.names("ledger")[-1]
    storage.replace(f"ledger/{newest}", (storage.read(f"ledger/{newest}") or b"")[:-9])
    with pytest.raises(LedgerCorrupt, match=newest):
        pipeline().start()


def _require_savepoints(home: Home, folder: Path) -> None:
    """E6: among the home's own in HDFS, and to a local path."""
    inside = create(home, name="it", now=now)
    outside = create(home, to=folder / "it", now=now)
    assert verify(inside).files == verify(outside).files
    assert [it.place.name for it in find(home)] == ["it"]
    unpack(outside, load(outside), home, "unpacked")
    assert len(home.storage.walk("unpacked")) == len([it for it in outside.walk("") if it.startswith("checkpoint/")])
    assert delete(inside)
    assert (find(home), home.storage.names("pins"), home.storage.walk("savepoints")) == ([], [], [])


def test_what_an_epoch_looked_up_is_kept_in_hdfs_and_claimed_once(spark: SparkSession, hdfs: str) -> None:
    """F6: more than one block of bytes, whole, and the second driver gets the first one's."""
    storage = HadoopStorage(spark, f"{hdfs}/looked-up")
    first, second = (KeptLookups(storage, f"{hdfs}/looked-up", "lineage") for _ in range(2))
    tables = {"n": pa.table({"n": range(200_000)}), "none": pa.table({"n": pa.array([], pa.int64())})}
    assert first.read(0, ["here"]) is None
    assert first.keep(0, ["here"], tables) == tables
    assert second.keep(0, ["here"], {"n": pa.table({"n": [1]})}) == tables
    first.forget(10)
    assert second.read(0, ["here"]) is None


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_driver_with_its_home_in_hdfs_may_be_killed(
    kafka: Kafka, drivers: Callable[[str], Driver], hdfs: str, name: str
) -> None:
    """B1, A1: before and after the decision, and in the replay."""
    source, target = kafka.topic(2), kafka.topic(2)
    home = f"{hdfs}/homes/{name}"
    text = FILE.format(bootstrap=kafka.bootstrap, source=source, target=target, name=name, home=home)
    driver = drivers(text)
    for number, point in enumerate(("marked", "decided", "replaying")):
        kafka.feed(source, [(None, f"{number}-{i}") for i in range(100)] * 2)
        assert driver.start("--once", ONCEWARD_CRASH_AT=point).wait() == -signal.SIGKILL
        driver.kill()
    driver.start("--once", "--json").result()
    assert sorted(kafka.values(target)) == sorted(f"{number}-{i}" for number in range(3) for i in range(100))
