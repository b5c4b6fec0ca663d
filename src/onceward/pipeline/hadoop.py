"""Homes in HDFS, through the Hadoop client that Spark brings along."""
# ruff: noqa: FBT003 - Java's flags have no names

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from onceward.epoch.home import Home, parse_home
from onceward.epoch.storage import CHUNK, claimed

KINDS: Final = {"FileNotFoundException": FileNotFoundError, "FileAlreadyExistsException": FileExistsError}


def open_home(home: str | Path, spark: SparkSession) -> Home:
    """The home at a local path or an HDFS URI."""
    place = parse_home(home)
    if isinstance(place, Path):
        return Home.at(place)
    return Home(HadoopStorage(spark, place), place, place)


def delete(location: str, spark: SparkSession) -> None:
    """A folder with all it holds, as Spark addresses it; none there is fine."""
    path = cast("Any", spark._jvm).org.apache.hadoop.fs.Path(location)  # noqa: SLF001
    try:
        path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001
    except Py4JJavaError as error:
        raise OSError(f"{location}: {str(error.java_exception).splitlines()[0]}") from error


class HadoopStorage:
    """A directory of a file system whose rename is atomic and refuses a target that is there, as HDFS's does."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._root = root
        self._jvm = cast("Any", spark._jvm)  # noqa: SLF001 - PySpark offers no file system of its own
        self._fs = self._jvm.org.apache.hadoop.fs
        conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._files = self._path("").getFileSystem(conf)
        self._private = self._fs.permission.FsPermission("700")
        self._made = False
        self._context = self._fs.FileContext.getFileContext(self._path("").toUri(), conf)
        rename = self._fs.Options.Rename
        gateway = cast("Any", spark.sparkContext._gateway)  # noqa: SLF001
        self._overwrite = gateway.new_array(rename, 1)
        self._overwrite[0] = rename.OVERWRITE
        self._refuse = gateway.new_array(rename, 0)

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None if there is none."""
        try:
            with self._os_errors(name):
                stream = self._files.open(self._path(name))
        except FileNotFoundError:
            return None
        with self._os_errors(name):
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def names(self, folder: str) -> list[str]:
        """The file names in a folder, sorted, without temporary ones."""
        try:
            with self._os_errors(folder):
                found = self._files.listStatus(self._path(folder))
        except FileNotFoundError:
            return []
        return sorted(name for entry in found if not (name := str(entry.getPath().getName())).startswith("."))

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Write beside it, rename over it."""
        with self._os_errors(name):
            self._context.rename(self._write_beside(name, data, sync=sync), self._path(name), self._overwrite)

    def claim(self, name: str, data: bytes) -> bool:
        """Write beside it; the rename fails if the name is taken."""
        with self._os_errors(name):
            temporary = self._write_beside(name, data, sync=True)
            try:
                return claimed(lambda: self._put(temporary, name), lambda: not self._files.exists(temporary))
            finally:
                self._files.delete(temporary, False)

    def remove(self, name: str) -> None:
        """Take the file away; none there is fine."""
        with self._os_errors(name):
            self._files.delete(self._path(name), False)

    def sync(self, name: str) -> None:
        """A closed file in HDFS is on its datanodes already."""

    def move(self, folder: str, to: str) -> bool:
        """One rename, which HDFS carries out at once."""
        try:
            with self._os_errors(folder):
                target = self._path(to)
                self._files.mkdirs(target.getParent())
                self._context.rename(self._path(folder), target, self._refuse)
        except FileNotFoundError:
            return False
        return True

    def walk(self, folder: str) -> list[str]:
        """Every file below a folder, hidden ones too."""
        try:
            with self._os_errors(folder):
                root = self._files.makeQualified(self._path(folder)).toUri()
                found = self._files.listFiles(self._path(folder), True)
        except FileNotFoundError:
            return []
        names: list[str] = []
        with self._os_errors(folder):
            while found.hasNext():
                names.append(str(root.relativize(found.next().getPath().toUri()).getPath()))
        return sorted(names)

    def link(self, name: str, to: str) -> bool:
        """A copy: files have one name in HDFS."""
        source, target = self._path(name), self._path(to)
        try:
            with self._os_errors(name):
                self._fs.FileUtil.copy(self._files, source, self._files, target, False, True, self._files.getConf())
        except FileNotFoundError:
            return False
        return True

    def chunks(self, name: str) -> Iterator[bytes]:
        """A large file, bit by bit."""
        with self._os_errors(name):
            stream = self._files.open(self._path(name))
            try:
                while chunk := bytes(stream.readNBytes(CHUNK)):
                    yield chunk
            finally:
                stream.close()

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Into its place: a closed file in HDFS is on its datanodes."""
        with self._os_errors(name):
            stream = self._files.create(self._path(name), False)
            try:
                for chunk in chunks:
                    stream.write(bytearray(chunk))
                stream.hsync()
            finally:
                stream.close()

    def make(self, folder: str) -> None:
        """A new folder, its owner's alone."""
        with self._os_errors(folder):
            path = self._path(folder)
            if self._files.exists(path):
                raise FileExistsError(f"{self._root}/{folder}")
            self._files.mkdirs(path)
            self._files.setPermission(path, self._private)

    def settle(self, folder: str) -> None:
        """The namenode's journal has every name already."""

    def clear(self, folder: str) -> None:
        """Take a folder away with all it holds; none there is fine."""
        with self._os_errors(folder):
            self._files.delete(self._path(folder), True)

    def path(self, name: str) -> Path | None:
        """In HDFS only."""

    def _put(self, temporary: Any, name: str) -> None:
        with self._os_errors(name):
            self._context.rename(temporary, self._path(name), self._refuse)

    def _write_beside(self, name: str, data: bytes, *, sync: bool) -> Any:
        folder, _, file = name.rpartition("/")
        temporary = self._path(f"{folder}/.{file}.{uuid.uuid4().hex}" if folder else f".{file}.{uuid.uuid4().hex}")
        if not self._made:  # an existing root keeps its rights
            self._files.mkdirs(self._path(""), self._private)
            self._made = True
        stream = self._files.create(temporary, True)
        try:
            stream.write(bytearray(data))
            if sync:
                stream.hsync()
        finally:
            stream.close()
        return temporary

    @contextmanager
    def _os_errors(self, name: str) -> Iterator[None]:
        """What a file system cannot do is an OSError in every room above, whatever the JVM calls it."""
        try:
            yield
        except Py4JJavaError as error:
            kind = next((ours for theirs, ours in KINDS.items() if _is(error, theirs)), OSError)
            raise kind(f"{self._root}/{name}: {str(error.java_exception).splitlines()[0]}") from error

    def _path(self, name: str) -> Any:
        return self._fs.Path(f"{self._root}/{name}" if name else self._root)


def _is(error: Py4JJavaError, kind: str) -> bool:
    """Whether the Java exception, or what a remote one stands for, is of this kind."""
    java = error.java_exception
    while java is not None:
        if str(java.getClass().getSimpleName()) == kind:
            return True
        java = java.getCause()
    return False
