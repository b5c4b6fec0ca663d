"""Where the application's parts are, and how large its epochs may be."""

from dataclasses import dataclass
from pathlib import Path

from onceward.apps.ads import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """One shop: its Kafka, its PostgreSQL, and a folder for the pipelines' homes and the lake table."""

    bootstrap: str
    dsn: str
    folder: Path
    guarantee: str = "exactly-once"
    records_per_epoch: int = 10_000  # see WATERMARK_MS: an epoch of `clean` must not span more of the events' time
    prefix: str = ""  # of topics, tables and pipelines, for two of these on one Kafka and one PostgreSQL
    raw_prefix: str = ""  # of the raw topics, which two may share

    def topic(self, name: str) -> str:
        return f"{self.raw_prefix if name in words.RAW else self.prefix}{name}"

    def pipeline(self, name: str) -> str:
        return f"{self.prefix}ads-{name}"

    def table(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def home(self, name: str) -> Path:
        return self.folder / "homes" / self.pipeline(name)

    @property
    def history(self) -> Path:
        return self.folder / f"{self.prefix}history"
