"""What the operating system refuses, in words that name the path and the cure."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from onceward.errors import OncewardError, SinkUnreachable, TargetUnusable

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# Nobody but a person changes these, so trying again is of no use before a decision.
REFUSED: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
)


@contextmanager
def explained(doing: str, path: str | Path, *, decided: bool = False) -> Iterator[None]:
    """Turn an OSError into one of ours. After the decision nothing is final: the commit is repeated until it works."""
    try:
        yield
    except OSError as error:
        raise explain(error, doing, path, decided=decided) from error


def explain(error: OSError, doing: str, path: str | Path, *, decided: bool = False) -> OncewardError:
    """The error to raise instead."""
    said = f"cannot {doing} {path}: {error.strerror or error}"
    if error.filename is not None and str(error.filename) != str(path):
        said += f" ({error.filename})"
    if error.errno in FULL:
        return SinkUnreachable(f"{said}. Make room there.")
    if error.errno == errno.EXDEV and not decided:
        return TargetUnusable(f"{said}.")
    if error.errno in REFUSED and not decided:
        return TargetUnusable(f"{said}. The file sink's path and staging must be writable by the driver and the tasks.")
    return SinkUnreachable(said)
