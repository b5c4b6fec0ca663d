"""Cases without a fault: what readers see, and what the sink says about itself."""

import json
import threading

import pytest

from onceward.epoch.contract import DecidingSink, Guarantee
from onceward.testing.rehearsal import Rehearsal, difference


class Visibility:
    """What readers may see, and when."""

    def test_nothing_is_visible_before_the_commit(self, rehearsal: Rehearsal) -> None:
        """Requirement B2: durable and not visible, until every sink has voted."""
        process = rehearsal.start()
        context = process.begin(0)
        rehearsal.expect_visible(when="after begin()")
        outcome = process.write(context, range(20))
        rehearsal.expect_visible(when="after write()")
        prepared = process.pre_commit(context, outcome, range(20))
        rehearsal.expect_visible(when="after pre_commit()")
        process.publish(prepared)
        rehearsal.expect_visible(range(20), when="after commit()")

    def test_a_committable_is_small_json_with_a_version(self, rehearsal: Rehearsal) -> None:
        """`pre_commit` checks it in every case; this one names it."""
        rehearsal.start().prepare(0, range(2000), input_rows=None)

    def test_a_commit_leaves_nothing_staged(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        for epoch in range(2):
            process.run(epoch, range(10 * epoch, 10 * epoch + 10))
            rehearsal.expect_nothing_staged(f"after the commit of epoch {epoch}")

    def test_epochs_add_up(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        for epoch in range(4):
            process.run(epoch, range(10 * epoch, 10 * epoch + 10))
            rehearsal.expect_visible(range(10 * epoch + 10), when=f"after the commit of epoch {epoch}")

    def test_an_epoch_without_rows_commits(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        for epoch, input_rows in enumerate((0, None)):
            process.run(epoch, range(0), input_rows=input_rows)
            rehearsal.expect_visible(when="after an epoch without rows")
        process.run(2, range(10))
        rehearsal.expect_visible(range(10), when="after an epoch that follows epochs without rows")
        rehearsal.start().expect_last_commit(2)
        rehearsal.expect_nothing_staged("after epochs without rows")

    def test_numbers_of_epochs_may_skip(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        process.run(3, range(10))
        process.run(7, range(10, 20))
        rehearsal.expect_visible(range(20), when="after epochs 3 and 7")
        rehearsal.start().expect_last_commit(7)

    def test_readers_see_all_of_an_epoch_or_nothing(self, rehearsal: Rehearsal) -> None:
        """Requirement A7: a reader that looks all the time never sees a part."""
        process, visible = rehearsal.start(), rehearsal.under_test.visible
        process.run(0, range(100))
        prepared = process.prepare(1, range(100, 500), input_rows=None)
        torn: list[str] = []
        looked, done = threading.Event(), threading.Event()

        def look() -> None:
            while not done.is_set():
                seen = visible()
                expected = range(100) if len(seen) <= 100 else range(500)
                if problem := difference(expected, seen):
                    torn.append(problem)
                looked.set()

        reader = threading.Thread(target=look, name="reader", daemon=True)
        reader.start()
        try:
            assert looked.wait(60), "visible() did not answer within 60 s"
            process.publish(prepared)
        finally:
            done.set()
            reader.join(60)
        assert torn == [], f"during the commit a reader saw a part of the epoch: {torn[:3]}"
        rehearsal.expect_visible(range(500), when="after commit()")

    def test_the_short_way_and_the_long_way_put_out_the_same(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        short = process.prepare(0, range(50), input_rows=50)
        process.publish(short)
        rehearsal.expect_visible(range(50), when="after an epoch whose size was known and small")
        process.publish(process.prepare(1, range(50, 100), input_rows=None))
        rehearsal.expect_visible(range(100), when="after an epoch of unknown size")

    @pytest.mark.parametrize("input_rows", [50, None], ids=["short way", "long way"])
    def test_a_digest_says_what_a_write_would_have_said(self, rehearsal: Rehearsal, input_rows: int | None) -> None:
        """Requirement G4: a replay is compared with the first run by digest."""
        process = rehearsal.start()
        context = process.begin(0, input_rows=input_rows)
        written = process.sink.write(context, rehearsal.frame(range(50)))
        digested = process.sink.digest(context, rehearsal.frame(range(50)))
        other = process.sink.digest(context, rehearsal.frame(range(1, 51)))
        if written is None or digested is None or other is None:
            assert written is digested is other is None, "write() and digest() must both tell, or both return None"
            pytest.skip("write() returns None: the pipeline counts and digests the rows itself")
        assert (written.rows, written.digest) == (digested.rows, digested.digest)
        assert written.rows == 50
        assert written.digest != other.digest, "the digest does not depend on the rows"

    def test_the_last_commit_is_none_at_first_and_then_the_last(self, rehearsal: Rehearsal) -> None:
        first = rehearsal.start()
        assert first.last_commit() is None
        if not first.sink.remembers:
            pytest.skip("the sink has remembers = False: it keeps no marker, and the pipeline's ledger counts alone")
        for epoch in range(3):
            first.run(epoch, range(10 * epoch, 10 * epoch + 10))
        first.prepare(3, range(30, 40))
        heir = rehearsal.start()
        heir.expect_last_commit(2)
        if (last := heir.last_commit()) is not None:
            assert 1 <= last.term <= rehearsal.term, "last_commit() names a term that no process had"
            assert last.outcome is None or last.outcome.rows == 10, "last_commit() miscounts"

    def test_a_look_from_outside_changes_nothing(self, rehearsal: Rehearsal) -> None:
        """Where the sink decides, people may ask it for the last commit while the pipeline runs."""
        process, stranger = rehearsal.start(), rehearsal.under_test.make()
        if not isinstance(stranger, DecidingSink):
            pytest.skip("the sink does not decide: nobody asks it from outside, the ledger tells")
        assert stranger.peek(rehearsal.pipeline) is None
        process.run(0, range(10))
        prepared = process.prepare(1, range(10, 20))
        seen = stranger.peek(rehearsal.pipeline)
        assert seen is not None
        assert (seen.lineage, seen.epoch) == (rehearsal.lineage, 0)
        process.publish(prepared)
        stranger.close()
        rehearsal.expect_visible(range(20), when="after looks from outside")

    def test_the_description_is_json_and_makes_a_sink_that_can_commit(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        prepared = process.prepare(0, range(10))
        described = process.sink.describe()
        if described is None:
            pytest.skip("describe() returns None: `onceward resolve` needs the pipeline's file for this sink")
        arguments = json.loads(json.dumps(described))
        again = type(process.sink)(**arguments)
        assert again.describe() == described
        heir = rehearsal.adopt(again)
        heir.finish(prepared)
        rehearsal.expect_visible(range(10), when="after a commit by a sink made from describe()")

    @pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE])
    def test_weaker_guarantees_put_rows_out_too(self, rehearsal: Rehearsal, guarantee: Guarantee) -> None:
        """Requirement A5."""
        process = rehearsal.start(guarantee=guarantee)
        for epoch, input_rows in enumerate((10, None)):
            process.run(epoch, range(10 * epoch, 10 * epoch + 10), input_rows=input_rows)
        rehearsal.expect_visible(range(20), when=f"after two epochs under {guarantee.value}")
        rehearsal.expect_nothing_staged(f"under {guarantee.value}")
