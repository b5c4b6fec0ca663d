"""A running sum for each key, as a StatefulProcessor of a user's own."""

from collections.abc import Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped] # Spark's own door to Python state speaks it
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Running(StatefulProcessor):
    """Of the column `number`; each epoch puts out the sums that changed, as text."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._sum = handle.getValueState("sum", "total long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        total = self._sum.get()[0] if self._sum.exists() else 0
        total += sum(int(frame["number"].sum()) for frame in rows)
        self._sum.update((total,))
        yield pd.DataFrame({"key": [key[0]], "value": [str(total)]})

    def close(self) -> None:
        pass
