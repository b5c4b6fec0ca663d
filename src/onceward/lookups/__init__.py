"""Lookups: rows of a database that an epoch is enriched with, read once and kept (docs/decisions/0011).

A second try of an epoch must see what the first one saw, also if the database has changed since or is away.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

Tables = Mapping[str, Any]  # pyarrow tables by name


class Lookup(ABC):
    """What a pipeline looks up. Subclass it for a database of your own: one method."""

    @abstractmethod
    def read(self) -> Tables:
        """Every table, all as of one moment, as `pyarrow.Table`s by name.

        Asked once for each epoch, before the epoch begins in any sink and after its records have arrived. Connect here,
        with deadlines. `onceward.errors.LookupUnreachable` says that asking again may help; anything else stops the
        pipeline, and nothing is lost. Column types must not depend on the rows: an empty table has them too.
        """
