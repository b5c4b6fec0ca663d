"""A storage without a disk."""


class Memory:
    """What the storage's contract says, for tests that need thousands of homes in some seconds."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def names(self, folder: str) -> list[str]:
        return sorted(name.removeprefix(f"{folder}/") for name in self.files if name.startswith(f"{folder}/"))

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:  # noqa: ARG002
        self.files[name] = data

    def claim(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(name, data) is data

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def sync(self, name: str) -> None:
        assert name in self.files
