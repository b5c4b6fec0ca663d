"""Whether a savepoint is what it says: every file is there, with every byte, and no other."""

from onceward.epoch.regular_file import NoRegularFile
from onceward.errors import SavepointDamaged
from onceward.savepoint.copying import Measured, is_local, side_by_side
from onceward.savepoint.manifest import FILE, FileFacts, Savepoint, load
from onceward.savepoint.place import Place

_GONE = FileFacts(size=-1, sha256="")
_NO_FILE = FileFacts(size=-2, sha256="")


def verify(place: Place) -> Savepoint:
    """Read everything; `SavepointDamaged` names each bad file."""
    savepoint = load(place)
    there = set(place.walk("")) - {FILE}
    found = side_by_side(sorted(savepoint.files), lambda name: _measure(place, name), local=is_local(place.around))
    bad = [reason for name, facts in sorted(found.items()) if (reason := fault(name, savepoint.files[name], facts))]
    bad += [f"{name} is not of it" for name in sorted(there - savepoint.files.keys())]
    if bad:
        raise SavepointDamaged(
            f"{place.location} is damaged: {'; '.join(bad)}. Use another savepoint, or a copy of this one."
        )
    return savepoint


def fault(name: str, wanted: FileFacts, found: FileFacts) -> str:
    """What is wrong with a file; empty: nothing."""
    if found == wanted:
        return ""
    if found == _GONE:
        return f"{name} is missing"
    if found == _NO_FILE:
        return f"{name} is a link, a pipe or a device, and no file"
    if found.size != wanted.size:
        return f"{name} has {found.size} bytes instead of {wanted.size}"
    return f"{name} was altered"


def _measure(place: Place, name: str) -> FileFacts:
    measured = Measured(place.chunks(name))
    try:
        for _ in measured:
            pass
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return _GONE
    except NoRegularFile:
        return _NO_FILE
    return measured.facts
