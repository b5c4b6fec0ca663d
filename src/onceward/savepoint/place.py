"""A savepoint's directory: its name, in a storage that holds the folder around it."""

from pathlib import Path
from typing import Final

from onceward.epoch.home import Home, parse_home, require_name
from onceward.epoch.storage import Below, LocalStorage, Storage
from onceward.errors import ConfigurationError, InvalidName, SavepointUnusable

SAVEPOINTS: Final = "savepoints"  # in a home, unless somebody says another place
HALF_DELETED: Final = ".deleted"


class Place(Below):
    """A directory as a storage of its own; `around` is that of the folder in which it is, or will be."""

    def __init__(self, around: Storage, name: str, location: str) -> None:
        super().__init__(around, name)
        self.around = around
        self.name = name
        self.location = location  # as people know it

    @classmethod
    def at(cls, path: str | Path) -> "Place":
        """On a local or mounted path."""
        try:
            found = parse_home(path)
        except ConfigurationError as error:
            raise SavepointUnusable(f"{path}: a savepoint is on a local or mounted path, or in a home") from error
        if not isinstance(found, Path):
            raise SavepointUnusable(f"{path} is in HDFS; open it with the Hadoop client of a Spark session")
        return cls(LocalStorage(found.parent), found.name, str(found))

    @classmethod
    def within(cls, home: Home, name: str) -> "Place":
        """Among a home's own."""
        return cls(Below(home.storage, SAVEPOINTS), name, f"{home.location}/{SAVEPOINTS}/{name}")

    @property
    def is_half_deleted(self) -> bool:
        return self.name.endswith(HALF_DELETED)

    @property
    def whole(self) -> "Place":
        """Of what is half deleted: where it was."""
        return self.beside(self.name.removesuffix(HALF_DELETED))

    @property
    def half_deleted(self) -> "Place":
        """Where it goes when it is deleted: its name says so, whatever becomes of the one who deletes it."""
        return self.beside(f"{self.name}{HALF_DELETED}")

    def beside(self, name: str) -> "Place":
        """Another one in the same folder."""
        return Place(self.around, name, f"{self.location.removesuffix(self.name)}{name}")

    def exists(self) -> bool:
        return self.name in self.around.names("")

    def name_of(self, file: str) -> str:
        """A file's path, for people."""
        return f"{self.location}/{file}"


def require_savepoint_name(name: str) -> str:
    """It is a directory's name, and one that ends in `.deleted` says something else."""
    try:
        require_name(name)
    except InvalidName as error:
        raise InvalidName(str(error).replace("pipeline name", "name of a savepoint")) from error
    if name.endswith(HALF_DELETED):
        raise InvalidName(f"{name!r} is no name for a savepoint: {HALF_DELETED} marks those that are being deleted")
    return name
