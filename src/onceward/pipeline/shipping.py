"""Modules of the user's in Spark's Python workers: by their path on this machine, in a zip on a cluster."""

import atexit
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyspark import SparkContext

from onceward.errors import ConfigurationError
from onceward.sinks.parcel import is_local

PATH: Final = "PYTHONPATH"
LEFT_OUT: Final = frozenset({"__pycache__", ".git"})


def make_importable(folder: Path, context: SparkContext) -> None:
    """The modules and packages of a folder, for functions that travel to workers from now on."""
    if is_local(context.master or ""):
        known = context.environment.get(PATH, "").split(os.pathsep)
        if str(folder) not in known:
            context.environment[PATH] = os.pathsep.join([str(folder), *filter(None, known)])
        return
    files = list(modules_in(folder))
    if files:
        context.addPyFile(str(_zipped(folder, files)))


def add(py_files: Iterable[str], context: SparkContext) -> None:
    """Files, zips and wheels-as-zips that the user names, on the driver and in workers."""
    for file in py_files:
        if not urlsplit(file).scheme and not Path(file).is_file():
            raise ConfigurationError(f"--py-files names {file}, and there is no such file")
        context.addPyFile(file)


def modules_in(folder: Path) -> Iterator[Path]:
    """What `import` finds there: modules, and packages (folders with an __init__.py) with all that is in them."""
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".py" and entry.is_file():
            yield entry
        elif (entry / "__init__.py").is_file():
            yield from (it for it in sorted(entry.rglob("*")) if it.is_file() and not LEFT_OUT & set(it.parts))


def _zipped(folder: Path, files: Iterable[Path]) -> Path:
    """In a folder that lives as long as this process: executors that come later fetch it, too."""
    place = Path(tempfile.mkdtemp(prefix="onceward-modules-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    target = place / f"{place.name}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(folder))
    return target
