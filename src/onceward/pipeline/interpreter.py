"""Which Python runs Spark's workers: the one that the user says, else the driver's own, whose packages fit."""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

SETTING: Final = "spark.pyspark.python"
VARIABLE: Final = "PYSPARK_PYTHON"
OF_DRIVER: Final = "PYSPARK_DRIVER_PYTHON"

_ours: dict[str, str] = {}  # what this process has put into the environment: not what the user says


def choose(given: Mapping[str, str]) -> None:
    """Tell PySpark, which knows no other way than the environment; Spark's setting comes before the variable."""
    _put(VARIABLE, given.get(SETTING) or _users(VARIABLE) or sys.executable)
    _put(OF_DRIVER, _users(OF_DRIVER) or sys.executable)


def is_the_drivers(chosen: str) -> bool:
    """Workers under it find the driver's packages."""
    return shutil.which(chosen) == sys.executable


def _users(name: str) -> str | None:
    said = os.environ.get(name)
    return None if said == _ours.get(name) else said


def _put(name: str, value: str) -> None:
    if os.environ.get(name) != value:
        os.environ[name] = _ours[name] = value
