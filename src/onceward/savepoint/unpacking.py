"""A savepoint's checkpoint into a folder of a home, every byte compared on the way."""

from onceward.epoch.home import Home
from onceward.epoch.regular_file import NoRegularFile
from onceward.epoch.state_schemas import METADATA, relocated
from onceward.errors import SavepointDamaged, SavepointUnusable
from onceward.savepoint.copying import Measured, copy, is_local, side_by_side
from onceward.savepoint.manifest import CHECKPOINT, FileFacts, Savepoint
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import fault


def unpack(place: Place, savepoint: Savepoint, home: Home, folder: str) -> None:
    """Into a folder of the home that is not there yet. It is complete and lasting once this returns."""
    try:
        home.storage.make(folder)
    except FileExistsError as error:
        raise SavepointUnusable(f"{home.location}/{folder} is there already; a savepoint replaces nothing") from error
    inside = {
        name.removeprefix(f"{CHECKPOINT}/"): facts
        for name, facts in savepoint.files.items()
        if name.startswith(f"{CHECKPOINT}/")
    }

    def put(name: str) -> FileFacts:
        try:
            if METADATA.fullmatch(name):
                return _relocate(place, name, home, folder)
            return copy(place, f"{CHECKPOINT}/{name}", home.storage, f"{folder}/{name}")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise SavepointDamaged(f"{place.name_of(f'{CHECKPOINT}/{name}')} is missing") from error
        except NoRegularFile as error:
            raise SavepointDamaged(f"{error.filename} {error.strerror}") from error

    found = side_by_side(sorted(inside), put, local=is_local(place, home.storage))
    bad = [reason for name, facts in inside.items() if (reason := fault(name, facts, found[name]))]
    if bad:
        raise SavepointDamaged(f"{place.name_of(CHECKPOINT)} is damaged: {'; '.join(bad)}. Use another savepoint.")
    home.storage.settle(folder)


def _relocate(place: Place, name: str, home: Home, folder: str) -> FileFacts:
    """Spark names some files by whole paths; they are compared as they were."""
    measured = Measured(place.chunks(f"{CHECKPOINT}/{name}"))
    data = b"".join(measured)
    home.storage.replace(f"{folder}/{name}", relocated(data, home.uri(folder), place.name_of(name)))
    return measured.facts
