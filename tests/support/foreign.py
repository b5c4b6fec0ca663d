"""What the sinks of this package promise beyond the kit: they know whose a target is before they touch it."""

import pytest

from onceward.errors import ForeignLineage, MarkerMissing, PipelineFenced
from onceward.testing.memory import backup
from onceward.testing.rehearsal import Rehearsal


class KnowsItsOwn:
    """Beside `SinkConformance`."""

    def test_a_lineage_that_the_target_does_not_know_is_refused_by_open_itself(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        process.run(0, range(10))
        stranger = rehearsal.under_test.make()
        with pytest.raises(ForeignLineage, match=process.owner.lineage):
            stranger.open(rehearsal.owner(lineage="another"))
        stranger.close()
        process.run(1, range(10, 20))
        rehearsal.expect_visible(range(20), when="after open() was refused")

    def test_an_epoch_without_rows_does_not_hide_that_the_target_was_set_back(self, rehearsal: Rehearsal) -> None:
        """Of this lineage, and of the one before: the marker must not jump over what is gone."""
        process = rehearsal.start()
        process.run(0, range(10))
        restore = backup(rehearsal)
        process.run(1, range(10, 20))
        empty = process.prepare(2, range(0))
        rehearsal.begin_lineage(process.last_commit())
        heir = rehearsal.start()
        first = heir.prepare(0, range(0))
        restore()
        for committing, prepared in ((heir, first), (process, empty)):
            with pytest.raises((MarkerMissing, PipelineFenced)):
                committing.commit(prepared)
            last = committing.last_commit()
            assert last is not None
            assert (last.lineage, last.epoch) == (process.owner.lineage, 0)
