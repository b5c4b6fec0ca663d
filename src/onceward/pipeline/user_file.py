"""A user's file with build(spark): loaded once Spark is there, with the modules beside it importable in workers."""

import importlib.util
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from onceward.errors import PipelineFileError
from onceward.pipeline import shipping
from onceward.pipeline.pipeline import Pipeline

NAME: Final = "onceward_pipeline_file"
# A module of the user's by one of these names would be imported in its place, by Onceward too.
NEEDED: Final = ("google_crc32c", "kafka", "msgspec", "numpy", "onceward", "py4j", "pyarrow", "pyspark")


def load(path: Path) -> Callable[[SparkSession], list[Pipeline]]:
    """The file's build(spark), which gives one pipeline or several.

    What can be told without running the file is told now; it runs when it is given a session, which decorators such
    as `@udf("string")` need.
    """
    _require_python(path)
    return lambda spark: _built(path, load_module(path, spark), spark)


def load_module(path: Path, spark: SparkSession | None = None) -> ModuleType:
    """A user's file, whose functions may travel to Spark's workers, and with them the modules beside it."""
    _require_python(path)
    folder = path.resolve().parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if spark is not None:
        shipping.make_importable(folder, spark.sparkContext)
    spec = importlib.util.spec_from_file_location(NAME, path, loader=_AsItIs(NAME, str(path)))
    if spec is None or spec.loader is None:
        raise PipelineFileError(f"{path} is no Python file: its name ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    # Workers have no such module: its functions travel by value.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spec.loader.exec_module(module)
    return module


class _AsItIs(SourceFileLoader):
    """Never from compiled code: Python takes that for the file's if both are of one second and one length."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - Python's way to ask
        return self.source_to_code(self.get_data(self.path), self.path)


def require_pipelines(made: object, by: str, path: Path | None) -> list[Pipeline]:
    """One pipeline or several, each with a name of its own."""
    pipelines = [made] if isinstance(made, Pipeline) else list(made) if isinstance(made, Iterable) else []
    if not pipelines or not all(isinstance(pipeline, Pipeline) for pipeline in pipelines):
        raise PipelineFileError(f"{by} returned {made!r}; it must return ow.Pipeline objects")
    names = [pipeline.name for pipeline in pipelines]
    if len(set(names)) < len(names):
        raise PipelineFileError(f"{path} gives two pipelines the same name: {', '.join(sorted(names))}")
    return pipelines


def _built(path: Path, module: ModuleType, spark: SparkSession) -> list[Pipeline]:
    build = getattr(module, "build", None)
    if not callable(build):
        raise PipelineFileError(f"{path} has no function build(spark); it returns one ow.Pipeline or several")
    return require_pipelines(build(spark), f"build(spark) in {path}", path)


def _require_python(path: Path) -> None:
    if not path.is_file():
        raise PipelineFileError(f"there is no file {path}")
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        said = getattr(error, "msg", error)
        raise PipelineFileError(
            f"{path}, line {line}: {type(error).__name__}: {said}" if line else f"{path} is no Python: {said}"
        ) from error
    for name in NEEDED:
        _require_not_hidden(name, path.resolve().parent)


def _require_not_hidden(name: str, folder: Path) -> None:
    for module in (folder / f"{name}.py", folder / name / "__init__.py"):
        installed = sys.modules.get(name)
        if module.exists() and not (installed and installed.__file__ and module.samefile(installed.__file__)):
            raise PipelineFileError(
                f"{module} would be imported in place of the package {name!r}, which Onceward needs: rename it"
            )
