"""A pipeline's home: its directory, whose first file says whose it is and of which lineage."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import LocalStorage, Storage
from onceward.errors import ConfigurationError, HomeMismatch, InvalidName

FORMAT: Final = 1
FILE: Final = "pipeline.json"
MAX_NAME: Final = 200  # Kafka takes 249 characters for a topic; a group and a transactional id take any text
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_FILE_URI: Final = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>.*)", re.IGNORECASE)


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """Whose home this is."""

    format: int = FORMAT
    pipeline: str
    lineage: str
    guarantee: str


class Home:
    """The directory and its storage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.storage: Storage = LocalStorage(path)

    @property
    def checkpoint(self) -> Path:
        """Spark's own part."""
        return self.path / "checkpoint"

    def open(self, pipeline: str, guarantee: str, fresh_lineage: str) -> Deed:
        """Read the deed, or write it if the home is new; refuse somebody else's home."""
        data = self.storage.read(FILE)
        if data is None:
            if (self.checkpoint / "offsets").exists():
                raise HomeMismatch(
                    f"{self.path} holds a Spark checkpoint but no {FILE}: it was made without Onceward, or the file "
                    "was deleted. Give the pipeline a new home, or restore the file from a backup."
                )
            deed = Deed(pipeline=pipeline, lineage=fresh_lineage, guarantee=guarantee)
            if self.storage.claim(FILE, seal(deed)):
                return deed
            data = self.storage.read(FILE) or b""
        deed = unseal(data, Deed, str(self.path / FILE), FORMAT)
        if deed.pipeline != pipeline:
            raise HomeMismatch(
                f"{self.path} is the home of pipeline {deed.pipeline!r}, not of {pipeline!r}; "
                "give each pipeline a home of its own"
            )
        if deed.guarantee != guarantee:
            raise HomeMismatch(
                f"{self.path} was made with guarantee {deed.guarantee!r}, not {guarantee!r}; what was put out before "
                "cannot change its guarantee afterwards: use a new home and a new pipeline name"
            )
        return deed


def parse_home(home: str | Path) -> Path:
    """A home's path; other schemes than file: are refused with the reason."""
    text = str(home)
    if uri := _FILE_URI.fullmatch(text):
        if (uri["host"] or "localhost") != "localhost":
            raise ConfigurationError(
                f"home {text!r} names the machine {uri['host']!r}; mount it and give the local path"
            )
        text = unquote(uri["path"])
    elif _SCHEME.match(text):
        raise ConfigurationError(
            f"home {text!r}: the ledger and its lease need a file system with atomic links and fsync, so the home "
            "must be a local or mounted path (or a file: URI)"
        )
    if not text:
        raise ConfigurationError("home is empty; give the pipeline a directory")
    return Path(text).expanduser().absolute()


def require_name(name: str) -> str:
    """A pipeline's name is its transactional id, its group and part of file names."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise InvalidName(
            f"{name!r} is no valid pipeline name: use 1 to {MAX_NAME} letters, digits, '.', '_' and '-', "
            "and begin with a letter or a digit"
        )
    return name
