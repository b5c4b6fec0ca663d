"""A source's password by reference: Kafka's Java client looks it up, on whichever machine it runs."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import SecretUnavailable
from onceward.pipeline.source import java_settings


def settings(password: str) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.username": 'm"e', "sasl.password": password}


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
