"""How large the pipelines' state has become: rows and bytes, the most that was seen of each."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import onceward as ow

FILE: Final = "state.json"


class StateSizes:
    """Watches running pipelines; a killed application begins anew."""

    def __init__(self) -> None:
        self._most: dict[str, dict[str, int]] = {}

    def look(self, queries: Iterable[ow.Query]) -> None:
        for query in queries:
            operators = (query.last_progress or {}).get("stateOperators", [])
            if operators:
                most = self._most.setdefault(query.name, {"rows": 0, "bytes": 0})
                most["rows"] = max(most["rows"], sum(int(it["numRowsTotal"]) for it in operators))
                most["bytes"] = max(most["bytes"], sum(map(_bytes, operators)))

    def write(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(self._most))


def read(folder: Path) -> dict[str, dict[str, int]]:
    file = folder / FILE
    found: dict[str, dict[str, int]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _bytes(operator: dict[str, Any]) -> int:
    """In memory, and in RocksDB's files."""
    return int(operator["memoryUsedBytes"]) + int(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0))
