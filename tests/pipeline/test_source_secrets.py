"""A source's secrets by reference: Kafka's Java client looks them up, on whichever machine it runs."""

import base64
import os
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import ConfigurationError, SecretUnavailable
from onceward.kafka import wire as wire_module
from onceward.kafka.security import SETTINGS
from onceward.kafka.wire import Cluster, Wire
from onceward.pipeline.java_settings import java_settings
from support.certificates import certificates, keys


def settings(password: str) -> dict[str, str]:
    user = {"sasl.mechanism": "PLAIN", "sasl.username": 'm"e', "sasl.password": password}
    return {"security.protocol": "SASL_PLAINTEXT", **user}


def as_java_reads_it(spark: SparkSession, java: dict[str, str]) -> str:
    jvm: Any = spark._jvm
    config = {name.removeprefix("kafka."): value for name, value in java.items()}
    for part in ("key", "value"):
        config[f"{part}.deserializer"] = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    given = jvm.java.util.HashMap()
    for name, value in config.items():
        given.put(name, value)
    return str(jvm.org.apache.kafka.clients.consumer.ConsumerConfig(given).getPassword("sasl.jaas.config").value())


def test_a_reference_travels_as_it_is_and_is_looked_up_where_the_client_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """J4."""
    (tmp_path / "password").write_text("hunter 2")
    for reference, value in (("${env:PATH}", os.environ["PATH"]), (f"${{file:{tmp_path}/password}}", "hunter 2")):
        java = java_settings(settings(reference), spark)
        assert value not in str(java)
        assert as_java_reads_it(spark, java).endswith(f'username="m\\"e" password="{value}";')


def test_a_literal_password_is_given_as_it_is(spark: SparkSession) -> None:
    java = java_settings(settings('a"b\\'), spark)
    assert as_java_reads_it(spark, java).endswith('password="a\\"b\\\\";')
    assert not [name for name in java if "providers" in name]


def test_a_reference_that_java_would_not_find_is_refused_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's client would take the reference itself for the password."""
    monkeypatch.setenv("SET_TOO_LATE", "x")
    ends = tmp_path / "ends-with-a-line-end"
    ends.write_text("x\n")
    monkeypatch.setenv("QUOTED", 'a"b')
    for reference, said in (
        ("${env:QUOTED}", "without them"),
        ("${env:NOT_SET_AT_ALL}", "no environment variable"),
        ("${env:SET_TOO_LATE}", "before the session is made"),
        (f"${{file:{tmp_path}/missing}}", "cannot be read"),
        (f"${{file:{ends}}}", "must not end with a line end"),
    ):
        with pytest.raises(SecretUnavailable, match=said):
            ow.read_kafka(spark, "h:1", topics=["t"], settings=settings(reference))


def test_every_known_setting_has_its_effect_at_the_sources_client_and_at_the_sinks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J4: none is dropped on one side; what each does is shown with real brokers (tests/cli/test_secured_kafka.py)."""
    given = {name: f"/{name}" if "location" in name else f"the-{name}" for name in SETTINGS}
    given |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    java = str(java_settings(given, spark))
    loaded: list[str] = []
    handed: dict[str, Any] = {}

    class Context(SimpleNamespace):
        def load_verify_locations(self, authority: str) -> None:
            loaded.append(authority)

        def load_cert_chain(self, *told: str) -> None:
            loaded.extend(told)

    def client(**settings: Any) -> Any:
        handed.update(settings)
        return SimpleNamespace(check_version=lambda **_: None)

    monkeypatch.setattr(ssl, "SSLContext", lambda _: Context())
    monkeypatch.setattr(wire_module, "KafkaNetClient", client)
    Wire(Cluster("h:1", given)).client()
    told_in_java = {name: value for name, value in given.items() if value not in java.replace(":", "/")}
    assert not told_in_java
    told_to_the_sink = {*map(str, handed.values()), *loaded}
    assert not {name: value for name, value in given.items() if value not in told_to_the_sink}


def test_a_certificate_that_java_cannot_use_is_refused_with_what_makes_one_that_it_can(
    spark: SparkSession, tmp_path: Path
) -> None:
    """J4: a source would otherwise end with a stack of Java's exceptions, in the middle of its first epoch."""
    settings = {"security.protocol": "SSL", "ssl.certificate.location": str(tmp_path / "cert.pem")}
    with pytest.raises(
        ConfigurationError, match=r"ssl\.certificate\.location .*cert\.pem.* cannot be used: No such file"
    ):
        ow.read_kafka(spark, "h:1", topics=["t"], settings=settings)
    store, certificate = certificates(tmp_path, "client", "RSA")
    key, sealed = keys(store, "opens-it")
    settings = {"security.protocol": "SSL", "ssl.certificate.location": str(certificate)}
    with pytest.raises(ConfigurationError, match=r"cannot be used: .*ssl\.key\.password"):  # and nobody is asked for it
        ow.read_kafka(spark, "h:1", topics=["t"], settings={**settings, "ssl.key.location": str(sealed)})
    inner = base64.encodebytes(base64.b64decode("".join(key.read_text().splitlines()[1:-1]))[26:]).decode()
    (tmp_path / "pkcs1.key").write_text(f"-----BEGIN RSA PRIVATE KEY-----\n{inner}-----END RSA PRIVATE KEY-----\n")
    with pytest.raises(ConfigurationError, match=r"Java client, .* cannot use .*pkcs1.key.*openssl pkcs8 -topk8"):
        ow.read_kafka(
            spark, "h:1", topics=["t"], settings={**settings, "ssl.key.location": str(tmp_path / "pkcs1.key")}
        )
    with pytest.raises(ConfigurationError, match="the path must be absolute"):
        ow.read_kafka(spark, "h:1", topics=["t"], settings={**settings, "ssl.certificate.location": "cert.pem"})
