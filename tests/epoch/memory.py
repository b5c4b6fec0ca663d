"""A storage without a disk."""


class Memory:
    """What the storage's contract says, for tests that need thousands of homes in some seconds."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def names(self, folder: str) -> list[str]:
        inside = (name.removeprefix(f"{folder}/") for name in self.files if name.startswith(f"{folder}/"))
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
