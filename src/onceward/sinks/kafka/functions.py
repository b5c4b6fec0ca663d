"""A Python function of each record's value, called where the record is copied: no row crosses into Spark and back.

What the function gets and may return is what Spark says. Only the plain cases are done here, texts and bytes; whatever
is not exactly that (a number for a text, bytes that are no UTF-8) fails the copy, and Spark decides what it means.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle

from onceward.errors import OncewardError

NOTHING: Final = frozenset({type(None)})


class CopyFailed(OncewardError):
    """A record cannot be copied past Spark, which may be able to read it, or can say better what is wrong."""


class Kind(Enum):
    """How a function wants its values, by PySpark's number for it."""

    PLAIN = 101  # one after the other
    PANDAS = 200
    ARROW = 250


@dataclass(frozen=True, slots=True)
class Function:
    """As Spark has it in its plan."""

    kind: Kind
    takes_text: bool  # or bytes
    gives_text: bool
    pickled: bytes = field(repr=False)  # with the type that it returns

    def ready(self) -> Callable[[pa.BinaryArray], pa.BinaryArray]:
        """To be called by one task: Spark counts what a function adds to an accumulator by the task that loaded it."""
        function, _ = cloudpickle.loads(self.pickled)
        return partial(self._applied, function)

    def _applied(self, function: Callable[..., Any], column: pa.BinaryArray) -> pa.BinaryArray:
        """What it makes of each value. Its own errors are raised as they are."""
        taken = column
        if self.takes_text:
            taken = _converted(lambda: column.cast(pa.string()))
        found = self._called(function, taken)
        if len(found) != len(column):
            raise CopyFailed(f"a function gave {len(found)} values for {len(column)}")
        return found.cast(pa.binary())

    def _called(self, function: Callable[..., Any], taken: pa.Array) -> pa.Array:
        wanted = pa.string() if self.gives_text else pa.binary()
        if self.kind is Kind.ARROW:
            found = function(taken)
            if not isinstance(found, pa.Array) or found.type != wanted:
                raise CopyFailed(f"a function gave {getattr(found, 'type', type(found).__name__)}, not {wanted}")
            return found
        if self.kind is Kind.PANDAS:
            series = function(taken.to_pandas())
            return _converted(lambda: pa.Array.from_pandas(series, type=wanted))
        values = [function(value) for value in taken.to_pylist()]
        if not set(map(type, values)) <= NOTHING | {str if self.gives_text else bytes}:
            raise CopyFailed(f"a function gave something that is no {wanted}")
        return _converted(lambda: pa.array(values, wanted))


def _converted(convert: Callable[[], pa.Array]) -> pa.Array:
    try:
        return convert()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise CopyFailed(f"a value cannot be taken over as it is ({str(error).splitlines()[0]})") from error
