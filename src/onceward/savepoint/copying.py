"""Copying files from one storage to another, with their checksums computed on the way."""

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from onceward.epoch import regular_file
from onceward.epoch.storage import CHUNK, Storage
from onceward.savepoint.manifest import FileFacts

THREADS: Final = 8  # while some wait for an fsync others read, hash and write; measured on two cores
# Between two file systems, or on one that cannot: then the bytes come through here.
NOT_HERE: Final = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})


class Measured:
    """Hands bytes on, and knows afterwards how many they were and what their checksum is."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._size = 0
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            self._size += len(chunk)
            yield chunk

    @property
    def facts(self) -> FileFacts:
        return FileFacts(size=self._size, sha256=self._hash.hexdigest())


def copy(source: Storage, name: str, target: Storage, to: str) -> FileFacts:
    """From one storage to another, or to another place in it; within this machine the kernel copies."""
    given, taken = source.path(name), target.path(to)
    if given is not None and taken is not None and hasattr(os, "copy_file_range"):
        return _in_the_kernel(given, taken)
    measured = Measured(source.chunks(name))
    target.write(to, measured)
    return measured.facts


def is_local(*storages: Storage) -> bool:
    """Whether all are folders of this machine's file systems."""
    return all(storage.path("") is not None for storage in storages)


def _in_the_kernel(source: Path, target: Path) -> FileFacts:
    """The bytes do not come through Python but for their checksum, which is that of the source."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with regular_file.opened(source) as given, target.open("xb", buffering=0) as taken:
        size = os.fstat(given.fileno()).st_size
        offset = 0
        while offset < size:
            try:
                copied = os.copy_file_range(given.fileno(), taken.fileno(), size - offset, offset, offset)
            except OSError as error:
                if error.errno not in NOT_HERE or offset:
                    raise
                given.seek(0)
                shutil.copyfileobj(given, taken, CHUNK)
                break
            if not copied:
                raise OSError(errno.EIO, "was cut short while it was copied", str(source))
            offset += copied
        given.seek(0)
        checksum = hashlib.file_digest(given, "sha256").hexdigest()
        os.fsync(taken.fileno())
    return FileFacts(size=size, sha256=checksum)


def side_by_side(names: Iterable[str], each: Callable[[str], FileFacts], *, local: bool) -> dict[str, FileFacts]:
    """Do it for every name, of local files on some threads; the first error ends it, once what has begun is over."""
    if not local:
        return {name: each(name) for name in names}
    with ThreadPoolExecutor(THREADS, thread_name_prefix="onceward-savepoint") as pool:
        running = {name: pool.submit(each, name) for name in names}
        try:
            for future in as_completed(running.values()):
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        return {name: future.result() for name, future in running.items()}
