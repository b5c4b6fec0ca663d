"""Starts Spark's Python workers on this machine: `python -m onceward.python_workers`, in place of `pyspark.daemon`.

Spark puts a zip of PySpark before everything else on its workers' path. Nothing in a zip is kept compiled, so each
worker would compile PySpark anew: half a second of every start, and of every recovery. The same PySpark is installed
beside it (docs/decisions/0010). And Spark's daemon has every worker collect garbage after each task, which looks at all
that PySpark, pyarrow and pandas are made of.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

ZIP: Final = "pyspark.zip"
LOADING_TASKS: Final = 3  # a worker's first ones, which load what the later ones use again


def installed_first(path: Sequence[str]) -> list[str]:
    """Spark's zips last, if the PySpark that is found without them is the very one that they were made from."""
    for entry in path:
        zipped = Path(entry)  # …/pyspark/python/lib/pyspark.zip
        if zipped.name == ZIP and len(zipped.parents) > 2:
            beside = [it for it in path if Path(it).parent == zipped.parent and it.endswith(".zip")]
            rest = [it for it in path if it not in beside]
            found = PathFinder.find_spec("pyspark", rest)
            if found is not None and found.origin is not None and PathFinder.find_spec("py4j", rest) is not None:
                home = zipped.parents[2]
                if Path(found.origin).parent.resolve() == home.resolve():
                    return [*rest, *beside]
    return list(path)


def unless_left(worker: Callable[..., int]) -> Callable[..., int]:
    """The same, without a traceback where Spark has closed the connection: another task of the job has failed.

    What a user's function raises never gets here: it is told to Spark.
    """

    def quietly(*given: Any) -> int:
        try:
            return worker(*given)
        except (EOFError, ConnectionError):
            return 1  # as after the traceback

    return quietly


def settling(worker: Callable[..., int]) -> Callable[..., int]:
    """The same, in a process that looks for garbage only among what its later tasks have made.

    A look at everything that is loaded takes 40 ms, a third of what a short task takes in all.
    """
    tasks = 0

    def settled(*given: Any) -> int:
        nonlocal tasks
        code = worker(*given)
        tasks += 1
        if tasks <= LOADING_TASKS:
            gc.collect()
            gc.freeze()
        return code

    return settled


def main() -> None:
    if "pyspark" not in sys.modules:
        sys.path[:] = installed_first(sys.path)
    from pyspark import daemon

    daemon.worker = settling(unless_left(daemon.worker))
    daemon.manager()


if __name__ == "__main__":
    main()
