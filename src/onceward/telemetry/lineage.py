"""The way to OpenLineage's events: where they go is what the environment says, as with every user of its client.

(What OpenLineage calls lineage is which data came from which; a pipeline's own lineage is one history of epochs.)
"""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from onceward.epoch.observing import Observer, blame
from onceward.errors import DependencyMissing
from onceward.events import logger
from onceward.telemetry.beside import Beside
from onceward.telemetry.datasets import Options

TOLD_BY: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")  # or OPENLINEAGE__TRANSPORT__...
NEEDED: Final = "OpenLineage's events need openlineage-python: pip install 'onceward[lineage]'"
Schema = list[tuple[str, str]]  # each column's name and type

log = logger("onceward.telemetry")


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A start, as its events tell it. `schemas` is filled with the first epoch."""

    pipeline: str
    guarantee: str
    lineage: str
    term: int
    sources: Sequence[tuple[str, Options]]
    sinks: Mapping[str, tuple[str, Options]]  # of each its class and its settings, without secrets
    positions: Sequence[str] = ()  # where it goes on, as Spark writes it
    schemas: dict[str, Schema] = field(default_factory=dict)
    run: str = field(default_factory=lambda: str(uuid.uuid4()))


def is_asked_for() -> bool:
    """Whether the environment says where events go."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    named = any(os.environ.get(name) for name in TOLD_BY)
    return named or any(name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ)


def require_installed() -> None:
    """Or say what to do, in a line."""
    if find_spec("openlineage") is None:
        raise DependencyMissing(NEEDED)


def observer(begun: Begun, file: str | Path | None = None) -> Observer | None:
    """Tells a run's events, to a file or as the environment says. None where that cannot be: a pipeline runs anyway."""
    if find_spec("openlineage") is None:
        log.warning("the environment asks for it: %s", NEEDED, extra={"event": "openlineage_missing"})
        return None
    try:
        from onceward.telemetry.openlineage import OpenLineage, emitter

        return Beside(OpenLineage(emitter(file), begun))
    except Exception as error:  # noqa: BLE001 - a wrong setting of its client is no reason not to run
        blame("OpenLineage", error)
        return None
