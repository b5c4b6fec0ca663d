"""How to connect. Secrets stay in `Options.parameters` and are in no message and no `repr`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from onceward.errors import ConfigurationError
from onceward.secret import Exposure, is_reference, looked_up, remember

Row = tuple[Any, ...]

SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})
# libpq waits for ever by itself. A dead peer is noticed after half a minute; the dsn may say otherwise.
DEADLINES: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


@dataclass(frozen=True, slots=True)
class Options:
    """How to connect, with secrets: in no `repr`."""

    parameters: Mapping[str, Any] = field(repr=False)
    application: str = "onceward"

    @classmethod
    def parse(cls, dsn: str) -> Self:
        """From a connection string or URL."""
        try:
            parameters = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:  # its text may repeat a password
            raise ConfigurationError(
                "dsn is no PostgreSQL connection string; write 'host=... dbname=... user=...' or "
                "'postgresql://user@host/dbname', with special characters of a URL percent-encoded"
            ) from None
        if "@" in str(parameters.get("host", "")):
            raise ConfigurationError("the dsn's host has an '@' in it; percent-encode an '@' of the password as %40")
        return cls(parameters)

    @property
    def public(self) -> str:
        """The connection string without secrets."""
        return make_conninfo("", **{name: value for name, value in self.parameters.items() if name not in SECRETS})

    @property
    def place(self) -> str:
        """Where it leads, for messages."""
        host, port, name, user = (self.parameters.get(part) for part in ("host", "port", "dbname", "user"))
        where = f"PostgreSQL at {host or 'the default host'}{f':{port}' if port else ''}"
        return f"{where}, database {name or '(default)'}, user {user or '(default)'}"

    @property
    def exposure(self) -> Exposure:
        """What somebody who reads the parameters learns of secrets."""
        return Exposure.of(str(self.parameters[name]) for name in SECRETS & set(self.parameters))

    def connect(self) -> Connection[Row]:
        """A connection, every statement its own transaction unless BEGIN says otherwise."""
        parameters = looked_up(self.parameters, SECRETS)
        settings = {**DEADLINES, **parameters, "client_encoding": "utf8", "application_name": self.application}
        connection = psycopg.connect("", autocommit=True, prepare_threshold=None, **settings)
        if connection.info.password:  # which libpq may have found by itself
            remember({**parameters, "password": connection.info.password}, SECRETS)
        return connection

    def resolved(self, connection: Connection[Row]) -> "Options":
        """With what libpq found in the environment and in files here, for machines that have neither."""
        found = {option.keyword.decode(): option.val.decode() for option in connection.pgconn.info if option.val}
        found.pop("hostaddr", None)  # of the one server we reached; the dsn may name several
        parameters = {**found, **self.parameters}
        for file in ("service", "servicefile", "passfile"):
            parameters.pop(file, None)
        if connection.info.password and not is_reference(str(self.parameters.get("password", ""))):
            parameters["password"] = connection.info.password
        return replace(self, parameters=parameters)
