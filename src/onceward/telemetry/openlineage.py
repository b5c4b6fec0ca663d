"""OpenLineage's events of one run. Needs its client (`lineage.py`).

What happened since the last event is told with the first epoch, then every `INTERVAL_S`, and with the end: events add
up.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.transport.file import FileConfig, FileTransport

from onceward.epoch.ledger import Entry
from onceward.epoch.observing import Course, Observer
from onceward.errors import PipelineFenced
from onceward.telemetry.datasets import Dataset, reads, written
from onceward.telemetry.lineage import Begun
from onceward.telemetry.outward import error_outward

INTERVAL_S: Final = 60.0


def emitter(file: str | Path | None) -> Callable[[RunEvent], None]:
    """To a file, or as the environment says."""
    if file is None:
        return OpenLineageClient().emit
    return OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(file), append=True))).emit


class OpenLineage(Observer):
    """Tells one start's events. `emit` may wait for a server: `Beside`."""

    def __init__(
        self,
        emit: Callable[[RunEvent], None],
        begun: Begun,
        *,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._emit = emit
        self._begun = begun
        self._interval_s = interval_s
        self._clock = clock
        self._told_at: float | None = None  # when epochs were told of last
        self._before = list(begun.positions)
        self._untold: list[int] = []
        self._positions = list(begun.positions)
        self._rows: Counter[tuple[str, Dataset]] = Counter()
        self._read = 0

    def started(self) -> None:
        """The run begins."""
        self._tell(RunState.START)

    def committed(self, entry: Entry, course: Course) -> None:  # noqa: ARG002 - the entry has it all
        """Told now, or with later ones."""
        self._untold.append(entry.epoch)
        self._positions = list(entry.positions)
        self._read += entry.input_rows or 0
        for name, part in entry.sinks.items():
            by_topic: Counter[str] = Counter()
            for topic, _, rows, _ in part.partitions:
                by_topic[topic] += rows
            kind, settings = self._begun.sinks.get(name, (part.kind, part.settings or {}))
            for dataset in written(kind, settings, list(by_topic)):
                self._rows[name, dataset] += by_topic.get(dataset.name, 0) if by_topic else part.rows
        if self._told_at is None or self._clock() - self._told_at >= self._interval_s:
            self._told_at = self._clock()
            self._tell(RunState.RUNNING)

    def ended(self, failure: BaseException | None) -> None:
        """COMPLETE after a clean end or stop; ABORT if a newer driver has taken over; else FAIL, with the reason."""
        if failure is None:
            self._tell(RunState.COMPLETE)
        else:
            self._tell(RunState.ABORT if isinstance(failure, PipelineFenced) else RunState.FAIL, failure)

    def _tell(self, state: RunState, failure: BaseException | None = None) -> None:
        event = RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(),
            producer=_producer(),
            run=Run(self._begun.run, self._run_facets(failure)),
            job=Job(os.environ.get("OPENLINEAGE_NAMESPACE", "default"), self._begun.pipeline, self._job_facets()),
            inputs=self._inputs(),
            outputs=self._outputs(),
        )
        # What is told is told, also if nobody hears it: a server that is away does not make events grow.
        self._before, self._untold, self._read = self._positions, [], 0
        self._rows = Counter(dict.fromkeys(self._rows, 0))
        self._emit(event)

    def _run_facets(self, failure: BaseException | None) -> dict[str, Any]:
        begun = self._begun
        facets: dict[str, Any] = {
            "onceward": RunFacet(producer=_producer()).with_additional_properties(
                guarantee=begun.guarantee, lineage=begun.lineage, term=begun.term
            ),
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=version("pyspark"), name="Spark", producer=_producer()
            ),
        }
        if self._untold:
            facets["onceward_epochs"] = RunFacet(producer=_producer()).with_additional_properties(
                first=self._untold[0], last=self._untold[-1], epochs=len(self._untold), rowsRead=self._read
            )
        if failure is not None:
            told = error_outward(failure)
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(told, "Python", producer=_producer())
        return facets

    def _job_facets(self) -> dict[str, Any]:
        return {
            "jobType": job_type_job.JobTypeJobFacet(
                processingType="STREAMING", integration="ONCEWARD", jobType="PIPELINE", producer=_producer()
            )
        }

    def _inputs(self) -> list[InputDataset]:
        found = []
        for read in reads(self._begun.sources, self._before, self._positions):
            facet = InputDatasetFacet(producer=_producer()).with_additional_properties(
                begins=read.begins, ends=read.ends
            )
            facets = {"onceward_positions": cast("InputDatasetFacet", facet)}
            found.append(InputDataset(*read.dataset, inputFacets=facets))
        return found

    def _outputs(self) -> list[OutputDataset]:
        named = {
            (name, dataset): 0 for name, (kind, settings) in self._begun.sinks.items()
            for dataset in written(kind, settings)
        }  # fmt: skip
        return [
            OutputDataset(
                *dataset,
                facets=self._schema(name),
                outputFacets={
                    "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                        rowCount=rows, producer=_producer()
                    )
                },
            )
            for (name, dataset), rows in {**named, **self._rows}.items()
        ]

    def _schema(self, sink: str) -> dict[str, Any]:
        columns = self._begun.schemas.get(sink)
        if columns is None:
            return {}
        fields = [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in columns]
        return {"schema": schema_dataset.SchemaDatasetFacet(fields, producer=_producer())}


def _producer() -> str:
    return f"urn:onceward:{version('onceward')}"
