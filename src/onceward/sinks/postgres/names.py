"""Names: the target as a user writes it, and the staging tables, whose names say whose and which try they are."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from psycopg import sql

from onceward.epoch.contract import EpochContext, Owner
from onceward.errors import ConfigurationError

LONGEST: Final = 63  # bytes of an identifier; PostgreSQL cuts the rest off without an error
_STAGING: Final = re.compile(r"stage_([0-9a-f]{16})_([0-9a-f]{8})_(\d+)_(\d+)_(\d+)")
_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^".][^.]*)')


class Table(NamedTuple):
    """A table's schema, which the server's search path may still have to give, and its name."""

    schema: str | None
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """`table` or `schema.table`, taken as they stand; a part in double quotes may have dots in it, as in SQL."""
        parts, rest = [], text
        while found := _PART.match(rest):
            quoted, bare = found.groups()
            parts.append(quoted.replace('""', '"') if quoted is not None else bare)
            rest = rest[found.end() :]
            if not rest.startswith("."):
                break
            rest = rest[1:] or "."  # a dot at the end leaves something unread
        if rest or len(parts) not in (1, 2) or any("\0" in part for part in parts):
            raise ConfigurationError(
                f"table={text!r} is no table's name; write 'table' or 'schema.table', and a part that has a dot or "
                "begins with a quote in double quotes, as in SQL"
            )
        too_long = [part for part in parts if len(part.encode()) > LONGEST]
        if too_long:
            raise ConfigurationError(f"the name {too_long[0]!r} is over PostgreSQL's {LONGEST} bytes")
        return cls(parts[0] if len(parts) == 2 else None, parts[-1])

    @property
    def identifier(self) -> sql.Identifier:
        """Quoted for a statement."""
        return sql.Identifier(self.name) if self.schema is None else sql.Identifier(self.schema, self.name)

    def __str__(self) -> str:
        return self.identifier.as_string()


def key_of(owner: Owner) -> str:
    """What pipeline and sink are called where names are short."""
    return hashlib.sha256(f"{owner.pipeline}\0{owner.sink}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingName:
    """Whose a staging table is (pipeline and sink, then lineage, as hashes), and for which try of which epoch."""

    key: str
    lineage: str
    epoch: int
    term: int
    attempt: int

    @classmethod
    def of(cls, owner: Owner, context: EpochContext) -> Self:
        """The one for this try."""
        return cls(
            key=key_of(owner),
            lineage=short_lineage(owner.lineage),
            epoch=context.epoch,
            term=owner.term,
            attempt=context.attempt,
        )

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From a table's name; None for a table that is something else."""
        found = _STAGING.fullmatch(text)
        if found is None:
            return None
        key, lineage, *numbers = found.groups()
        epoch, term, attempt = map(int, numbers)
        return cls(key=key, lineage=lineage, epoch=epoch, term=term, attempt=attempt)

    def __str__(self) -> str:
        text = f"stage_{self.key}_{self.lineage}_{self.epoch}_{self.term}_{self.attempt}"
        assert len(text) <= LONGEST, text
        return text


def short_lineage(lineage: str) -> str:
    """A lineage within one pipeline's names."""
    return hashlib.sha256(lineage.encode()).hexdigest()[:8]
