"""A pipeline's sinks without its program: made again from what the ledger keeps of them, which holds no secrets."""

from collections.abc import Mapping
from importlib import import_module

from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.epoch.ledger import SinkEntry
from onceward.errors import ConfigurationError


def sinks_of(parts: Mapping[str, SinkEntry]) -> dict[str, TwoPhaseCommitSink]:
    """Every sink that took part in an epoch."""
    return {name: sink_of(name, part) for name, part in parts.items()}


def sink_of(name: str, part: SinkEntry) -> TwoPhaseCommitSink:
    """One of them; passwords come from the environment, as each client library reads them."""
    if part.settings is None:
        raise ConfigurationError(
            f"sink {name!r} ({part.kind}) cannot be made from the ledger alone: it has settings with credentials, or "
            "is a class of your own without describe(). Give the pipeline's file: --file FILE.py"
        )
    module, _, kind = part.kind.partition(":")
    try:
        made = getattr(import_module(module), kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"sink {name!r}: its class {part.kind} cannot be imported here ({error}). Give the pipeline's file: "
            "--file FILE.py"
        ) from error
    if not (isinstance(made, type) and issubclass(made, TwoPhaseCommitSink)):
        raise ConfigurationError(f"sink {name!r}: {part.kind} is no TwoPhaseCommitSink")
    return made(**part.settings)
