"""The lock of a set of jars: an Ivy file that names them, a `.sha256` beside it that pins every byte.

The `.sha256` has the format of sha256sum, so `sha256sum -c` is a second opinion.
Extra attributes in the Ivy file would do too, but Ivy takes them for a part of the module's identity.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class JarLock:
    name: str
    ivy_file: Path
    sha256: Mapping[str, str]  # file name -> digest
    digest: str  # of the lock itself: a changed lock gets a folder of its own

    @classmethod
    def read(cls, ivy_file: Path) -> Self:
        sums = ivy_file.with_suffix(".sha256").read_text(encoding="ascii")
        pairs = (line.split() for line in sums.splitlines() if line)
        return cls(
            name=ivy_file.stem,
            ivy_file=ivy_file,
            sha256={file_name: digest for digest, file_name in pairs},
            digest=hashlib.sha256(ivy_file.read_bytes() + sums.encode()).hexdigest()[:12],
        )


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


CONNECTOR: Final = FOLDER / "connector.xml"
BROKER: Final = FOLDER / "broker.xml"
