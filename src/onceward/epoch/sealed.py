"""Our files' envelope: one JSON object, then its SHA-256. What fails the check is named, never used."""

import hashlib
from typing import TypeVar

import msgspec

from onceward.errors import HomeMismatch, LedgerCorrupt

S = TypeVar("S", bound=msgspec.Struct)


def seal(value: msgspec.Struct) -> bytes:
    """Encode with a checksum line."""
    body = msgspec.json.encode(value)
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def unseal(data: bytes, kind: type[S], name: str, newest_format: int) -> S:
    """Decode and verify; the error names the file."""
    body, newline, rest = data.partition(b"\n")
    if not newline or rest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise LedgerCorrupt(
            f"{name} is damaged: its checksum does not match ({len(data)} bytes). Restore the file from a backup "
            "of the home; do not delete it, or the pipeline cannot tell what it has already committed."
        )
    try:
        found = msgspec.json.decode(body)
        number = found.get("format", 0) if isinstance(found, dict) else 0
        if isinstance(number, int) and number > newest_format:
            raise HomeMismatch(
                f"{name} has format {number}, written by a newer Onceward; this one reads up to {newest_format}"
            )
        return msgspec.convert(found, type=kind)
    except msgspec.DecodeError as error:  # includes ValidationError
        raise LedgerCorrupt(f"{name} is whole, but holds no {kind.__name__} ({error}): files were swapped") from error
