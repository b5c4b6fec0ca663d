"""A pipeline's home: its directory, whose first file says whose it is and of which lineage.

A lineage that began with a restore has a folder of its own for its ledger, decisions and checkpoint, so that one small
write ends a lineage and begins the next (deeds.py, docs/decisions/0015). Terms are the home's: a driver of the old
lineage is overtaken like any other.
"""

import re
import stat
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote

from onceward.epoch import deeds
from onceward.epoch.deeds import FILE, Deed
from onceward.epoch.sealed import seal
from onceward.epoch.storage import Below, LocalStorage, Storage
from onceward.errors import ConfigurationError, HomeMismatch, InvalidName
from onceward.events import logger

LINEAGES: Final = "lineages"
CHECKPOINTS: Final = "checkpoints"  # Spark's own part of the home: a folder for each term, the newest counts
FIRST: Final = f"{CHECKPOINTS}/000000"  # no term has this number, so a first start takes it over like any other
OF_SPARK: Final = frozenset({"offsets", "commits", "metadata"})  # what the directory of a checkpoint holds
MEMORY: Final = "memory:"  # as long as its process lives (onceward.pipeline.in_memory)
IN_MEMORY: Final = "onceward-memory-"  # what the directory of such homes is called, before a process and a random word
HADOOP: Final = frozenset({"hdfs", "webhdfs", "viewfs"})
MAX_NAME: Final = 200  # Kafka takes 249 characters for a topic; a group and a transactional id take any text
TOO_WIDE: Final = 0o027  # rights of others, and of the group to write; a group that may read was meant so
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IN_MEMORY: Final = re.compile(rf"{IN_MEMORY}\d+-\w+")
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_FILE_URI: Final = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>.*)", re.IGNORECASE)


log = logger("onceward.home")


class Home:
    """The directory: `location` as people know it, `storage` for our files, `root` as Spark addresses it."""

    def __init__(self, storage: Storage, location: str, root: str) -> None:
        self.storage = storage
        self.location = location
        self.root = root

    @classmethod
    def at(cls, path: Path) -> Self:
        """On a local or mounted path. Hadoop takes "%20" for a name, not for a space: nothing is escaped."""
        if (warning := too_wide(path)) is not None:
            log.warning(warning, extra={"event": "home_readable", "home": str(path)})
        return cls(LocalStorage(path), str(path), f"file://{path}")

    def uri(self, folder: str) -> str:
        """A folder of the home as Spark addresses it."""
        return f"{self.root}/{folder}"

    def of_lineage(self, deed: Deed) -> "Home":
        """Where a lineage keeps its ledger, decisions and checkpoint."""
        if not deed.folder:
            return self
        return Home(Below(self.storage, deed.folder), f"{self.location}/{deed.folder}", self.uri(deed.folder))

    def deed(self) -> Deed | None:
        """Whose home it is; None: nobody's yet."""
        return deeds.in_force(self.storage)

    def open(self, pipeline: str, guarantee: str, fresh_lineage: str) -> Deed:
        """Read the deed, or write it if the home is new; refuse somebody else's home."""
        deed = self.deed()
        if deed is None:
            self.require_no_checkpoint()
            deed = Deed(pipeline=pipeline, lineage=fresh_lineage, guarantee=guarantee)
            if self.storage.claim(FILE, seal(deed)):
                return deed
            deed = self.deed() or deed  # a first start beside this one was quicker
        if self.storage.read(FILE) is not None:  # else the home began with a savepoint
            # Whoever wrote it may have been stopped before it was synced; what follows from it must not outlive it.
            self.storage.sync(FILE)
        self.require_of(deed, pipeline, guarantee)
        return deed

    def require_no_checkpoint(self) -> None:
        """A directory that is nobody's home is none of Spark's either."""
        if OF_SPARK & set(self.storage.names("")):
            raise HomeMismatch(
                f"{self.location} is the checkpoint of a Spark query, not a home: the pipeline would read from where "
                "its source says and write again what that query has written. Give it a directory of its own. A query "
                "without state goes on where the other one ended with read_kafka(starting=OFFSETS): the last line of "
                f"the newest file in {self.location}/offsets has them."
            )
        # The deed once more: a first start beside this one may have made both since.
        if self.storage.names(CHECKPOINTS) and self.deed() is None:
            raise HomeMismatch(
                f"{self.location} holds a Spark checkpoint but no {FILE}: made without Onceward, or the file was "
                "deleted. Give the pipeline a new home, or restore the file from a backup."
            )

    def require_of(self, deed: Deed, pipeline: str, guarantee: str) -> None:
        """Refuse somebody else's home."""
        if deed.pipeline != pipeline:
            raise HomeMismatch(
                f"{self.location} is the home of pipeline {deed.pipeline!r}, not of {pipeline!r}; "
                "give each pipeline a home of its own"
            )
        if deed.guarantee != guarantee:
            raise HomeMismatch(
                f"{self.location} was made with guarantee {deed.guarantee!r}, not {guarantee!r}; what is committed "
                "cannot change its guarantee afterwards: use a new home and a new pipeline name"
            )


def is_in_memory(location: str | Path) -> bool:
    """Whether a home is gone with its process."""
    return any(_IN_MEMORY.fullmatch(part) for part in Path(str(location)).parts)


def too_wide(path: Path) -> str | None:
    """A home that other users may change or read. It is reported, not changed: somebody may have meant it so."""
    try:
        found = path.stat().st_mode
    except OSError:  # there is none yet; ours are made with 0700
        return None
    mode = found & 0o777
    if not mode & TOO_WIDE or not stat.S_ISDIR(found):
        return None
    return (
        f"home {path} has mode {mode:04o}: other users of this machine can read it or forge what it says is committed. "
        f"Close it: chmod 700 {path}"
    )


def parse_home(home: str | Path) -> Path | str:
    """A local path, or the URI of a home in HDFS; other places are refused with the reason."""
    text = str(home)
    if text == MEMORY:
        raise ConfigurationError(
            "a home in memory is known to the process that made it only, and is gone with it: it is for tests, as "
            "ow.Pipeline(..., home='memory:')"
        )
    if uri := _FILE_URI.fullmatch(text):
        if (uri["host"] or "localhost") != "localhost":
            raise ConfigurationError(
                f"home {text!r} names the machine {uri['host']!r}; mount it and give the local path"
            )
        text = unquote(uri["path"])
    elif scheme := _SCHEME.match(text):
        if scheme[0].rstrip(":").lower() not in HADOOP:
            raise ConfigurationError(
                f"home {text!r}: the ledger and its lease need a file system that renames atomically and refuses to "
                "rename over a file that is there, so the home must be a local or mounted path, or in HDFS (hdfs://...)"
            )
        return text.rstrip("/")
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
