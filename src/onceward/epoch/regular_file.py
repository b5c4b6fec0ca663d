"""Files of homes and savepoints, opened so that only a file is read, whatever somebody has put in its place.

A pipe would be waited at for ever, a device read without end, and a link leads anywhere: all that a home or a savepoint
holds are regular files, Spark's too. A savepoint may come from somebody else, and so may a home that is only looked at.
"""

import errno
import os
import stat
from io import FileIO
from pathlib import Path
from typing import Final

# Bytes of what is read at once. Notes are far smaller; a savepoint's manifest has 150 for each file of the state.
LARGEST: Final = 256 << 20


class NoRegularFile(OSError):
    """Something is there under the name of a file, and it is none."""


def opened(path: Path) -> FileIO:
    """For reading."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # a link; a socket, or a device that nobody drives
            raise _none(path) from error
        raise
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return FileIO(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _none(path)


def whole(path: Path, largest: int = LARGEST) -> bytes:
    """What it holds."""
    with opened(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > largest:
            raise NoRegularFile(errno.EFBIG, f"has {size:,} bytes, which no such file has", str(path))
        return file.readall()


def _none(path: Path) -> NoRegularFile:
    return NoRegularFile(errno.EINVAL, "is a link, a pipe or a device, and no file", str(path))
