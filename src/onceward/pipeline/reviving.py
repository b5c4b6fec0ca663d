"""A pipeline's sinks without its program: made again from what the ledger keeps of them.

Whoever can write to a home can write a ledger entry that passes its checksum, so an entry is a claim and no more.
Hence a closed list: `KINDS` says which sinks can be made, and each of its classes says which settings are taken from a
home. An entry's `kind` is a key into that table and is never imported; what names code, secrets or files that hold
secrets is refused. Nothing is connected here: the caller shows `destination`, has it confirmed, and then has it made.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.epoch.ledger import SinkEntry
from onceward.errors import ConfigurationError

# What a connection string of a home may say. Left out are files (service, passfile, sslkey, sslrootcert and the like),
# secrets, and `options`, which sets anything on the server.
DSN_SETTINGS: Final = frozenset(
    {
        "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "gssencmode", "host",
        "hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "load_balance_hosts",
        "port", "require_auth", "sslmode", "sslnegotiation", "target_session_attrs", "tcp_user_timeout", "user",
    }
)  # fmt: skip
# What a catalogue of a home may say: where it is. Left out is whatever names a class (py-catalog-impl, py-io-impl).
CATALOG_SETTINGS: Final = frozenset(
    {
        "adls.account-name", "client.region", "dynamodb.table-name", "gcs.project-id", "glue.id", "glue.region",
        "hdfs.host", "hdfs.port", "name", "prefix", "s3.endpoint", "s3.region", "scope", "type", "uri", "warehouse",
    }
)  # fmt: skip
CATALOG_TYPES: Final = frozenset({"bigquery", "dynamodb", "glue", "hive", "rest", "sql"})
URI_SCHEMES: Final = frozenset(
    {"http", "https", "postgresql", "postgresql+psycopg", "postgresql+psycopg2", "sqlite", "thrift"}
)


@dataclass(frozen=True, slots=True)
class Revival:
    """A sink as a home describes it; nothing of it is made or connected yet."""

    name: str
    destination: str  # everything that decides where rows and credentials go, in one line
    settings: "HomeSettings"


class HomeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one kind of sink that are taken from a home."""

    @abstractmethod
    def destination(self) -> str:
        """Where it leads, for people to confirm."""

    @abstractmethod
    def make(self) -> TwoPhaseCommitSink:
        """The sink; passwords come from the environment, as each client library reads them."""

    def require_same(self, committable: Mapping[str, Any]) -> None:
        """The vote that is to be committed leads to the same place; whoever forges one may forge the other."""

    def _given(self) -> dict[str, Any]:
        """As keyword arguments; what an older home did not tell is left to the sink's default."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class _Kafka(HomeSettings, frozen=True, kw_only=True):
    bootstrap: str
    topic: str | None = None
    compression: str = "none"
    partitioning: Literal["key", "preserve"] = "key"
    transaction_timeout_ms: int | None = None
    small_epoch_bytes: int | None = None

    def destination(self) -> str:
        return f"Kafka at {_ascii(self.bootstrap)}, topic {self.topic or 'as each row says'}"

    def make(self) -> TwoPhaseCommitSink:
        from onceward.sinks.kafka import KafkaSink

        return KafkaSink(**self._given())


class _Postgres(HomeSettings, frozen=True, kw_only=True):
    dsn: str
    table: str
    mode: Literal["append", "upsert"] = "append"
    key: list[str] = []
    create: bool = False
    schema: str = "onceward"
    small_epoch_bytes: int | None = None

    def __post_init__(self) -> None:
        from onceward.postgres.options import Options

        _require_known("dsn", Options.parse(self.dsn).parameters, DSN_SETTINGS)

    def destination(self) -> str:
        where = _ascii(self.dsn) or "the default server of this machine's environment"
        return f"PostgreSQL at {where}, table {self.table}, markers in schema {self.schema}"

    def make(self) -> TwoPhaseCommitSink:
        from onceward.sinks.postgres import PostgresSink

        return PostgresSink(**self._given())

    def require_same(self, committable: Mapping[str, Any]) -> None:
        from onceward.sinks.postgres.names import Table

        if "target" in committable:
            given, (schema, name) = Table.parse(self.table), committable["target"]
            if (given.schema or schema, given.name, self.schema) != (schema, name, committable.get("schema")):
                raise ValueError(f"its vote is for the table {schema}.{name}, and its settings name {self.table}")


class _Files(HomeSettings, frozen=True, kw_only=True):
    path: str
    format: Literal["parquet", "json", "csv"] = "parquet"
    partition_by: list[str] = []
    epoch_column: str = "epoch"
    compression: str | None = None
    header: bool = True
    staging: str | None = None
    small_epoch_bytes: int | None = None

    def destination(self) -> str:
        return f"files in {self.path}, staged {'beside it' if self.staging is None else f'in {self.staging}'}"

    def make(self) -> TwoPhaseCommitSink:
        from onceward.sinks.files import FileSink

        return FileSink(**self._given())

    def require_same(self, committable: Mapping[str, Any]) -> None:
        if not all(isinstance(committable.get(name, 0), int) for name in ("term", "attempt")):
            raise ValueError("its vote names a staging directory that is none")


class _Delta(HomeSettings, frozen=True, kw_only=True):
    path: str
    partition_by: list[str] = []
    create: bool = True
    small_epoch_bytes: int | None = None

    def destination(self) -> str:
        return f"Delta table in {self.path}"

    def make(self) -> TwoPhaseCommitSink:
        from onceward.sinks.delta import DeltaSink

        return DeltaSink(**self._given())

    def require_same(self, committable: Mapping[str, Any]) -> None:
        _require_below(committable)


class _Iceberg(HomeSettings, frozen=True, kw_only=True):
    catalog: dict[str, str]
    table: str
    partition_by: list[str] = []
    create: bool = True
    properties: dict[str, str] = {}  # of a table that is created, which nothing here does: passed over
    small_epoch_bytes: int | None = None

    def __post_init__(self) -> None:
        _require_known("catalog", self.catalog, CATALOG_SETTINGS)
        if (kind := self.catalog.get("type", "sql")) not in CATALOG_TYPES:
            raise ValueError(f"catalog type {kind!r} is none of {', '.join(sorted(CATALOG_TYPES))}")
        uri = self.catalog.get("uri", "")
        if uri and ("?" in uri or urlsplit(uri).scheme not in URI_SCHEMES):
            raise ValueError(f"catalog uri {uri!r} is none of {', '.join(sorted(URI_SCHEMES))} without parameters")

    def destination(self) -> str:
        told = ", ".join(f"{_ascii(name)}={_ascii(value)}" for name, value in sorted(self.catalog.items()))
        return f"Iceberg table {self.table}, catalogue {told or 'as pyiceberg is configured here'}"

    def make(self) -> TwoPhaseCommitSink:
        from onceward.sinks.iceberg import IcebergSink

        return IcebergSink(**{name: value for name, value in self._given().items() if name != "properties"})

    def require_same(self, committable: Mapping[str, Any]) -> None:
        _require_below(committable)


KINDS: Final[Mapping[str, type[HomeSettings]]] = {
    "onceward.sinks.delta.sink:DeltaSink": _Delta,
    "onceward.sinks.files.sink:FileSink": _Files,
    "onceward.sinks.iceberg.sink:IcebergSink": _Iceberg,
    "onceward.sinks.kafka.sink:KafkaSink": _Kafka,
    "onceward.sinks.postgres.sink:PostgresSink": _Postgres,
}


def revival(name: str, part: SinkEntry) -> Revival:
    """A sink that took part in an epoch, if it may be made from a home at all."""
    if part.settings is None:
        raise ConfigurationError(
            f"sink {name!r} ({part.kind}) cannot be made from the ledger alone: it has settings with credentials, or "
            "is a class of your own. Give the pipeline's file: --file FILE.py"
        )
    known = KINDS.get(part.kind)
    if known is None:
        raise ConfigurationError(
            f"sink {name!r}: {part.kind!r} is no sink of Onceward's own, and nothing else is imported on a home's "
            "word. Give the pipeline's file: --file FILE.py"
        )
    try:
        settings = msgspec.convert(part.settings, type=known)
        settings.require_same(part.committable)
        return Revival(name, settings.destination(), settings)
    except (msgspec.ValidationError, ConfigurationError, ValueError, TypeError, LookupError) as error:
        raise ConfigurationError(
            f"sink {name!r}: its settings are not taken from a home: {error}. If they are yours, give the pipeline's "
            "file: --file FILE.py"
        ) from None


def _require_known(setting: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(set(given) - known):
        raise ValueError(f"{setting} says {', '.join(unknown)}, and may say only {', '.join(sorted(known))}")


def _require_below(committable: Mapping[str, Any]) -> None:
    """A lake table's vote names files, all of them below the table's own directory."""
    names = [str(file[0]) for file in committable.get("files", ())]
    if "manifest" in committable:
        names.append(str(committable["manifest"]))
    if wrong := [name for name in names if name.startswith("/") or ":" in name or ".." in name.split("/")]:
        raise ValueError(f"its vote names {wrong[0]}, which is not below the table's directory")


def _ascii(text: str) -> str:
    """A host that only looks like another one is told apart."""
    return text.encode("ascii", "backslashreplace").decode()
