"""Records as lines, both ways: `key:value` for people, JSON objects for programs. Pure.

What is no UTF-8 text is `{"base64": "..."}` in JSON, so that what one command prints another one can write again.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from onceward.errors import ConfigurationError
from onceward.terminal import one_line

if TYPE_CHECKING:
    from onceward.kafka.reading import Record

SEPARATOR: Final = ":"
NO_VALUE: Final = "(no value)"  # a tombstone: it deletes its key in a compacted topic
OPENS_JSON: Final = (b"{", b"[", b'"')


@dataclass(frozen=True, slots=True)
class Row:
    """A record to be written."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A record as `consume --json` prints it; all but the value may be left out."""

    value: Any
    key: Any = None
    headers: dict[str, Any] | list[tuple[str, Any]] = []
    partition: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None  # where it was read: not where it goes
    offset: int | None = None


class Lines:
    """Bytes as they come in, cut into lines; the last one may lack its end."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, data: bytes) -> list[bytes]:
        """The lines that are whole now; empty data ends the last one."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        return whole


@dataclass(frozen=True, slots=True)
class PlainLines:
    """`key:value`; without a separator the whole line is the value. `separator` None: no line has a key."""

    separator: bytes | None = SEPARATOR.encode()
    chosen: bool = False  # by the user: then a line may look like anything

    def row(self, line: bytes) -> Row:
        if self.separator is None or self.separator not in line:
            return Row(line)
        if not self.chosen and line.lstrip().startswith(OPENS_JSON):
            raise ConfigurationError(
                f"it begins like JSON, and would be cut at its first {SEPARATOR!r}. If the whole line is the value: "
                f"--no-key. If it has a key: --separator {SEPARATOR!r} (or another one). If it is a record as an "
                "object with key and value: --json-lines"
            )
        key, _, value = line.partition(self.separator)
        return Row(value, key)


class JsonLines:
    """Each line an object: value, and if there are any key, headers, partition, timestamp_ms."""

    @staticmethod
    def row(line: bytes) -> Row:
        try:
            found = msgspec.json.decode(line, type=_Line)
            pairs = found.headers.items() if isinstance(found.headers, dict) else found.headers
            headers = [(name, _bytes(value)) for name, value in pairs]
            return Row(_bytes(found.value), _bytes(found.key), headers, found.partition, found.timestamp_ms)
        except (msgspec.DecodeError, binascii.Error) as error:
            raise ConfigurationError(f'it is no record such as {{"key": "ann", "value": "1"}}: {error}') from error


def rows(lines: list[bytes], first: int, form: PlainLines | JsonLines) -> Iterator[Row]:
    """Empty lines are passed over; `first`: the number of the first one, for what is wrong with one."""
    for number, line in enumerate(lines, first):
        if line:
            try:
                yield form.row(line)
            except ConfigurationError as error:
                raise ConfigurationError(f"line {number}: {error}") from error


def shown(record: "Record", *, where: bool, separator: str = SEPARATOR) -> str:
    """For people. Line ends and escapes inside are shown as such: a record is one line."""
    value = NO_VALUE if record.value is None else _text(record.value)
    line = value if record.key is None else f"{_text(record.key)}{separator}{value}"
    return f"{record.place.partition}@{record.offset}\t{line}" if where else line


def as_json(record: "Record") -> str:
    """For programs."""
    facts = {
        "topic": record.place.topic,
        "partition": record.place.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _value(record.key),
        "value": _value(record.value),
        "headers": [[name, _value(value)] for name, value in record.headers],
    }
    return json.dumps(facts)


def _text(data: bytes) -> str:
    return one_line(data.decode("utf-8", "backslashreplace"))


def _value(data: bytes | None) -> object:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def _bytes(value: Any) -> bytes | None:
    """Text as it is; another JSON value as its own text."""
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str(text), **others} if not others:
            return base64.b64decode(text, validate=True)
        case _:
            return msgspec.json.encode(value)
