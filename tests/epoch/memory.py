"""A storage without a disk."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


class Memory:
    """What the storage's contract says, for tests that need thousands of homes in some seconds."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def names(self, folder: str) -> list[str]:
        above = f"{folder}/" if folder else ""
        inside = (name.removeprefix(above) for name in self.files if name.startswith(above))
        return sorted({name.split("/")[0] for name in inside})

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:  # noqa: ARG002
        self.files[name] = data

    def claim(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(name, data) is data

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def move(self, folder: str, to: str) -> bool:
        inside = [name for name in self.files if name.startswith(f"{folder}/")]
        for name in inside:
            self.files[to + name.removeprefix(folder)] = self.files.pop(name)
        return bool(inside)

    def sync(self, name: str) -> None:
        assert name in self.files

    def walk(self, folder: str) -> list[str]:
        return sorted(name.removeprefix(f"{folder}/") for name in self.files if name.startswith(f"{folder}/"))

    def link(self, name: str, to: str) -> bool:
        if name not in self.files:
            return False
        self.files[to] = self.files[name]
        return True

    def chunks(self, name: str) -> Iterator[bytes]:
        if name not in self.files:
            raise FileNotFoundError(name)
        yield self.files[name]

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        self.files[name] = b"".join(chunks)

    def make(self, folder: str) -> None:
        pass

    def settle(self, folder: str) -> None:
        pass

    def clear(self, folder: str) -> None:
        for name in self.walk(folder):
            del self.files[f"{folder}/{name}"]

    def path(self, name: str) -> Path | None:
        """In memory only."""


class Meanwhile(Memory):
    """Something happens at the first question for a file that ends so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for = "nothing yet"
        self.happens: Callable[[], object] = lambda: None

    def at(self, asked_for: str, happens: Callable[[], object]) -> None:
        self.asked_for, self.happens = asked_for, happens

    def _look(self, name: str) -> None:
        if name.endswith(self.asked_for):
            self.asked_for = "nothing more"
            self.happens()

    def read(self, name: str) -> bytes | None:
        self._look(name)
        return super().read(name)

    def claim(self, name: str, data: bytes) -> bool:
        self._look(name)
        return super().claim(name, data)
