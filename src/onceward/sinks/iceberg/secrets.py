"""Catalogue properties hold credentials: what of them may be written down, and texts without them.

Properties known to be harmless are written down. Those that sound like a credential are left out: pyiceberg finds them
in its own configuration or environment. With any other the whole is not written down, for nobody can tell which.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

_HARMLESS: Final = frozenset(
    {
        "name",
        "type",
        "warehouse",
        "prefix",
        "scope",
        "py-catalog-impl",
        "py-io-impl",
        "s3.endpoint",
        "s3.region",
        "client.region",
        "glue.id",
        "glue.region",
        "gcs.project-id",
        "adls.account-name",
        "dynamodb.table-name",
        "hdfs.host",
        "hdfs.port",
    }
)
_CREDENTIAL: Final = ("secret", "token", "password", "credential", "key", "sas", "user", "auth", "connection-string")
HIDDEN: Final = "***"


def describable(properties: Mapping[str, str]) -> dict[str, str] | None:
    """What may be written down; None if nobody can tell."""
    told = {key: value for key, value in properties.items() if key in _HARMLESS}
    others = properties.keys() - told.keys() - {"uri"}
    if not all(any(word in key for word in _CREDENTIAL) for key in others):
        return None
    if (uri := properties.get("uri")) is not None and "?" not in uri and _password(uri) is None:
        told["uri"] = uri
    return told


def redacted(text: str, properties: Mapping[str, str]) -> str:
    """An error's text, in which a library may have quoted what it was given."""
    hidden = {value for key, value in properties.items() if key not in _HARMLESS and key != "uri"}
    uri = properties.get("uri", "")
    query = uri.partition("?")[2]
    hidden |= {query, *(value for _, value in parse_qsl(query))}
    if (password := _password(uri)) is not None:
        hidden |= {password, unquote(password)}
    for value in sorted(hidden - {""}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def _password(uri: str) -> str | None:
    try:
        return urlsplit(uri).password
    except ValueError:
        return uri  # nobody can tell where in it the secret is
