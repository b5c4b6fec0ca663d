"""What a plan of Spark's and its operators' own words say about a savepoint, for its manifest."""

from collections.abc import Iterable, Mapping

from onceward.epoch import state_files
from onceward.epoch.checkpoint import settings_of
from onceward.savepoint.manifest import CHECKPOINT, FileFacts, Operator


def partitions_of(plan: str) -> int | None:
    """The number of partitions that the query's state has, for ever."""
    told = str(settings_of(plan).get(state_files.PARTITIONS, ""))
    return int(told) if told.isdigit() else None


def backend_of(plan: str) -> str:
    """Our word for the state store, or Spark's class."""
    return state_files.backend_of(str(settings_of(plan).get(state_files.PROVIDER_CLASS, "")))


def operators_of(
    noted: Iterable[state_files.Operator], rows: Mapping[int, int | None], files: Mapping[str, FileFacts]
) -> list[Operator]:
    """One for each operator that describes itself."""
    return [
        Operator(
            id=it.number,
            name=it.name,
            partitions=max(it.stores.values(), default=0),
            stores=sorted(it.stores),
            bytes=sum(file.size for path, file in files.items() if path.startswith(f"{CHECKPOINT}/state/{it.number}/")),
            rows=rows.get(it.number),
        )
        for it in sorted(noted, key=lambda it: it.number)
    ]
