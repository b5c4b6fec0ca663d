"""What an examination finds: one fact each, how grave it is, and what to do."""

from dataclasses import asdict, dataclass
from enum import StrEnum


class Level(StrEnum):
    """How grave a finding is."""

    OK = "ok"
    NOTE = "note"  # worth knowing; the guarantee holds
    RISK = "risk"  # the guarantee may break, or the pipeline cannot run


@dataclass(frozen=True, slots=True)
class Finding:
    """`about`: whose it is, as people call it. `fix`: what to do, for everything but `OK`."""

    level: Level
    about: str
    says: str
    fix: str = ""

    def facts(self) -> dict[str, str]:
        """For programs."""
        return {name: str(value) for name, value in asdict(self).items()}


def ok(about: str, says: str) -> Finding:
    return Finding(Level.OK, about, says)


def note(about: str, says: str, fix: str) -> Finding:
    return Finding(Level.NOTE, about, says, fix)


def risk(about: str, says: str, fix: str) -> Finding:
    return Finding(Level.RISK, about, says, fix)
