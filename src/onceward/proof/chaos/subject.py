"""What is proven: the built-in job, or a user's file. The file says how to feed the job and what the truth is."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from onceward.errors import PipelineFileError
from onceward.proof.chaos.places import Places

Event = tuple[str, Any, Any]  # topic, key, value
Feed = Callable[[random.Random], Iterator[Event]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A job, its topics, its input and its truth."""

    name: str
    topics: Mapping[str, int]  # to be made, with so many partitions
    watch: tuple[str, ...]  # the topics whose readers may see only what is committed
    feed: Feed
    file: Path | None = None
    truth: Callable[[Sequence[Event]], Mapping[str, list[Any]]] | None = None  # for a user's job
    visible: Callable[[Places], Mapping[str, list[Any]]] | None = None

    @classmethod
    def builtin(cls) -> "Subject":
        from onceward.proof.chaos import builtin

        return cls(name="built-in", topics=builtin.TOPICS, watch=(builtin.OUT,), feed=builtin.feed)

    @classmethod
    def load(cls, file: Path) -> "Subject":
        """A user's file: TOPICS, build(spark, places), feed(dice), truth(fed), visible(places)."""
        module = _loaded(file)
        wanted = {"build": "(spark, places)", "feed": "(dice)", "truth": "(fed)", "visible": "(places)"}
        missing = [
            f"{name}{signature}" for name, signature in wanted.items() if not callable(getattr(module, name, None))
        ]
        if missing:
            raise PipelineFileError(
                f"{file} has no function {' and no '.join(missing)}; see docs/proof/your-own-job.md"
            )
        topics = _topics(file, module)
        return cls(
            name=file.name,
            topics=topics,
            watch=tuple(topics),
            feed=module.feed,
            file=file.resolve(),
            truth=module.truth,
            visible=module.visible,
        )


def _loaded(file: Path) -> ModuleType:
    """Without Spark, which the prover has no use for, unless the file itself has at its top (`@udf("string")`)."""
    from pyspark.errors import PySparkException

    from onceward.pipeline.session import end, session
    from onceward.pipeline.user_file import load_module

    try:
        return load_module(file)
    except (PySparkException, AssertionError):  # what PySpark says where there is no session
        spark = session(file.stem, master="local[1]")
        try:
            return load_module(file, spark)
        finally:
            end(spark)


def _topics(file: Path, module: ModuleType) -> dict[str, int]:
    found = getattr(module, "TOPICS", None)
    usable = isinstance(found, dict) and found and all(isinstance(it, int) and it > 0 for it in found.values())
    if not usable:
        raise PipelineFileError(
            f"{file} has no TOPICS, or a wrong one: a dict from each topic's name to its number of partitions, "
            'as {"orders": 4, "totals": 4}'
        )
    return dict(found)  # type: ignore[arg-type]
