"""What a story can draw. Every picture is drawn twice: in characters for a terminal, and as SVG for a page."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from onceward.textbook.pictures.grid import Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(ABC):
    title: str

    @abstractmethod
    def grid(self) -> Grid:
        """For a terminal of 80 columns."""

    @abstractmethod
    def svg(self) -> str:
        """A whole SVG document."""
