"""What readers find in each sink of the built-in job: its rows, what is new in it, what is left lying about."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from onceward.proof.chaos import builtin
from onceward.proof.chaos.places import Places, consumer, partitions, read_topic
from onceward.proof.history import Place

Found = tuple[int, int, int]  # id, key, running number


class Output(Protocol):
    """One sink, from outside."""

    def rows(self) -> dict[Place, list[tuple[int, Found]]]:
        """All that is visible: by place, (offset or 0, row)."""
        ...

    def news(self) -> list[int] | None:
        """The ids that became visible since the last look, by one consistent read; None if there is no such read."""
        ...

    def left_behind(self) -> list[str]:
        """What should be gone once the job has ended cleanly."""
        ...


class Topic:
    """Kafka. Partitions show a commit one after the other, so there is no consistent look: watchers do that."""

    def __init__(self, places: Places, name: str = builtin.OUT) -> None:
        self._places, self._name = places, name

    def rows(self) -> dict[Place, list[tuple[int, Found]]]:
        found: dict[Place, list[tuple[int, Found]]] = {}
        for message in read_topic(self._places.bootstrap, self._name):
            rows = found.setdefault((self._name, message.partition()), [])
            rows.append((message.offset(), builtin.decode(message.value())))
        return found

    def news(self) -> None:
        return None

    def left_behind(self) -> list[str]:
        return open_transactions(self._places.bootstrap, self._name)


class Table:
    """The rows that the job has committed to PostgreSQL."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._seen: set[int] = set()
        self._low = 0  # every id below has been seen

    def rows(self) -> dict[Place, list[tuple[int, Found]]]:
        found = self._read("id, key, number", "true")
        return {(builtin.TABLE, 0): [(0, (row[0], row[1], row[2])) for row in found]}

    def news(self) -> list[int]:
        found = {row[0] for row in self._read("id", f"id >= {self._low}")} - self._seen
        self._seen |= found
        while self._low in self._seen:
            self._seen.discard(self._low)
            self._low += 1
        return list(found)

    def left_behind(self) -> list[str]:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'onceward'"
        return [f"staging table {name}" for (name,) in self._places.query(query) if name != "markers"]

    def _read(self, columns: str, where: str) -> list[tuple[Any, ...]]:
        there = self._places.query(f"SELECT to_regclass('{builtin.TABLE}')")
        if there == [(None,)]:
            return []
        return self._places.query(f"SELECT {columns} FROM {builtin.TABLE} WHERE {where}")  # noqa: S608 - all are ours


class Files:
    """Parquet files: an epoch is a folder, renamed into its place."""

    def __init__(self, places: Places) -> None:
        self._folder, self._staging = places.folder / "files", places.folder / ".files.onceward"
        self._seen: set[Path] = set()

    def rows(self) -> dict[Place, list[tuple[int, Found]]]:
        return {("files", 0): [(0, row) for row in _parquet(self._folder.rglob("*.parquet"))]}

    def news(self) -> list[int]:
        folders = set(self._folder.glob("epoch=*")) - self._seen
        self._seen |= folders
        return [row[0] for folder in sorted(folders) for row in _parquet(folder.rglob("*.parquet"))]

    def left_behind(self) -> list[str]:
        return [f"staged {it}" for it in self._staging.rglob("*") if it.is_file() and it.suffix != ".json"]


class Lake:
    """A Delta table, by its log."""

    def __init__(self, places: Places) -> None:
        self._folder = places.folder / "delta"
        self._seen: set[str] = set()

    def rows(self) -> dict[Place, list[tuple[int, Found]]]:
        return {("delta", 0): [(0, row) for row in _parquet(map(Path, self._files()))]}

    def news(self) -> list[int]:
        files = set(self._files()) - self._seen
        self._seen |= files
        return [row[0] for row in _parquet(map(Path, files))]

    def left_behind(self) -> list[str]:
        known = set(self._files())
        # Every hundred versions Delta sums its log up in a Parquet file of its own.
        data = (it for it in self._folder.rglob("*.parquet") if it.parent.name != "_delta_log")
        return [f"no version of the table has {it}" for it in data if str(it) not in known]

    def _files(self) -> list[str]:
        from deltalake import DeltaTable

        return DeltaTable(str(self._folder)).file_uris() if DeltaTable.is_deltatable(str(self._folder)) else []


OUTPUTS: Final[dict[str, Callable[[Places], Output]]] = {
    "kafka": Topic, "postgres": Table, "files": Files, "delta": Lake,
}  # fmt: skip


def open_transactions(bootstrap: str, topic: str) -> list[str]:
    """Partitions whose readers cannot get to the end: a transaction is open there."""
    ends: list[dict[int, int]] = []
    for isolation in ("read_committed", "read_uncommitted"):
        with consumer(bootstrap, isolation) as reader:
            places = partitions(reader, topic)
            ends.append({it.partition: reader.get_watermark_offsets(it, timeout=30)[1] for it in places})
    stable, last = ends
    return [
        f"{topic}-{number}: readable up to {stable[number]} of {end}"
        for number, end in last.items()
        if stable[number] < end
    ]


def _parquet(files: Iterable[Path]) -> list[Found]:
    import pyarrow.parquet

    found: list[Found] = []
    for file in files:
        table = pyarrow.parquet.ParquetFile(file).read(columns=["id", "key", "number"])
        found += zip(*(table.column(name).to_pylist() for name in ("id", "key", "number")), strict=True)
    return found
