"""Failures of a user's own code: which exception, in which file and line.

Pure over exceptions and their texts. What fails in a Python worker comes back from Spark as a text with a traceback.
"""

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onceward

# Wrong code or a wrong value: the same input gives the same again. Others (a service that is away) may pass.
OF_CODE: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
_LIBRARIES: Final = (
    str(Path(onceward.__file__).parent),
    sysconfig.get_path("stdlib"),
    "/site-packages/",
    "/dist-packages/",
    "/pyspark/",
    "/pyspark.zip/",
    "/py4j-",
    "<",
)
_BLOCK: Final = re.compile(r"Traceback \(most recent call last\):\r?\n((?:[ \t]+.*\r?\n)+)(\S.*)")
_FRAME: Final = re.compile(r'^\s+File "(.+?)", line (\d+)(?:, in (.+))?$', re.MULTILINE)
_RAISED: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that a user's own code let out. Two of them are equal if kind, words and place are."""

    kind: str
    message: str
    place: Place

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}{f': {self.message}' if self.message else ''}"

    @property
    def of_code(self) -> bool:
        """Whether repeating it cannot cure it, as far as the exception's type tells."""
        module, _, name = self.kind.rpartition(".")
        found = getattr(sys.modules.get(module or "builtins"), name, None)
        return isinstance(found, type) and issubclass(found, OF_CODE)


def failure_in(text: str) -> Failure | None:
    """What a worker's traceback says; None if there is none, or no line of the user's in it."""
    blocks = _BLOCK.findall(text)
    if not blocks:
        return None
    frames, raised = blocks[-1]
    place = _last_of_users(Place(file, int(line)) for file, line, _ in _FRAME.findall(frames))
    told = _RAISED.match(raised)
    if place is None or told is None or told[1].startswith("onceward."):
        return None
    return Failure(told[1], (told[2] or "").strip(), place)


def failure_of(error: BaseException) -> Failure | None:
    """The same of an exception that was raised in this process."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Failure(type(error).__name__, str(error.msg), Place(error.filename, error.lineno))
    frames = traceback.extract_tb(error.__traceback__)
    place = _last_of_users(Place(frame.filename, frame.lineno or 0) for frame in frames)
    if place is None:
        return None
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    lines = str(error).strip().splitlines()
    return Failure(name, lines[0] if lines else "", place)


def _last_of_users(places: Iterable[Place]) -> Place | None:
    mine = [place for place in places if not any(part in place.file for part in _LIBRARIES)]
    return mine[-1] if mine else None
