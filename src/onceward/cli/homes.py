"""The home that a command is given, and a pipeline's sinks from its file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.epoch.home import MEMORY, Home, parse_home
from onceward.errors import HomeMismatch, PipelineFileError

if TYPE_CHECKING:
    from onceward.epoch.contract import TwoPhaseCommitSink
    from onceward.pipeline.pipeline import Pipeline

FileOption = Annotated[
    Path, typer.Option("--file", help="The pipeline's file: its sources and sinks are asked.", show_default=False)
]
HomeArgument = Annotated[
    str, typer.Argument(metavar="HOME", help="The pipeline's home: a directory, or hdfs://...", show_default=False)
]


@contextmanager
def home_at(place: str) -> Iterator[Home]:
    """A local home needs no Spark; one in HDFS is read through Spark's Hadoop client."""
    parsed = parse_home(place)
    if isinstance(parsed, Path):
        if not parsed.is_dir():
            raise HomeMismatch(f"there is no directory {parsed}")
        yield Home.at(parsed)
        return
    from onceward.pipeline.hadoop import open_home
    from onceward.pipeline.session import end, session

    spark = session("onceward", master="local[1]")
    try:
        yield open_home(place, spark)
    finally:
        end(spark)


@contextmanager
def sinks_from_file(file: Path, pipeline: str) -> "Iterator[dict[str, TwoPhaseCommitSink]]":
    """The sinks that the file's pipeline of this name has; nothing is started."""
    with _pipelines_of(file) as pipelines:
        found = [it for it in pipelines if it.name == pipeline]
        if not found:
            raise PipelineFileError(f"{file} has no pipeline {pipeline!r}")
        yield found[0].sinks


@contextmanager
def pipeline_from_file(file: Path, home: str) -> "Iterator[Pipeline]":
    """The pipeline of the file that lives in this home; nothing is started."""
    wanted = parse_home(home)
    with _pipelines_of(file) as pipelines:
        found = [it for it in pipelines if str(it.home) != MEMORY and parse_home(it.home) == wanted]
        if not found:
            others = ", ".join(f"{it.name} in {it.home}" for it in pipelines)
            raise PipelineFileError(f"{file} has no pipeline whose home is {wanted}; it has {others}")
        yield found[0]


@contextmanager
def _pipelines_of(file: Path) -> "Iterator[list[Pipeline]]":
    from onceward.pipeline import host
    from onceward.pipeline.session import end, session

    build = host.load(file)
    spark = session(file.stem, master="local[1]")
    try:
        yield build(spark)
    finally:
        end(spark)
