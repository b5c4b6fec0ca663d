"""Our Kafka settings in the words of the Java client that Spark's source uses.

What Spark is told travels to its executors and stands in its plans, so secrets go as references, which that client
looks up by itself, on every machine: passwords where that is how we were given them, keys and certificates always.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from onceward.errors import ConfigurationError, SecretUnavailable
from onceward.kafka.security import AUTHORITY, CERTIFICATE, KEY, KEY_PASSWORD, SECRETS, tls_of
from onceward.pipeline.java_admin import reason
from onceward.secret import is_reference, looked_up, reference_of, remember

_SAME: Final = ("security.protocol", "sasl.mechanism", "client.id")
_JAAS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PROVIDERS: Final = {
    "kafka.config.providers": "env,directory",
    "kafka.config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "kafka.config.providers.directory.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}


def java_settings(settings: Mapping[str, str], spark: SparkSession) -> dict[str, str]:
    """As options of Spark's source."""
    java = {f"kafka.{name}": settings[name] for name in _SAME if name in settings}
    if "sasl.username" in settings:
        module, user = _JAAS[settings["sasl.mechanism"]], _quoted(settings["sasl.username"])
        password = _quoted(_secret("sasl.password", settings, spark, java))
        java["kafka.sasl.jaas.config"] = f"{module} required username={user} password={password};"
    if AUTHORITY in settings:
        java["kafka.ssl.truststore.type"] = "PEM"
        java["kafka.ssl.truststore.location"] = settings[AUTHORITY]
    if CERTIFICATE in settings:
        java |= _PROVIDERS | _certificate(settings)
        if KEY_PASSWORD in settings:
            java["kafka.ssl.key.password"] = _secret(KEY_PASSWORD, settings, spark, java)
    return java


def _certificate(settings: Mapping[str, str]) -> dict[str, str]:
    """The Java client takes the texts themselves, or one file with both; what it is told is where the texts are."""
    certificate = settings[CERTIFICATE]
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": _in_directory(CERTIFICATE, certificate),
        "kafka.ssl.keystore.key": _in_directory(KEY, settings.get(KEY, certificate)),
    }


def require_usable_in_java(settings: Mapping[str, str], java: Mapping[str, str], spark: SparkSession) -> None:
    """The files of TLS, as the driver has them: Java is pickier about keys than OpenSSL is."""
    if tls_of(settings) is None or CERTIFICATE not in settings:
        return
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no Kafka client of its own
    told = jvm.java.util.HashMap()
    for name, value in java.items():
        told.put(name.removeprefix("kafka."), value)
    try:
        known = jvm.org.apache.kafka.clients.admin.AdminClientConfig(told)
        jvm.org.apache.kafka.common.security.ssl.DefaultSslEngineFactory().configure(known.values())
    except Py4JJavaError as error:
        key = settings.get(KEY, settings[CERTIFICATE])
        raise ConfigurationError(
            f"Kafka's Java client, which reads for Spark, cannot use {CERTIFICATE} {settings[CERTIFICATE]!r} with the "
            f"key in {key!r}: {reason(error)}. It takes what this makes: openssl pkcs8 -topk8 -nocrypt -in {key} -out "
            "key.pem; or, for a key with a password that Java 17 opens, with -v1 PBE-SHA1-3DES instead of -nocrypt"
        ) from error


def _secret(name: str, settings: Mapping[str, str], spark: SparkSession, java: dict[str, str]) -> str:
    """As it was given; a reference in the words of Kafka's config providers, which `java` then has."""
    told = settings[name]
    if not is_reference(told):
        remember(settings, SECRETS)
        return told
    java |= _PROVIDERS
    return _java_reference(name, told, spark)


def _java_reference(name: str, told: str, spark: SparkSession) -> str:
    """What Kafka's config providers do not find they leave as it is: so it is looked for here."""
    value = looked_up({name: told}, SECRETS)[name]
    if '"' in value or "\\" in value:
        raise SecretUnavailable(
            f"{name} is {told}, and its value has a quote or a backslash in it, which Kafka's Java client does "
            "not take from a reference: choose a password without them"
        )
    place = reference_of(told)
    if place.kind == "env":
        if cast("Any", spark._jvm).System.getenv(place.name) is None:  # noqa: SLF001 - PySpark has no way to ask
            raise SecretUnavailable(
                f"{name} is {told}, and the variable was set after Spark's JVM had started, which does not "
                "see it: set it before the session is made"
            )
        return told
    if Path(place.name).read_text("utf-8") != value:
        raise SecretUnavailable(
            f"{name} is {told}; for a source the file must not end with a line end, which Kafka's Java client would "
            "take for a part of the password"
        )
    return _in_directory(name, place.name)


def _in_directory(name: str, path: str) -> str:
    """A file's text, in the words of Kafka's provider for the files of a directory."""
    file = Path(path)
    if not file.is_absolute() or ":" in path or "}" in path:
        raise ConfigurationError(
            f"{name} names {path}; for a source the path must be absolute and without a colon or a brace, since "
            "Kafka's Java client looks the file up by itself, on every machine"
        )
    return f"${{directory:{file.parent}:{file.name}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
