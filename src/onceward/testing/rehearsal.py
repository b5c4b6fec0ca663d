"""A pipeline as a sink sees it: processes that open the sink, run epochs, and crash.

A crash is a process whose sink object is abandoned without `close`; the next one makes a new object, opens it under
the next term, and knows of its predecessor only what was written down as JSON.
"""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.contract import (
    Committable,
    DecidingSink,
    EpochContext,
    Guarantee,
    LastCommit,
    Owner,
    TwoPhaseCommitSink,
    Verdict,
)
from onceward.epoch.expected import NEVER
from onceward.epoch.outcome import Outcome
from onceward.sinks import rows

MAX_COMMITTABLE_BYTES: Final = 100_000  # it goes into the ledger with every epoch
TRIES: Final = 4  # of one epoch; whatever disturbed it does so once
SINK: Final = "kit"  # its name in the pipeline

Restore = Callable[[], None]


def _as_it_is(frame: DataFrame) -> DataFrame:
    return frame


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkUnderTest:
    """A sink, and how a stranger looks at its target.

    make: a new object for the same target, as a new process would make it.
    visible: the ids a reader sees now, duplicates included; also called from other threads, while a commit runs.
    leftovers: whatever is staged now, by name; empty when all is well.
    rows: turns the kit's DataFrame (id long, text string) into the sink's columns.
    backup: copies the target as it is now, with its marker, and returns what puts that copy in the target's place, as
        somebody does who restores a backup while the pipeline runs. Without it the cases that need it are skipped.
    """

    make: Callable[[], TwoPhaseCommitSink]
    visible: Callable[[], list[int]]
    leftovers: Callable[[], list[str]]
    rows: Callable[[DataFrame], DataFrame] = _as_it_is
    backup: Callable[[], Restore] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A pre-committed epoch, as it crosses a crash: JSON and numbers."""

    context: EpochContext
    ids: Sequence[int]
    text: str

    @property
    def committable(self) -> Committable:
        """Read again from its text, as another process does."""
        decoded: dict[str, Any] = json.loads(self.text)
        return decoded


class Process:
    """One driver process: a sink object of its own, opened under a term of its own."""

    def __init__(self, sink: TwoPhaseCommitSink, owner: Owner, frame: Callable[[Sequence[int]], DataFrame]) -> None:
        self.sink = sink
        self.owner = owner
        self._frame = frame
        sink.open(owner)

    @property
    def decides(self) -> bool:
        """Is this sink's own commit the decision?"""
        return isinstance(self.sink, DecidingSink)

    def last_commit(self) -> LastCommit | None:
        return self.sink.last_commit()

    def has_committed(self, epoch: int) -> bool:
        """Does the sink say that this epoch of this lineage is the last one out?"""
        last = self.last_commit()
        return last is not None and (last.lineage, last.epoch) == (self.owner.lineage, epoch)

    def expect_last_commit(self, epoch: int, when: str = "at a start") -> None:
        """A sink that remembers must say so."""
        last = self.last_commit()
        said = None if last is None else (last.lineage, last.epoch)
        wanted = (self.owner.lineage, epoch) if self.sink.remembers else None
        assert said == wanted, f"{when}: last_commit() must say {wanted}, and says {said}"

    def mark_beginning(self) -> None:
        """What a pipeline does before the first epoch of a lineage: a deciding sink's marker says "nothing yet"."""
        if isinstance(self.sink, DecidingSink):
            self.sink.write_marker(LastCommit(lineage=self.owner.lineage, epoch=NEVER, term=self.owner.term))

    def begin(self, epoch: int, *, attempt: int = 1, input_rows: int | None = 10) -> EpochContext:
        """Open a try. `input_rows` small: the sink may take the short way; None: the long way."""
        context = EpochContext(epoch=epoch, attempt=attempt, input_rows=input_rows)
        self.sink.begin(context)
        return context

    def write(self, context: EpochContext, ids: Sequence[int] | DataFrame) -> Outcome:
        """Write, and count as the pipeline does where the sink does not."""
        frame = ids if isinstance(ids, DataFrame) else self._frame(ids)
        outcome = self.sink.write(context, frame)
        return rows.digest(frame) if outcome is None else outcome

    def pre_commit(self, context: EpochContext, outcome: Outcome, ids: Sequence[int]) -> Prepared:
        """Vote; the committable must be small JSON with a version."""
        return Prepared(context=context, ids=ids, text=_checked(self.sink.pre_commit(context, outcome)))

    def prepare(self, epoch: int, ids: Sequence[int], *, attempt: int = 1, input_rows: int | None = 10) -> Prepared:
        context = self.begin(epoch, attempt=attempt, input_rows=input_rows)
        return self.pre_commit(context, self.write(context, ids), ids)

    def decide(self, prepared: Prepared) -> Verdict:
        """The decision: the sink's own, or the ledger's, of which the sink hears nothing."""
        if isinstance(self.sink, DecidingSink):
            return self.sink.decide(prepared.context, prepared.committable)
        return Verdict.COMMITTED

    def commit(self, prepared: Prepared) -> None:
        """What follows the decision, in whichever process."""
        self.sink.commit(prepared.context, prepared.committable)

    def decide_for_good(self, prepared: Prepared) -> Prepared:
        """Until it is committed. A sink that decides may prove that a try did not happen: then it is redone.

        A Kafka transaction, for instance, may be ended by a zombie that asks for its own one.
        """
        context = prepared.context
        for attempt in range(context.attempt + 1, context.attempt + TRIES):
            verdict = self.decide(prepared)
            if verdict is Verdict.COMMITTED:
                return prepared
            assert self.decides, f"decide() of epoch {context.epoch} says {verdict}"
            self.abort(context.epoch, attempt=attempt - 1)
            prepared = self.prepare(context.epoch, prepared.ids, attempt=attempt, input_rows=context.input_rows)
        raise AssertionError(f"epoch {context.epoch} was proven not to be out {TRIES} times, with nobody about")

    def publish(self, prepared: Prepared) -> None:
        self.commit(self.decide_for_good(prepared))

    def finish(self, prepared: Prepared) -> None:
        """What a start does about its predecessor's pre-committed epoch, if the ledger has it as decided.

        Where the sink itself decides, only its last commit tells; what is not out is redone.
        """
        if not self.decides or self.has_committed(prepared.context.epoch):
            self.commit(prepared)
        else:
            self.abort(prepared.context.epoch)
            self.run(prepared.context.epoch, prepared.ids)

    def run(self, epoch: int, ids: Sequence[int], *, input_rows: int | None = 10) -> Prepared:
        """A whole epoch, without a fault."""
        prepared = self.prepare(epoch, ids, input_rows=input_rows)
        self.publish(prepared)
        return prepared

    def abort(self, epoch: int, *, attempt: int = 1) -> None:
        self.sink.abort(EpochContext(epoch=epoch, attempt=attempt))


@dataclass(slots=True)
class Rehearsal:
    """All processes of one pipeline over one target, one after the other or, with zombies, at once."""

    spark: SparkSession
    under_test: SinkUnderTest
    pipeline: str = field(default_factory=lambda: f"kit-{uuid.uuid4().hex[:12]}")
    lineage: str = field(default_factory=lambda: uuid.uuid4().hex)
    term: int = 0
    held: LastCommit | None = None  # what the sink held when the lineage began; None: nothing, it is the first one
    processes: list[Process] = field(default_factory=list)

    def start(self, **whose: Any) -> Process:
        """A new process, under the next term; whatever ran before is abandoned or a zombie."""
        return self.adopt(self.under_test.make(), **whose)

    def adopt(self, sink: TwoPhaseCommitSink, /, **whose: Any) -> Process:
        """A new process around a sink that somebody else has made."""
        self.processes.append(Process(sink, self.owner(**whose), self.frame))
        return self.processes[-1]

    def owner(
        self,
        *,
        pipeline: str | None = None,
        lineage: str | None = None,
        sink: str = SINK,
        guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
    ) -> Owner:
        """On whose behalf the next process works: this pipeline, at its present lineage, unless told otherwise."""
        self.term += 1
        held = {} if self.held is None else {SINK: (self.held.lineage, self.held.epoch)}
        return Owner(
            pipeline=pipeline or self.pipeline,
            lineage=lineage or self.lineage,
            term=self.term,
            guarantee=guarantee,
            sink=sink,
            before=held,
        )

    def begin_lineage(self, held: LastCommit | None, *, in_a_new_home: bool = False) -> None:
        """A restore or a reset: from now on every start is of a new lineage, and knows what the sink held then."""
        self.lineage, self.held = uuid.uuid4().hex, held
        if in_a_new_home:
            self.term = 0

    def frame(self, ids: Sequence[int]) -> DataFrame:
        """Consecutive ids as the sink's rows, in two partitions; columns may be null, as a parser's are."""
        first = ids[0] if ids else 0
        made = self.spark.range(first, first + len(ids), 1, 2)
        return self.under_test.rows(
            made.selectExpr("nullif(id, -1L) as id", "nullif(concat('text ', id, ' – “ü”'), '') as text")
        )

    def expect_visible(self, *parts: Iterable[int], when: str) -> None:
        """A reader sees exactly these ids, each once."""
        expected, seen = [id_ for part in parts for id_ in part], self.under_test.visible()
        problem = difference(expected, seen)
        assert not problem, f"{when}: {problem}"

    def expect_nothing_staged(self, when: str) -> None:
        """Nothing is left behind."""
        left = self.under_test.leftovers()
        assert left == [], f"{when}, this is left behind: {left}"

    def close(self) -> None:
        """The test is over: close connections, newest first, as the older ones may wait for it."""
        for process in reversed(self.processes):
            process.sink.close()


def difference(expected: Iterable[int], seen: Iterable[int]) -> str:
    """What is wrong with what a reader sees, in words; empty if nothing is."""
    wanted, found = Counter(expected), Counter(seen)
    twice = sorted(id_ for id_, times in found.items() if id_ in wanted and times > 1)
    facts = {
        "lost": sorted(wanted.keys() - found.keys()),
        "seen more than once": twice,
        "never to be seen": sorted(found.keys() - wanted.keys()),
    }
    return "; ".join(f"{len(ids)} rows {fact} (ids {ids[:5]})" for fact, ids in facts.items() if ids)


def _checked(committable: Committable) -> str:
    try:
        text = json.dumps(committable, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"pre_commit() must return plain JSON: {error}") from error
    assert isinstance(json.loads(text), dict), f"pre_commit() must return a JSON object, not {text[:100]}"
    assert "version" in committable, 'pre_commit() must name a "version": a later release has to read it'
    assert len(text) < MAX_COMMITTABLE_BYTES, f"a committable is small JSON; this one has {len(text):,} bytes"
    return text
