"""A real broker that asks for TLS and a password, and one that asks for a certificate: who gives what is asked for is
let in, whatever the command, as source and as sink; others are told."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession
from pyspark.sql.functions import upper
from typer.testing import CliRunner, Result

import onceward as ow
from onceward.cli.failing import exit_code
from onceward.cli.main import app
from onceward.cli.output import EXIT_NEEDS_PERSON
from onceward.errors import BrokerRefused
from onceward.kafka.wire import Cluster, Wire
from onceward.pipeline.source_topics import topic_ids
from onceward.servers.broker import DevBroker
from onceward.servers.broker.layout import Detour, free_ports
from support.certificates import STORE, certificates, keys
from support.runs import run
from support.waiting import eventually

PASSWORD: Final = "let-me-in-6b1f"
OF_THE_KEY: Final = "opens-the-key-93c2"


@dataclass(frozen=True)
class Secured:
    """A broker with one listener more, for clients with TLS and a user of ours."""

    bootstrap: str
    plain: str  # the listener that lets anybody in, and do everything
    authority: Path  # the certificate that signed the broker's
    password_file: Path
    admin: AdminClient  # who may do everything

    def settings(self, mechanism: str = "SCRAM-SHA-512", **others: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": "pipeline",
            "sasl.password": f"${{file:{self.password_file}}}",
            "ssl.ca.location": str(self.authority),
            **others,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    keystore, authority = certificates(folder)
    password_file = folder / "password"
    password_file.write_text(PASSWORD)
    (port,) = free_ports(1)
    own, module = "listener.name.detour.", "org.apache.kafka.common.security"
    listener = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,DETOUR:SASL_SSL",
        f"{own}ssl.keystore.type": "PKCS12",
        f"{own}ssl.keystore.location": str(keystore),
        f"{own}ssl.keystore.password": STORE,
        f"{own}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{own}plain.sasl.jaas.config": f'{module}.plain.PlainLoginModule required user_pipeline="{PASSWORD}";',
        f"{own}scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
    }
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
    with DevBroker(folder / "kafka", port=0, detours=[Detour(port, port)], settings={**listener, **rights}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("pipeline", how, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result(30)
        yield Secured(f"127.0.0.1:{port}", broker.bootstrap, authority, password_file, admin)


@dataclass(frozen=True)
class Mutual:
    """A broker that lets in who has the certificate of ours that it trusts."""

    bootstrap: str
    authority: Path
    certificate: Path
    key: Path
    sealed_key: Path  # the same, with `OF_THE_KEY`
    stranger: Path  # a certificate with its key in one file, which the broker does not trust

    def settings(self, **others: str) -> dict[str, str]:
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
            **others,
        }


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mutual]:
    folder = tmp_path_factory.mktemp("mutual")
    keystore, authority = certificates(folder)
    store, certificate = certificates(folder, "client")
    key, sealed = keys(store, OF_THE_KEY)
    theirs, stranger = certificates(folder, "stranger")
    stranger.write_text(stranger.read_text() + keys(theirs, OF_THE_KEY)[0].read_text())
    (port,) = free_ports(1)
    own = "listener.name.detour."
    listener = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,DETOUR:SSL",
        f"{own}ssl.keystore.type": "PKCS12",
        f"{own}ssl.keystore.location": str(keystore),
        f"{own}ssl.keystore.password": STORE,
        f"{own}ssl.truststore.type": "PEM",
        f"{own}ssl.truststore.location": str(certificate),
        f"{own}ssl.client.auth": "required",
    }
    with DevBroker(folder / "kafka", port=0, detours=[Detour(port, port)], settings=listener):
        yield Mutual(f"127.0.0.1:{port}", authority, certificate, key, sealed, stranger)


def command(secured: Secured, *words: str, settings: Mapping[str, str] | None = None) -> Result:
    told = secured.settings() if settings is None else settings
    options = [it for pair in told.items() for it in ("--setting", "=".join(pair))]
    ended = CliRunner().invoke(app, [*words, "--kafka", secured.bootstrap, *options])
    assert PASSWORD not in f"{ended.output}{ended.exception}"
    return ended


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_every_command_is_let_in_with_tls_and_a_password_by_reference(
    secured: Secured, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J4, I1: topics, records, groups, and the doctor; the password is looked up and never printed."""
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    settings = secured.settings(mechanism, **{"sasl.password": "${env:KAFKA_PASSWORD}"})
    topic = f"of-{mechanism.lower()}"
    for words, says in (
        (["kafka", "topic", "create", topic, "--partitions", "1"], f"made {topic}: 1 partition"),
        (["kafka", "produce", topic, "ann:1", "bob:2"], f"{topic}: 2 records written"),
        (["kafka", "consume", topic], "ann:1\nbob:2\n"),
        (["kafka", "topic", "describe", topic], topic),
        (["kafka", "topic", "list"], topic),
        (["kafka", "groups"], "group"),
    ):
        ended = command(secured, *words, settings=settings)
        assert ended.exit_code == 0, f"{words} {ended.output} {ended.exception!r}"
        assert says in ended.output
    examined = command(secured, "doctor", settings=settings)
    assert f"Kafka at {secured.bootstrap}" in examined.output
    assert "let us in" not in examined.output


OF_USER: Final = ("sasl.mechanism", "sasl.username", "sasl.password")
NAMES: Final = ("security.protocol", *OF_USER, "ssl.ca.location")
WRONG: Final = {
    "a wrong password": ({"sasl.password": "wrong"}, r"refused sasl\.username 'pipeline' with its sasl\.password"),
    "a wrong user": ({"sasl.username": "nobody"}, r"refused sasl\.username 'nobody' with its sasl\.password"),
    "another mechanism": (
        {"sasl.mechanism": "SCRAM-SHA-256"},
        r"takes? .*SCRAM-SHA-512|Enabled mechanisms .*SCRAM-SHA-512",
    ),
    "no authority": ({"ssl.ca.location": ""}, r"ssl\.ca\.location"),
    "no TLS": ({"security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": ""}, "speaks TLS: .*SASL_SSL"),
    "nothing": (dict.fromkeys(NAMES, ""), "speaks TLS: "),
    "no user": ({"security.protocol": "SSL", **dict.fromkeys(OF_USER, "")}, "asks for a user: .* SASL_SSL"),
}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("wrong", WRONG)
def test_who_is_not_let_in_is_refused_for_good_and_told_what_to_correct(
    secured: Secured, wrong: str, mechanism: str
) -> None:
    """I4, J4: no advice to be patient, and an exit code that says that a restart does not help."""
    given, says = WRONG[wrong]
    settings = {name: value for name, value in secured.settings(mechanism, **given).items() if value}
    ended = command(secured, "kafka", "topic", "list", settings=settings)
    assert isinstance(ended.exception, BrokerRefused), ended.output
    assert re.search(says, str(ended.exception))
    with pytest.raises(BrokerRefused, match=says) as refused:
        Wire(Cluster(secured.bootstrap, settings)).client()
    assert len(str(refused.value)) < 500
    assert exit_code(refused.value, ["run"]) == EXIT_NEEDS_PERSON


def test_a_broker_that_asks_for_no_user_is_told_from_one_that_refuses_him(broker: DevBroker) -> None:
    """I4."""
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    with pytest.raises(BrokerRefused, match=r"asks for no user: .* security.protocol is to be PLAINTEXT"):
        Wire(Cluster(broker.bootstrap, {**settings, "sasl.password": "x"})).client()
    with pytest.raises(BrokerRefused, match=r"does not speak TLS: .*PLAINTEXT"):
        Wire(Cluster(broker.bootstrap, {"security.protocol": "SSL"})).client()


OF_JAVA: Final = {
    "a wrong password": "sasl.username and sasl.password",
    "another mechanism": "sasl.mechanism",
    "no authority": "ssl.ca.location",
    "nothing": "speaks TLS",
}


@pytest.mark.parametrize(
    ("wrong", "mechanism"),
    [*((it, "SCRAM-SHA-512") for it in OF_JAVA), ("a wrong password", "PLAIN")],
)
def test_a_source_that_is_not_let_in_is_refused_before_anything_is_claimed(
    secured: Secured,
    spark: SparkSession,
    name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    wrong: str,
    mechanism: str,
) -> None:
    """I4, J4: the source is Spark's, and its client Java's."""
    settings = {it: value for it, value in secured.settings(mechanism, **WRONG[wrong][0]).items() if value}
    events = ow.read_kafka(spark, secured.bootstrap, topics=["in"], settings=settings)
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(ow.FunctionSink(print, idempotent=True))
    with caplog.at_level(logging.WARNING, "onceward"), pytest.raises(BrokerRefused, match=OF_JAVA[wrong]) as refused:
        pipeline.start(trigger="once")
    assert caplog.messages == []  # nothing is waited for, and nothing is back
    assert PASSWORD not in str(refused.value)
    assert not (tmp_path / "home" / "terms").exists()


def test_a_pipeline_reads_and_writes_through_tls_with_a_password(
    secured: Secured, spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """J4, A1: Spark's source, the sink of the driver, and its tasks."""
    settings = secured.settings()
    for topic in ("in", "out"):
        assert command(secured, "kafka", "topic", "create", topic, "--partitions", "2").exit_code == 0
    values = [f"v{number}" for number in range(20)]
    assert command(secured, "kafka", "produce", "in", *(f"k:{it}" for it in values)).exit_code == 0
    events = ow.read_kafka(spark, secured.bootstrap, topics=["in"], settings=settings)
    for small in (10 << 20, 0):
        sink = ow.KafkaSink(secured.bootstrap, topic="out", settings=settings, small_epoch_bytes=small)
        pipeline = ow.Pipeline(f"{name}-{small}", home=tmp_path / str(small), source=events)
        run(pipeline.to(sink, rows=lambda batch: batch.select("key", "value")))
    seen = command(secured, "kafka", "consume", "out").stdout.splitlines()
    assert sorted(it for it in seen if it.startswith("k:")) == sorted(f"k:{it}" for it in values * 2)
    held = b"".join(it.read_bytes() for it in tmp_path.rglob("*") if it.is_file())
    assert PASSWORD.encode() not in held


@pytest.mark.parametrize("sealed", [False, True], ids=["a bare key", "a key with a password"])
def test_a_pipeline_reads_and_writes_where_a_certificate_is_asked_for(
    mutual: Mutual, spark: SparkSession, name: str, tmp_path: Path, sealed: bool
) -> None:
    """J4, A1: the source is given where the key is, and never the key."""
    (tmp_path / "opens").write_text(OF_THE_KEY)
    settings = mutual.settings()
    if sealed:
        settings |= {"ssl.key.location": str(mutual.sealed_key), "ssl.key.password": f"${{file:{tmp_path}/opens}}"}
    source, target = f"{name}-in", f"{name}-out"
    for topic in (source, target):
        assert told(mutual, settings, "kafka", "topic", "create", topic, "--partitions", "2").exit_code == 0
    assert told(mutual, settings, "kafka", "produce", source, "k:one", "k:two").exit_code == 0
    events = ow.read_kafka(spark, mutual.bootstrap, topics=[source], settings=settings)
    sink = ow.KafkaSink(mutual.bootstrap, topic=target, settings=settings, small_epoch_bytes=0)
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events)
    run(pipeline.to(sink, rows=lambda batch: batch.select("key", upper("value").alias("value"))))
    seen = told(mutual, settings, "kafka", "consume", target).stdout.splitlines()
    assert sorted(it for it in seen if it.startswith("k:")) == ["k:ONE", "k:TWO"]
    key = mutual.key.read_text().splitlines()[1]
    plan = str(events._jdf.queryExecution().toString())
    held = b"".join(it.read_bytes() for it in (tmp_path / "home").rglob("*") if it.is_file()).decode(errors="replace")
    for secret in (OF_THE_KEY, key):
        assert secret not in plan
        assert secret not in held


@pytest.mark.parametrize("who", ["nobody", "a stranger"])
def test_who_has_no_certificate_that_the_broker_trusts_is_told_so(
    mutual: Mutual, spark: SparkSession, who: str
) -> None:
    """I4, J4."""
    settings = {it: value for it, value in mutual.settings().items() if "key" not in it and "certificate" not in it}
    if who == "a stranger":
        settings["ssl.certificate.location"] = str(mutual.stranger)
    with pytest.raises(BrokerRefused, match=r"certificate that it trusts \(ssl\.certificate\.location"):
        Wire(Cluster(mutual.bootstrap, settings)).client()
    events = ow.read_kafka(spark, mutual.bootstrap, topics=["in"], settings=settings)
    with pytest.raises(BrokerRefused, match=r"ssl\.certificate\.location"):
        topic_ids(events)


def told(mutual: Mutual, settings: Mapping[str, str], *words: str) -> Result:
    options = [it for pair in settings.items() for it in ("--setting", "=".join(pair))]
    return CliRunner().invoke(app, [*words, "--kafka", mutual.bootstrap, *options])


def test_a_topic_whose_settings_may_not_be_asked_is_written_to_all_the_same(
    secured: Secured, spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """I4: Kafka's own producers need no DescribeConfigs; without it the broker alone knows what is too large."""
    source, target = f"{name}-in", f"{name}-out"
    wire = Wire(Cluster(secured.bootstrap, secured.settings()))
    wire.create_topics([source], 1, settings={"max.message.bytes": "3000000"})
    wire.create_topics([target], 1, settings={"max.message.bytes": "2000000"})
    deny(secured.admin, target, AclOperation.DESCRIBE_CONFIGS)
    eventually(lambda: wire.topic_settings([target]) == {target: {}}, "that the broker knows of it")
    assert wire.topics([target]) == {target: [1]}
    sizes = [1_500_000, *[1000] * 3000]
    producer = Producer({"bootstrap.servers": secured.plain, "message.max.bytes": 3_000_000})
    for size in sizes:
        producer.produce(source, b"x" * size)
    producer.flush()
    events = ow.read_kafka(spark, secured.bootstrap, topics=[source], settings=secured.settings())
    sink = ow.KafkaSink(secured.bootstrap, topic=target, settings=secured.settings())

    def pipeline() -> ow.Pipeline:
        return ow.Pipeline(name, home=tmp_path, source=events).to(sink, rows=lambda batch: batch.select("value"))

    assert run(pipeline()).rows_written == {"kafka": len(sizes)}
    producer.produce(source, b"x" * 2_500_000)
    producer.flush()
    with pytest.raises(BrokerRefused, match=r"MESSAGE_TOO_LARGE.*DescribeConfigs on the topic"):
        run(pipeline())
    wire.close()


def test_a_right_that_is_missing_is_named_and_not_taken_for_a_missing_topic(secured: Secured, name: str) -> None:
    """I4."""
    assert command(secured, "kafka", "topic", "create", name, "--partitions", "1").exit_code == 0
    deny(secured.admin, name, AclOperation.DESCRIBE_CONFIGS)
    with closing(Wire(Cluster(secured.bootstrap, secured.settings()))) as wire:
        eventually(lambda: wire.topic_settings([name]) == {name: {}}, "that the broker knows of it")
    ended = command(secured, "kafka", "topic", "describe", name)
    assert isinstance(ended.exception, BrokerRefused)
    assert f"how topic '{name}' is set up may not be asked: allow DescribeConfigs" in str(ended.exception)


def deny(admin: AdminClient, topic: str, operation: AclOperation) -> None:
    """To the pipeline's user; anything else stays allowed."""
    of_topic = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:pipeline", "*"
    rules = [
        AclBinding(*of_topic, operation, AclPermissionType.DENY),
        AclBinding(*of_topic, AclOperation.ALL, AclPermissionType.ALLOW),
    ]
    for done in admin.create_acls(rules).values():
        done.result(30)
