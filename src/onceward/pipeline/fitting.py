"""Whether a pipeline fits what its home holds: asked before the home is claimed, and again once it is ours.

The driver that a start waited for may have dropped its checkpoint, run another query, or noted other topics.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home
from onceward.epoch.patience import Patience
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.source_topics import FILE, SourceTopics, of_sources, require_same
from onceward.pipeline.first_start import require_first_positions
from onceward.pipeline.shape import shape_of
from onceward.pipeline.source_topics import require_still_read, topic_ids
from onceward.pipeline.state import require_same_backend

if TYPE_CHECKING:
    from onceward.pipeline.pipeline import Pipeline
    from onceward.savepoint.restoring import Restoring


@dataclass(slots=True)
class Fitting:
    """Of one pipeline, for a start, a restore or a skipped record."""

    pipeline: "Pipeline"
    patience: Callable[[], Patience]  # with the source's Kafka
    restore: "Restoring | None" = None
    accept_lost_input: bool = False
    shape: QueryShape = None  # type: ignore[assignment]  # of its query; asked once
    topics: SourceTopics | None = None  # that are to be noted once the home is ours

    def __post_init__(self) -> None:
        self.shape = shape_of(self.pipeline.source, self.pipeline.output_mode, self.pipeline.state)

    def __call__(self, home: Home) -> None:
        deed, source = home.deed(), self.pipeline.source
        room = home.of_lineage(deed) if deed is not None else home
        checkpoint = Checkpoint.newest(room)
        if self.restore is None:
            require_same_backend(self.pipeline.state, checkpoint, home.location)
            if not self.accept_lost_input:
                require_still_read(source, checkpoint, home.location)
        data = self.restore.note(FILE) if self.restore is not None else Checkpoint.noted(room, FILE)
        now = self.patience().until(lambda: topic_ids(source), "the source's Kafka")
        self.topics = require_same(of_sources(data), now)
        if self.restore is None and checkpoint.planned() is None:
            require_first_positions(source)
