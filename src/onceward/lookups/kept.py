"""What an epoch looked up, kept in the home: one file, claimed once, read by every further try of the epoch.

The file: a line of JSON, each table as a compressed Arrow stream, and a SHA-256 over all of it. Its name has the epoch
and a hash of the positions at which the epoch ends: a plan that a power cut took out of Spark's log and that is made
again may reach further, and rows that were read before its last records arrived are not for it.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from onceward.epoch.storage import Storage
from onceward.errors import HomeMismatch, LedgerCorrupt, LookupUnusable, PipelineFenced
from onceward.lookups import Tables

FORMAT: Final = 1
FOLDER: Final = "lookups"
RETAIN: Final = 10  # epochs. Spark runs only its newest one again; the others are for people who ask what was seen
_NAME: Final = re.compile(r"(\d{12})-[0-9a-f]{8}\.arrow")
_CHECKSUM: Final = 65  # bytes: hexadecimal, and a newline
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="zstd")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One table of a file."""

    name: str
    rows: int
    bytes: int


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file."""

    format: int = FORMAT
    lineage: str
    epoch: int
    tables: list[Part]


class KeptLookups:
    """The kept rows of a home's epochs; `location` is the home as people know it."""

    def __init__(self, storage: Storage, location: str, lineage: str) -> None:
        self._storage = storage
        self._location = location
        self._lineage = lineage

    def read(self, epoch: int, positions: Sequence[str]) -> dict[str, pa.Table] | None:
        """What is kept for an epoch that ends at these positions; None if nothing is."""
        name = _name(epoch, positions)
        try:
            data = b"".join(self._storage.chunks(name))  # there may be very much of it
        except FileNotFoundError:
            return None
        # Whoever wrote it may have been stopped before it was synced, and what is made of it may soon be out.
        self._storage.sync(name)
        return decode(data, f"{self._location}/{name}", self._lineage, epoch)

    def keep(self, epoch: int, positions: Sequence[str], tables: Tables) -> dict[str, pa.Table]:
        """Keep these, unless another driver was quicker: what is kept then counts, and is returned."""
        name = _name(epoch, positions)
        data = encode(tables, self._lineage, epoch)
        if self._storage.claim(name, data):
            return decode(data, f"{self._location}/{name}", self._lineage, epoch)  # as every further try reads it
        kept = self.read(epoch, positions)
        if kept is None:
            raise PipelineFenced(
                f"{self._location}/{name} was claimed by another driver and cleared away since: it is well past epoch "
                f"{epoch} and owns the pipeline now"
            )
        return kept

    def forget(self, done: int) -> None:
        """Remove what no try can ask for, once an epoch is done."""
        for file in self._storage.names(FOLDER):
            if (found := _NAME.fullmatch(file)) and int(found[1]) <= done - RETAIN:
                self._storage.remove(f"{FOLDER}/{file}")


def encode(tables: Tables, lineage: str, epoch: int) -> bytes:
    streams = {name: _stream(name, table) for name, table in tables.items()}
    parts = [Part(name=name, rows=tables[name].num_rows, bytes=data.size) for name, data in streams.items()]
    header = Header(lineage=lineage, epoch=epoch, tables=parts)
    body = b"".join((msgspec.json.encode(header), b"\n", *streams.values()))
    return body + _checksum(body)


def decode(data: bytes, place: str, lineage: str, epoch: int) -> dict[str, pa.Table]:
    """The tables of a file; what fails the check is named and never used."""
    body = memoryview(data)[:-_CHECKSUM]
    if len(data) <= _CHECKSUM or data[-_CHECKSUM:] != _checksum(body):
        raise LedgerCorrupt(
            f"{place} is damaged: its checksum does not match ({len(data)} bytes). It holds the rows that epoch "
            f"{epoch} looked up when it first ran. Restore the file from a backup of the home. If there is none, move "
            "it away: the epoch then reads the database once more, and if it is committed already, its replay is "
            "compared with what readers have seen."
        )
    line, _, _ = data.partition(b"\n")
    found = msgspec.json.decode(line)
    if found["format"] > FORMAT:
        raise HomeMismatch(
            f"{place} has format {found['format']}, written by a newer Onceward; this one reads up to {FORMAT}"
        )
    header = msgspec.convert(found, type=Header)
    if (header.lineage, header.epoch) != (lineage, epoch):
        raise LedgerCorrupt(
            f"{place} holds epoch {header.epoch} of lineage {header.lineage}, not epoch {epoch} of {lineage}: files "
            "were swapped"
        )
    tables, start = {}, len(line) + 1
    for part in header.tables:
        tables[part.name] = pa.ipc.open_stream(body[start : start + part.bytes]).read_all()
        start += part.bytes
    return tables


def _stream(name: Any, table: Any) -> pa.Buffer:
    """One table, which may come from a lookup that a user wrote."""
    if not isinstance(name, str) or not isinstance(table, pa.Table):
        raise LookupUnusable(
            f"a lookup's read() gives pyarrow tables by name; {name!r} is a {type(table).__name__}, not a pyarrow.Table"
        )
    twice = sorted({column for column in table.column_names if table.column_names.count(column) > 1})
    if twice or not table.column_names:
        fault = f"several columns named {', '.join(map(repr, twice))}" if twice else "no columns"
        raise LookupUnusable(f"the lookup's table {name!r} has {fault}; give each column a name of its own (AS ...)")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _name(epoch: int, positions: Sequence[str]) -> str:
    plan = hashlib.sha256("\n".join(positions).encode()).hexdigest()
    return f"{FOLDER}/{epoch:012d}-{plan[:8]}.arrow"


def _checksum(body: bytes | memoryview) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n"
