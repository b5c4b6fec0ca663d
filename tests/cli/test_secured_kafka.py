"""A real broker that asks for TLS and a password: who gives both is let in, whatever the command; others are told."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

import onceward as ow
from onceward.cli.main import app
from onceward.errors import BrokerRefused, BrokerUnreachable
from onceward.jars import java_command
from onceward.servers.broker import DevBroker
from onceward.servers.broker.layout import Detour, free_ports
from support.runs import run

PASSWORD: Final = "let-me-in-6b1f"
STORE: Final = "keystore-password"


@dataclass(frozen=True)
class Secured:
    """A broker with one listener more, for clients with TLS and a user of ours."""

    bootstrap: str
    authority: Path  # the certificate that signed the broker's
    password_file: Path

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
    with DevBroker(folder / "kafka", port=0, detours=[Detour(port, port)], settings=listener) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("pipeline", how, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result(30)
        yield Secured(f"127.0.0.1:{port}", authority, password_file)


def certificates(folder: Path) -> tuple[Path, Path]:
    """A key and its own certificate, made by the keytool that comes with Java."""
    store, certificate, keytool = folder / "broker.p12", folder / "broker.pem", java_command().parent / "keytool"
    common = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE, "-alias", "broker"]
    made = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-validity", "2", "-ext", "SAN=ip:127.0.0.1"]
    subprocess.run([keytool, *made, *common], check=True, capture_output=True)
    subprocess.run([keytool, "-exportcert", "-rfc", "-file", certificate, *common], check=True, capture_output=True)
    return store, certificate


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


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sasl.password": "wrong"}, "sasl.username and sasl.password"),
        ({"sasl.username": "nobody"}, "sasl.username and sasl.password"),
        ({"ssl.ca.location": ""}, "certificate"),
        ({"security.protocol": "PLAINTEXT"}, "security settings"),
    ],
    ids=["a wrong password", "a wrong user", "no authority", "no TLS"],
)
def test_who_is_not_let_in_is_told_what_to_look_at(
    secured: Secured, wrong: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4, J4."""
    monkeypatch.setattr("onceward.kafka.wire.CONNECT_TIMEOUT_S", 3.0)
    settings = {name: value for name, value in secured.settings(**wrong).items() if value}
    ended = command(secured, "kafka", "topic", "list", settings=settings)
    assert isinstance(ended.exception, BrokerRefused | BrokerUnreachable), ended.output
    assert says in str(ended.exception)
    assert len(str(ended.exception)) < 500


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
