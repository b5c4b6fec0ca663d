"""What a savepoint and a snapshot have in common: a directory whose first file says what it holds, with a checksum.

One rename puts it in place, whole; another one takes it away, and what is left is named `.deleted` until it is gone.
"""

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from onceward import crashpoints
from onceward.epoch.regular_file import NoRegularFile
from onceward.epoch.sealed import unseal
from onceward.errors import HomeMismatch, LedgerCorrupt, OncewardError
from onceward.savepoint.place import Place

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Savepoints, or snapshots."""

    word: str
    file: str  # the first one
    inside: str  # the folder with all the others
    damaged: type[OncewardError]
    unusable: type[OncewardError]

    def load(self, place: Place, struct: type[S], newest_format: int) -> S:
        """The first file, as far as its checksum tells; the others are not looked at."""
        name = place.name_of(self.file)
        try:
            data = place.read(self.file)
        except NoRegularFile as error:
            raise self.damaged(f"{name} {error.strerror}") from error
        if data is None or place.is_half_deleted:
            raise self._missing(place)
        try:
            return unseal(data, struct, name, newest_format)
        except LedgerCorrupt as error:
            raise self.damaged(
                f"{name} is damaged: its checksum does not match, or it is of something else ({len(data)} bytes). Use "
                f"another {self.word}, or a copy of this one."
            ) from error
        except HomeMismatch as error:
            raise self.unusable(str(error)) from error

    def require_free(self, place: Place) -> None:
        if place.exists():
            raise self.unusable(
                f"{place.location} is there already; a {self.word} replaces nothing: choose another name"
            )

    def put_in_place(self, partial: Place, target: Place) -> None:
        """One rename; it fails if somebody else has made something of that name meanwhile."""
        self.require_free(target)
        try:
            moved = partial.around.move(partial.name, target.name)
        except OSError:
            self.require_free(target)
            raise
        if not moved:
            raise self.unusable(f"{partial.location} is gone: somebody has cleared the unfinished {self.word}")

    def delete(self, place: Place) -> bool:
        """Interrupted, it is whole, or named `.deleted` and finished by the next try.

        False: it was gone already, but for the rest of an interrupted deletion, which is gone now too.
        """
        whole = place.whole
        unfinished = whole.half_deleted.exists()
        if unfinished:
            self._clear(whole.half_deleted)
        if place.is_half_deleted or not whole.exists():
            if not unfinished:
                raise self.unusable(f"there is no {self.word} {place.location}")
            return False
        self._require_nothing_else(whole)
        if self.file not in whole.names(""):
            raise self.unusable(f"{whole.location} is not deleted: it has no {self.file}, so it is no {self.word}")
        if not whole.around.move(whole.name, whole.half_deleted.name):
            return False  # somebody else was quicker
        crashpoints.reach(f"{self.word}-deleting")
        self._clear(whole.half_deleted)
        return True

    def _clear(self, gone: Place) -> None:
        """Its first file first: whatever is left is of no kind, even if somebody gives it back its name."""
        self._require_nothing_else(gone)
        gone.remove(self.file)
        gone.around.clear(gone.name)

    def _require_nothing_else(self, place: Place) -> None:
        """Nothing else is deleted by mistake: not a home, nor what somebody put beside; hidden files are theirs too."""
        names = {name.partition("/")[0] for name in (*place.names(""), *place.walk(""))}
        if others := sorted(names - {self.file, self.inside}):
            raise self.unusable(
                f"{place.location} is not deleted: it holds {', '.join(others)}, which no {self.word} has"
            )

    def _missing(self, place: Place) -> OncewardError:
        gone = place.whole.half_deleted
        if gone.exists():
            return self.damaged(
                f"the deletion of {place.whole.location} was interrupted ({gone.location} is left); finish it: "
                f"onceward {self.word} delete {gone.location}"
            )
        if not place.exists():
            return self.unusable(f"there is no {self.word} {place.location}")
        if (names := set(place.names(""))) and names <= {self.file, self.inside}:
            return self.damaged(
                f"{place.name_of(self.file)} is missing: removed, or the copy of a {self.word} is incomplete"
            )
        return self.unusable(f"{place.location} is no {self.word}: it has no {self.file}")
