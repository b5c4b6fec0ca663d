"""Spark's exceptions, and a user's own, as errors of ours that name the cause and the fix in a line or two."""

import re
import shutil
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)
from pyspark.errors.exceptions.captured import CapturedException

from onceward.epoch import tries
from onceward.epoch.home_unusable import REPLAYED, home_unusable
from onceward.errors import OncewardError, PipelineFileError, QueryFailed, UserCodeFailed
from onceward.pipeline.lost_input import input_lost
from onceward.pipeline.user_code import Failure, failure_in, failure_of

NO_ROOM: Final = "No space left on device"  # as Java's exceptions say it, which have no number
TEMPORARY: Final = "that of Spark's temporary files (spark.local.dir)"
FULL_BYTES: Final = 1 << 16
UNRESOLVED: Final = "UNRESOLVED_COLUMN"
# A value that an expression of Spark's cannot take: a wrong cast, a division by zero.
OF_DATA: Final = (
    ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, NumberFormatException,
)  # fmt: skip
_FROM_SPARK: Final = (CapturedException, Py4JJavaError)

S = TypeVar("S", bound="Homed")
P = ParamSpec("P")
T = TypeVar("T")


def own_failure(error: Exception) -> Hashable | None:
    """What the user's own code or data did wrong, if repeating cannot cure it; equal ones are the same failure."""
    if isinstance(error, OF_DATA):
        return type(error), _first(error)
    failure = user_failure(error)
    return failure if failure is not None and failure.of_code else None


def user_failure(error: BaseException) -> Failure | None:
    """Whose line let it out, if it was the user's."""
    if isinstance(error, OncewardError | AnalysisException):
        return None
    if isinstance(error, _FROM_SPARK):
        return failure_in(str(error))
    return failure_of(error)


def line_of(error: Exception) -> str:
    """One line about a failed try."""
    failure = user_failure(error)
    return str(failure) if failure is not None else tries.line_of(error)


def explained(error: BaseException, places: Sequence[str] = ()) -> OncewardError | None:
    """The error in our words; None: it is nothing that Spark or a user's code has to do with.

    places: the home, and other folders that Spark writes into; of a full disk it does not tell which one.
    """
    if isinstance(error, OncewardError):
        return error
    if isinstance(error, AnalysisException):
        return UserCodeFailed(_analysis(error))
    if isinstance(error, OF_DATA):
        return UserCodeFailed(f"a row cannot be computed: {_first(error)}. {REPLAYED}: repair the query, start again.")
    if (failure := user_failure(error)) is not None:
        return UserCodeFailed(f"{failure} (in your own code). {REPLAYED}: repair it, and start again.")
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        return home_unusable(error, next(iter(places), None))
    return _of_spark(error, places)


class Homed(Protocol):
    """A pipeline."""

    home: str | Path


def usable_home(start: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """What the operating system refuses a start is about the home."""

    @wraps(start)
    def starting(pipeline: S, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return start(pipeline, *args, **options)
        except OSError as error:
            ours = home_unusable(error, pipeline.home)
            if ours is None:
                raise
            raise ours from error

    return starting


@contextmanager
def in_users_file(file: str) -> Iterator[None]:
    """A file is being loaded, or its build(spark) called: what it raises names the file and the line."""
    try:
        yield
    except OncewardError:
        raise
    except AnalysisException as error:
        raise PipelineFileError(f"{_placed(error, file)}: {_analysis(error)}") from error
    except Exception as error:
        failure = failure_of(error)
        told = str(failure) if failure is not None else f"{file}: {type(error).__name__}: {_first(error)}"
        raise PipelineFileError(f"{told}. --traceback shows all.") from error


@contextmanager
def in_our_words(show: Callable[[BaseException], None] = lambda _: None) -> Iterator[None]:
    """`show` is told the error as it came."""
    try:
        yield
    except Exception as error:
        show(error)
        ours = explained(error)
        if ours is None or ours is error:
            raise
        raise ours from error


def _placed(error: BaseException, file: str) -> str:
    failure = failure_of(error)
    return str(failure.place) if failure is not None else file


def _analysis(error: AnalysisException) -> str:
    """Without Spark's plan, which fills a screen."""
    condition, parameters = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.startswith(UNRESOLVED) and "objectName" in parameters:
        proposal = parameters.get("proposal", "")
        meant = f"; did you mean {' or '.join(it.strip() for it in proposal.split(',')[:3])}?" if proposal else ""
        return f"there is no column {parameters['objectName']}{meant}"
    return _first(error)


def _of_spark(error: BaseException, places: Sequence[str]) -> OncewardError | None:
    if isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError):
        return QueryFailed(f"Spark's JVM has ended, or does not answer ({_first(error)}). {REPLAYED}: start again.")
    if not isinstance(error, (*_FROM_SPARK, PySparkException)):
        return None
    text = str(error)
    if NO_ROOM in text:
        full = [place for place in places if _is_full(place)]
        which = f"that of {' and of '.join(full)}" if full else f"the home's, or {TEMPORARY}"
        return QueryFailed(f"a disk is full ({NO_ROOM.lower()}): {which}. {REPLAYED}: make room, and start again.")
    causes = [line.removeprefix("Caused by: ") for line in text.splitlines() if line.startswith("Caused by: ")]
    told = _plain(causes[-1]) if causes else _first(error)
    return input_lost(error) or QueryFailed(f"Spark ended the query: {told}. {REPLAYED}.")


def _is_full(place: str) -> bool:
    """What is left is less than Spark writes at once; a place that is not on this machine is not looked at."""
    try:
        return shutil.disk_usage(place).free < FULL_BYTES
    except OSError:
        return False


def _first(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return _plain(lines[0]) if lines else type(error).__name__


def _plain(line: str) -> str:
    """Without what Spark puts around a sentence: the condition's name, the SQL state, the ids of a query."""
    line = re.sub(r"\s*SQLSTATE: \w{5};?.*$", "", re.sub(r"^\[[A-Z_.]+\]\s*", "", line))
    return re.sub(r"^Query \[id = .*?\] terminated with exception: ", "", line).rstrip(". ")[:400]
