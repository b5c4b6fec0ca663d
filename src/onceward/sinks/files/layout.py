"""How published epochs are named: as partitions, so that Spark, Arrow and DuckDB find them. Pure.

    target/epoch=000000000012-1f3a9c04/country=DE/part-00000-….parquet
                                      /.onceward.json      whose epoch this is; hidden from readers

Values are escaped as Hive and Spark do it. A name always begins with its column and `=`, so no value climbs out.
"""

import re
from typing import Final

import msgspec

FORMAT: Final = 1
MANIFEST: Final = ".onceward.json"
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"  # Hive's and Spark's name for null, and for empty text
MANY: Final = 10**12  # epochs before a name has more than twelve digits
MAX_NAME_BYTES: Final = 255  # of one step of a path, on every file system we know
_ESCAPED: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a published directory says about itself."""

    format: int = FORMAT
    pipeline: str
    sink: str
    lineage: str
    epoch: int
    term: int
    attempt: int
    rows: int
    digest: int
    files: int


def escape(text: str) -> str:
    """A column's name or value as a part of a directory's name."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def partition_folder(column: str, value: str | None) -> str:
    """The directory of a partition's rows."""
    return f"{escape(column)}={NO_VALUE if not value else escape(value)}"


def epoch_folder(column: str, epoch: int, lineage: str) -> str:
    """The directory of an epoch's rows; another lineage's epochs have other names."""
    return f"{escape(column)}={epoch:012d}-{escape(lineage[:8])}"


def epoch_of(column: str, lineage: str | None, folder: str) -> int | None:
    """The epoch a directory's name tells, of one lineage or of any; None if it is none of ours."""
    suffix = re.escape(escape(lineage[:8])) if lineage is not None else ".+"
    found = re.fullmatch(rf"{re.escape(escape(column))}=(\d{{12,}})-{suffix}", folder)
    return int(found[1]) if found else None
