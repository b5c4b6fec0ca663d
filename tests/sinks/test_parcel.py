"""Credentials on their way to Spark's tasks: what leaves the driver holds none, and a task still has them."""

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.errors import EpochFailed, SecretUnavailable
from onceward.kafka.records import Compression
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import Cluster
from onceward.postgres.options import Options
from onceward.secret import Exposure, is_reference, looked_up
from onceward.servers.postgres import PostgresServer
from onceward.sinks import parcel as parcels
from onceward.sinks.kafka.encoding import Catalog
from onceward.sinks.kafka.tasks import Work
from onceward.sinks.parcel import Parcel, packed, warnings
from onceward.sinks.parquet.staging import Place
from onceward.sinks.postgres.work import CopyTask, Job
from support.judge import Kafka
from support.postgres import PASSWORD, Database

EPOCH = EpochContext(epoch=0)  # of unknown size: written by tasks
SECURE = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


def owner(name: str) -> Owner:
    return Owner(pipeline=name, lineage="L", term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="sink")


def sasl(password: str) -> dict[str, str]:
    user = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": password}
    return {"security.protocol": "SASL_PLAINTEXT", **user}


def kafka_work(password: str) -> Work:
    return Work(
        epoch=0, cluster=Cluster("h:1", sasl(password)), transactional_id=None, identity=Identity(1, 1),
        default_topic=None, compression=Compression.NONE, catalog=Catalog(), writers=1,
    )  # fmt: skip


def postgres_work(password: str) -> CopyTask:
    return CopyTask(Job(epoch=0, copy=b"", codings=()), Options.parse(f"host=h password='{password}'"))


def lake_place(password: str) -> Place:
    return Place(fs.S3FileSystem(access_key="me", secret_key=password, region="x"), "bucket")


def cluster_session(**settings: str) -> Any:
    """A session on a cluster, as far as packing looks at it."""
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    context = SimpleNamespace(master="spark://h:7077", applicationId=os.urandom(8).hex(), getConf=lambda: conf)
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Everything that PySpark pickles to send it to tasks."""
    seen: list[bytes] = []
    real = CloudPickleSerializer.dumps

    def dumps(self: CloudPickleSerializer, content: object) -> bytes:
        seen.append(real(self, content))
        return seen[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", dumps)
    return seen


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    made = Database.new(postgres)
    made.admin("CREATE TABLE target (id bigint NOT NULL)")
    made.admin("GRANT ALL ON target TO locked; CREATE SCHEMA onceward AUTHORIZATION locked")
    yield made
    made.drop()


def write(sink: Any, rows: Any, name: str) -> None:
    sink.open(owner(name))
    try:
        sink.begin(EPOCH)
        sink.write(EPOCH, rows)
        sink.abort(EPOCH)
    finally:
        sink.close()


@pytest.mark.parametrize("make", [kafka_work, postgres_work, lake_place])
def test_with_a_local_master_a_parcel_holds_no_secret_and_opens_in_another_process(
    spark: SparkSession, make: Callable[[str], Any]
) -> None:
    """J4."""
    work = make(PASSWORD)
    assert PASSWORD.encode() in cloudpickle.dumps(work), "or this test looks for the wrong thing"
    with packed(spark, work) as parcel:
        assert PASSWORD.encode() not in cloudpickle.dumps(parcel)
        assert PASSWORD not in repr(parcel)
        assert pickle.loads(pickle.dumps(parcel)).open() == work


def test_a_postgres_password_in_the_dsn_does_not_leave_the_driver(
    spark: SparkSession, database: Database, shipped: list[bytes]
) -> None:
    """J4: nor is it in anything else that PySpark pickles for tasks in a real run."""
    sink = ow.PostgresSink(database.dsn(user="locked", password=PASSWORD), table="target")
    write(sink, spark.range(0, 100, 1, 2), "orders")
    assert shipped
    assert not [data for data in shipped if PASSWORD.encode() in data]


def test_one_in_the_environment_does_not_either(
    spark: SparkSession, database: Database, shipped: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    write(ow.PostgresSink(database.dsn(user="locked"), table="target"), spark.range(0, 100, 1, 2), "orders")
    assert shipped
    assert not [data for data in shipped if PASSWORD.encode() in data]


@pytest.mark.parametrize("partitioning", ["key", "preserve"])
def test_a_kafka_password_does_not_leave_the_driver(
    spark: SparkSession, kafka: Kafka, name: str, shipped: list[bytes], partitioning: Any
) -> None:
    """J4. The broker here asks for none, so that it is let in without; the setting travels all the same."""
    sink = ow.KafkaSink(kafka.bootstrap, topic=kafka.topic(1), partitioning=partitioning)
    object.__setattr__(sink.cluster, "settings", {"sasl.password": PASSWORD})
    rows = spark.range(0, 10, 1, 1).selectExpr("cast(id as string) as value", "0 as partition")
    sink.open(owner(name))
    sink.begin(EPOCH)
    assert sink.write(EPOCH, rows).rows == 10
    assert sink.digest(EPOCH, rows).rows == 10
    sink.abort(EPOCH)
    sink.close()
    assert shipped
    assert not [data for data in shipped if PASSWORD.encode() in data]


@pytest.mark.parametrize("password", ["${env:ORDERS_PASSWORD}", "${file:%s}"])
def test_each_worker_looks_a_reference_up_for_itself(
    spark: SparkSession, database: Database, tmp_path: Path, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J4. As on a cluster: the work is shipped as it is, and holds the reference only."""
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("ORDERS_PASSWORD", PASSWORD)
    monkeypatch.setitem(spark.sparkContext.environment, "ORDERS_PASSWORD", PASSWORD)  # of the workers
    monkeypatch.setattr(parcels, "is_local", lambda _: False)
    dsn = database.dsn(user="locked", password=f"'{password.replace('%s', str(file))}'")
    sink = ow.PostgresSink(dsn, table="target")
    packings: list[bytes] = []
    real = parcels.warn
    monkeypatch.setattr(
        parcels, "warn", lambda context, work: (packings.append(cloudpickle.dumps(work)), real(context, work))
    )
    write(sink, spark.range(0, 100, 1, 2), "orders")
    assert len(packings) == 1
    assert PASSWORD.encode() not in packings[0]
    assert PASSWORD not in repr(sink)
    assert "password" not in str(sink.describe())


def test_a_parcel_cannot_be_opened_after_its_job_or_be_taken_for_another(spark: SparkSession) -> None:
    """A task that outlives its job must not work under the next job's identity."""
    with packed(spark, "old") as old:
        assert old.open() == "old"
    with pytest.raises(EpochFailed, match="Its job is over"):
        old.open()
    with packed(spark, "new") as new:
        assert new.path == old.path, "the system gives the same descriptor again"
        with pytest.raises(EpochFailed, match="something else by now"):
            old.open()
        with pytest.raises(EpochFailed, match="work of another job"):
            Parcel(f"/dev/fd/{(new.path or '').rpartition('/')[2]}", name=old.name).open()
        assert new.open() == "new"


def test_without_memory_files_a_parcel_is_a_private_file_for_as_long_as_its_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with packed(spark, kafka_work(PASSWORD)) as parcel:
        assert parcel.path is not None
        assert Path(parcel.path).stat().st_mode & 0o777 == 0o600
        assert parcel.open() == kafka_work(PASSWORD)
    assert not Path(parcel.path).exists()


@pytest.mark.parametrize("make", [kafka_work, postgres_work])
def test_on_a_cluster_a_literal_password_still_works_and_is_warned_about_once(
    make: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    session = cluster_session(**SECURE)
    for _ in range(2):
        with packed(session, make(PASSWORD)) as parcel:
            assert pickle.loads(cloudpickle.dumps(parcel)).open() == make(PASSWORD)
    (said,) = caplog.messages
    assert "${env:NAME}" in said
    assert "${file:/path}" in said
    assert PASSWORD not in said


@pytest.mark.parametrize("make", [kafka_work, postgres_work])
def test_on_a_cluster_references_travel_as_they_are_and_need_no_warning_in_a_secure_session(
    make: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    with packed(cluster_session(**SECURE), make("${env:PASSWORD}")) as parcel:
        assert b"${env:PASSWORD}" in cloudpickle.dumps(parcel)
    assert caplog.messages == []
    with packed(cluster_session(), make("${env:PASSWORD}")):
        pass
    (said,) = caplog.messages
    assert "spark.authenticate=true and spark.network.crypto.enabled=true" in said


@pytest.mark.parametrize(
    ("exposure", "conf", "named"),
    [
        (Exposure.NOTHING, {}, []),
        (Exposure.REFERENCES, SECURE, []),
        (Exposure.REFERENCES, {"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"}, []),
        (Exposure.REFERENCES, {"spark.authenticate": "true"}, ["spark.network.crypto.enabled=true"]),
        (Exposure.REFERENCES, {"spark.network.crypto.enabled": "true"}, ["spark.authenticate=true"]),
        (Exposure.CLEAR, SECURE, ["${env:NAME}"]),
        (Exposure.CLEAR, {}, ["spark.authenticate=true", "${env:NAME}"]),
    ],
)
def test_a_cluster_is_warned_about_by_the_settings_that_are_missing(
    exposure: Exposure, conf: dict[str, str], named: list[str]
) -> None:
    said = warnings(exposure, conf)
    assert len(said) == len(named)
    assert all(name in line for name, line in zip(named, said, strict=True))


def test_keys_of_an_object_store_are_noticed(tmp_path: Path) -> None:
    assert lake_place(PASSWORD).exposure is Exposure.CLEAR
    assert Place(fs.S3FileSystem(region="x"), "b").exposure is Exposure.NOTHING
    assert Place(fs.LocalFileSystem(), str(tmp_path)).exposure is Exposure.NOTHING


def test_a_reference_is_looked_up_in_secret_settings_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user name that reads "${env:AWS_SECRET_ACCESS_KEY}" must not send that somewhere."""
    monkeypatch.setenv("SECRET", "x y")
    file = tmp_path / "secret"
    file.write_text("from a file \r\n")
    found = looked_up(
        {"user": "${env:SECRET}", "password": "${env:SECRET}", "other": f"${{file:{file}}}", "plain": "$x"},
        {"password", "other", "plain"},
    )
    assert found == {"user": "${env:SECRET}", "password": "x y", "other": "from a file ", "plain": "$x"}
    assert not is_reference("${vault:x}")
    assert not is_reference("x${env:SECRET}")


@pytest.mark.parametrize("missing", ["${env:NO_SUCH_VARIABLE}", "${file:/no/such/file}"])
def test_a_reference_to_nothing_is_named(missing: str) -> None:
    with pytest.raises(SecretUnavailable, match=r"setting password is \$\{(env|file):"):
        looked_up({"password": missing}, {"password"})
    with pytest.raises(SecretUnavailable):
        ow.PostgresSink(f"host=127.0.0.1 port=1 password={missing}", table="t").open(owner("p"))
    with pytest.raises(SecretUnavailable):
        ow.KafkaSink("127.0.0.1:1", topic="t", settings=sasl(missing)).open(owner("p"))


def test_a_reference_may_stand_in_a_url() -> None:
    options = Options.parse("postgresql://me:${env:ORDERS_PASSWORD}@db/shop")
    assert options.parameters["password"] == "${env:ORDERS_PASSWORD}"
    assert options.exposure is Exposure.REFERENCES
