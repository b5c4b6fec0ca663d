"""The security settings of a Kafka client: which there are, which go together, and the TLS that they ask for.

What would have no effect is refused: whoever gives a password or an authority believes that it is used.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from onceward.errors import ConfigurationError
from onceward.secret import looked_up

CERTIFICATE: Final = "ssl.certificate.location"
KEY: Final = "ssl.key.location"
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - a setting's name
AUTHORITY: Final = "ssl.ca.location"
# Kafka's names, as users know them, and kafka-python's.
SETTINGS: Final[Mapping[str, str]] = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    AUTHORITY: "ssl_cafile",
    CERTIFICATE: "ssl_certfile",
    KEY: "ssl_keyfile",
    KEY_PASSWORD: "ssl_password",
    "client.id": "client_id",
}
SECRETS: Final = frozenset({"sasl.password", KEY_PASSWORD})  # may be references (onceward.secret)
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def require_usable(settings: Mapping[str, Any]) -> None:
    """Each is known, and has an effect."""
    if unknown := sorted(set(settings) - set(SETTINGS)):
        raise ConfigurationError(
            f"unknown Kafka setting {', '.join(unknown)}; known settings are {', '.join(sorted(SETTINGS))}"
        )
    for name, value in settings.items():
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f"Kafka setting {name} is empty; leave it out, or give it a text")
    protocol = protocol_of(settings)
    if protocol not in PROTOCOLS:
        raise ConfigurationError(f"security.protocol {protocol!r} is not known; use one of {', '.join(PROTOCOLS)}")
    for prefix, layer in (("sasl.", "SASL"), ("ssl.", "SSL")):
        idle = sorted(name for name in settings if name.startswith(prefix))
        if idle and layer not in protocol:
            fitting = " or ".join(it for it in PROTOCOLS if layer in it)
            raise ConfigurationError(
                f"{', '.join(idle)} would have no effect with security.protocol={protocol}; set it to {fitting}"
            )
    if "SASL" in protocol:
        _require_user(settings)
    if CERTIFICATE not in settings and (idle := sorted({KEY, KEY_PASSWORD} & settings.keys())):
        raise ConfigurationError(
            f"{', '.join(idle)} would have no effect without {CERTIFICATE}: name the client's certificate, as a PEM "
            "file, which may hold the key as well"
        )


def _require_user(settings: Mapping[str, str]) -> None:
    mechanism = settings.get("sasl.mechanism")
    if mechanism not in MECHANISMS:
        found = f"sasl.mechanism {mechanism!r} is not supported" if mechanism else "sasl.mechanism is missing"
        raise ConfigurationError(f"{found}; use one of {', '.join(MECHANISMS)}")
    if missing := sorted({"sasl.username", "sasl.password"} - settings.keys()):
        raise ConfigurationError(f"security.protocol={protocol_of(settings)} needs {' and '.join(missing)}")


def protocol_of(settings: Mapping[str, str]) -> str:
    """Kafka's own default is the one without any security."""
    return settings.get("security.protocol", "PLAINTEXT")


def client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """In kafka-python's words, with secrets looked up; it reads the files of TLS anew for each connection."""
    tls_of(settings)  # what cannot be used is named here; there it would only fail to connect
    found = {SETTINGS[name]: value for name, value in looked_up(settings, SECRETS).items()}
    if CERTIFICATE in settings:
        found.setdefault(SETTINGS[KEY_PASSWORD], "")  # else OpenSSL would ask for one at the terminal
    return found


def tls_of(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """What connections are wrapped in; None: nothing. Files that cannot be used are named."""
    if "SSL" not in protocol_of(settings):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # compares names, too
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if (authority := settings.get(AUTHORITY)) is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(authority)
        except OSError as error:
            raise ConfigurationError(
                f"{AUTHORITY} {authority!r} cannot be read as certificates (PEM): {error.strerror or error}"
            ) from error
    if (certificate := settings.get(CERTIFICATE)) is not None:
        key = settings.get(KEY, certificate)
        password = looked_up(settings, SECRETS).get(KEY_PASSWORD, "")
        try:
            context.load_cert_chain(certificate, key, password)
        except OSError as error:
            raise ConfigurationError(
                f"{CERTIFICATE} {certificate!r} with the key in {key!r} cannot be used: {error.strerror or error}. "
                f"Both are PEM files and belong together; a key with a password needs {KEY_PASSWORD}"
            ) from error
    return context
