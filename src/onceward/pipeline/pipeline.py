"""Pipeline: a named job from sources to sinks, and how it starts."""

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from onceward.epoch import query_shape, state_schemas
from onceward.epoch.contract import DecidingSink, Guarantee, TwoPhaseCommitSink
from onceward.epoch.home import MEMORY, Home, require_name
from onceward.epoch.patience import DEFAULT as DEFAULT_PATIENCE
from onceward.epoch.patience import FIRST_START_S, seconds
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.recovery import Consent, InDoubt
from onceward.epoch.resetting import meaning
from onceward.epoch.runner import Divergence, EpochRunner
from onceward.epoch.skips import Skipped
from onceward.epoch.starting import Opened
from onceward.epoch.term import fenced_first
from onceward.errors import ConfigurationError, SinkNotTransactional
from onceward.lookups import Lookup
from onceward.lookups.kept import KeptLookups
from onceward.pipeline import finding, opening, skipping
from onceward.pipeline.ahead import Ahead, shaped_ahead
from onceward.pipeline.batch import BackgroundThread, Shaping, Transform, in_foreach_batch
from onceward.pipeline.counted_rows import add_rows_read, rows_dropped, rows_read
from onceward.pipeline.enrichment import Enrichment
from onceward.pipeline.explaining import usable_home
from onceward.pipeline.finding import Poison
from onceward.pipeline.fitting import Fitting
from onceward.pipeline.foreach_batch import for_each_batch
from onceward.pipeline.hadoop import delete, open_home
from onceward.pipeline.in_memory import place_of
from onceward.pipeline.letters import Letters
from onceward.pipeline.opening import now, start_of, stoppable_patience
from onceward.pipeline.opening import take_over as take_home_over
from onceward.pipeline.printing import as_html
from onceward.pipeline.query import Query
from onceward.pipeline.resets import Offsets, resetting
from onceward.pipeline.restores import beside, restoring
from onceward.pipeline.shape import shape_of
from onceward.pipeline.soundness import known_guarantee, require_known_options, require_only_decider, require_sound
from onceward.pipeline.source_topics import JoiningTopics, note
from onceward.pipeline.starting import start_query, triggered
from onceward.pipeline.state import State, require_protobuf
from onceward.pipeline.telling import Telling, observed
from onceward.pipeline.transforms import (
    Rows,
    as_is,
    dead_letter_topic,
    looks_twice,
    require_usable_rows,
    transform_of,
)
from onceward.pipeline.workers import require_workers
from onceward.savepoint.retaining import Retain, settle
from onceward.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from onceward.epoch.new_lineage import NewLineage

START_S: Final = 60.0  # the first epoch may run before Spark has given us its query
LateRows = Literal["drop", "fail"]


@dataclass(slots=True)
class Pipeline:
    """Sources -> DataFrame -> sinks, exactly once unless said otherwise.

    name: transactional id and consumer group, for ever.
    home: the pipeline's own directory; "memory:" in tests, which is gone with the process.
    on_replay_divergence: "fail", or "warn" to go on knowingly when a replay differs from what is committed.
    on_late_rows: "drop" what is behind the watermark, as Spark does; "fail" where the watermark is meant to be wide
        enough for every row, so that a dropped one is lost data.
    lookup: tables of a database for `rows=lambda batch, tables: ...`; every try of an epoch sees the same rows.
    state: where the query keeps its state, and how it is written down; None: as the session says.
    retain: whether the checkpoint is kept when the pipeline has ended: "always", "on-failure" (dropped after a clean
        end), "never". Without it the pipeline cannot be started again but from a savepoint.
    patience: how long a sink, a broker or a lookup's database that is out of reach is waited for: "10min", or seconds.
    """

    name: str
    home: str | Path
    source: DataFrame
    output_mode: str = "append"
    guarantee: Guarantee | str = Guarantee.EXACTLY_ONCE
    on_replay_divergence: Divergence = "fail"
    on_late_rows: LateRows = "drop"
    replayable_sources: Iterable[str] = ()
    lookup: Lookup | None = None
    state: State | None = None
    retain: Retain = "always"
    patience: str | float = DEFAULT_PATIENCE
    sinks: dict[str, TwoPhaseCommitSink] = field(default_factory=dict, init=False)
    _transforms: dict[str, Transform] = field(default_factory=dict, init=False)
    _as_they_are: set[str] = field(default_factory=set, init=False)  # sinks without `rows=`
    _dead_letters: bool = field(default=False, init=False)
    _look_twice: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        require_name(self.name)
        self.guarantee = known_guarantee(self.guarantee)
        self.patience = seconds(self.patience)
        require_known_options(self)

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}: {', '.join(self._told())})"

    def _repr_html_(self) -> str:
        return as_html(f"Pipeline {self.name}", self._told())

    def _told(self) -> list[str]:
        """What it was given; Spark is not asked, which may be gone."""
        sinks = f"to {', '.join(self.sinks)}" if self.sinks else "no sink yet"
        return [sinks, Guarantee(self.guarantee).value, f"home {self.home}"]

    def to(self, sink: TwoPhaseCommitSink, rows: Rows | None = None, *, name: str | None = None) -> Self:
        """One more place for the rows; `rows` turns each epoch's DataFrame into the sink's columns.

        Without it the source's columns are written as they are, which costs less: see docs/pipelines.md.
        With two parameters, `rows` also gets what the pipeline's lookup has found: DataFrames by name.
        All sinks of a pipeline commit together. `name` tells two of a kind apart, for ever: markers carry it.
        """
        if not isinstance(sink, TwoPhaseCommitSink):
            raise SinkNotTransactional(
                f"{type(sink).__name__} does not commit atomically, so exactly-once is missing its second half. "
                "Use one of Onceward's sinks, or write one: a subclass of ow.TwoPhaseCommitSink."
            )
        name = require_name(name or type(sink).__name__.removesuffix("Sink").lower())
        if isinstance(sink, DecidingSink):
            require_only_decider(self.name, self.sinks.values(), sink)
        if name in self.sinks:
            raise ConfigurationError(
                f"pipeline {self.name!r} has a sink {name!r} already; give this one a name of its own: "
                f".to(..., name='{name}-2')"
            )
        if rows is None:
            self._as_they_are.add(name)
        rows = rows or as_is
        require_usable_rows(rows, sink=name, pipeline=self.name, has_lookup=self.lookup is not None)
        if (letters := dead_letter_topic(rows)) is not None:
            if not isinstance(sink, KafkaSink):
                raise ConfigurationError(f"sink {name!r}: dead letters go to Kafka; this one takes rows=ow.good_rows")
            sink.writes_dead_letters(letters)
            self._dead_letters = True
        self._transforms[name] = transform_of(rows)
        self._look_twice = self._look_twice or looks_twice(rows)
        self.sinks[name] = sink
        return self

    def rename(self, name: str) -> None:
        """Make it another pipeline: another transactional id and group, and a home beside the first one's."""
        require_name(name)
        home = beside(self.home, name)
        if name == self.name or home == str(self.home).rstrip("/") != MEMORY:
            shared = "name" if name == self.name else f"home {home}"
            raise ConfigurationError(
                f"a copy of pipeline {self.name!r} needs a name of its own, and {name!r} would share its {shared}"
            )
        self.name, self.home = name, home

    @usable_home
    def has_begun(self) -> bool:
        """Whether its home has seen a start."""
        return self._home().deed() is not None

    def began_with(self) -> str:
        """The id of the savepoint that its home's lineage began with; empty: with none."""
        deed = self._home().deed()
        return deed.origin.savepoint if deed is not None and deed.origin is not None else ""

    def require_restorable(self, savepoint: str | Path) -> None:
        """What a start from this savepoint would be refused for, as far as can be told without disturbing anybody."""
        shape = shape_of(self.source, self.output_mode, self.state)
        restoring(self, savepoint, start_of(self, self._home()), shape, partitions=None, new_lineage=False)

    @usable_home
    def reset(
        self,
        *,
        offsets: Offsets | None = None,
        from_group: bool = False,
        take_over: bool = False,
        confirm: Callable[[list[str]], None] = lambda _: None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Forget state and positions: the home's lineage ends, and the next start begins another with epoch 0.

        It reads from where the source says (`starting=`), from `offsets` by topic and partition (and by the number of
        the source, where several read a topic of that name), or, `from_group`, from where the last committed epoch
        ended. What the sinks hold stays there. `confirm` is called with what this means
        for each of them, before anything is touched; what it raises ends it. take_over: fence a living driver at once.
        """
        start = start_of(self, self._home(), at_once=take_over, report=report)
        reset, begins = resetting(self, start, offsets=offsets, from_group=from_group)
        confirm(meaning(reset, begins))
        start.begin(reset)

    @usable_home
    def skip(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        reason: str = "",
        source: int | None = None,
        dead_letters: bool = False,
        report: Callable[[str], None] = lambda _: None,
    ) -> Skipped:
        """Pass over a record that no epoch has committed: the next start leaves it out, for ever.

        The home keeps it with the reason, and the ledger names it with its epoch. dead_letters: the Kafka sink carries
        it to its topic for dead letters (`KafkaSink(dead_letters=...)`), in the commit of that epoch. source: its
        number, from 0, where several read a topic of that name.
        """
        home = self._home()
        place = skipping.place_of(self, source, topic, partition, offset)
        return skipping.skip(self, home, place, reason=reason, dead_letters=dead_letters, report=report)

    @usable_home
    def unskip(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        source: int | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Read a skipped record after all, if no epoch has passed over it yet."""
        home = self._home()
        skipping.undo(self, home, skipping.place_of(self, source, topic, partition, offset), report=report)

    @usable_home
    def find_poison(self, *, report: Callable[[str], None] = lambda _: None) -> list[Poison]:
        """The records that make the planned epoch fail, each all alone; only for queries without state.

        Parts of the epoch are computed and written nowhere: home, sinks and consumer group stay as they are.
        """
        home = self._home()
        return finding.find(self, home, self._transforms, look_twice=self._look_twice, report=report)

    @usable_home
    def stand_by(
        self, *, report: Callable[[str], None] = lambda _: None, asked_to_stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait, with Spark up, until nobody drives the home. Then `start`; another one may still be quicker.

        A driver that dies on this machine is noticed at once, elsewhere when its lease has run out.
        """
        home = self._home()
        opening.stand_by(home, report=report, asked_to_stop=asked_to_stop)

    @observed
    @usable_home
    def start(
        self,
        *,
        trigger: str | None = None,
        take_over: bool = False,
        trust_ledger: str | Iterable[str] = (),
        in_doubt: InDoubt | None = None,
        replan: bool = False,
        accept_lost_input: bool = False,
        from_savepoint: str | Path | None = None,
        partitions: int | None = None,
        new_lineage: bool = False,
        openlineage: str | Path | None = None,
        report: Callable[[str], None] = lambda _: None,
        confirm: Callable[[list[str]], None] = lambda _: None,
        asked_to_stop: Callable[[], bool] = lambda: False,
    ) -> Query:
        """Take the home and the transactional id over, find out what is committed, and run.

        trigger: None (as fast as possible), an interval such as "1s" or "500ms", or "once" (all there is, then end).
        take_over: fence a living driver at once. trust_ledger: the sinks whose marker is gone or behind, by their
        names: the pipeline goes on after the ledger's last epoch, and what they lack stays missing there. confirm:
        called with what that overrules, before anything is written; what it raises ends the start.
        in_doubt: "committed" or "aborted", how the epoch ended that only the marker knew of.
        replan: plan the next epoch anew, which was planned and not committed. accept_lost_input: go on without events
        that Kafka has deleted (with a source that has failOnDataLoss=false).
        from_savepoint: begin with the state and positions of a savepoint; under another name than the savepoint's this
        is a copy. partitions: of the restored state. new_lineage: although sinks hold something else than it knows.
        openlineage: a file for OpenLineage's events; None: where the environment says, if it does.
        asked_to_stop: asked while a start waits for what is out of reach; true ends it.
        """
        spark = self.source.sparkSession
        consent = self._consent(trust_ledger, in_doubt, confirm, replan=replan)
        require_sound(self, dead_letters=self._dead_letters, accept_lost_input=accept_lost_input)
        writer = self._writer(self.source, trigger)
        if (ahead := shaped_ahead(self.source, self.sinks, self._as_they_are)) is not None:
            writer = self._writer(ahead.source, trigger)
        if from_savepoint is None and (partitions is not None or new_lineage):
            raise ConfigurationError("partitions and new_lineage go with from_savepoint (--from SAVEPOINT)")
        home = self._home()
        # An address that has never answered is more likely wrong than away.
        patience_s = float(self.patience) if home.deed() is not None else min(float(self.patience), FIRST_START_S)
        fits = Fitting(self, lambda: stoppable_patience(patience_s, asked_to_stop), accept_lost_input=accept_lost_input)
        require_protobuf(fits.shape)
        require_workers(spark.sparkContext, self.sinks.values(), self.home if fits.shape.operators else None, report)
        start = start_of(
            self, home, shape=fits.shape, fits=fits, at_once=take_over, any_topics=accept_lost_input, report=report
        )
        begins: NewLineage | None = None
        if from_savepoint is not None:
            begins, fits.restore = restoring(
                self, from_savepoint, start, fits.shape, partitions=partitions, new_lineage=new_lineage
            )
        opened = take_home_over(
            start, consent=consent, begins=begins, patience_s=patience_s, asked_to_stop=asked_to_stop
        )
        try:
            with fenced_first(opened.taken.term):  # an overtaken driver's Spark finds its folder gone
                if fits.topics is not None:
                    note(fits.topics, opened.taken.checkpoint.notes)
                if opened.taken.skips:
                    report(skipping.told(opened.taken.skips))
                    ahead = None  # each batch may get dead letters of its own
                    writer = self._writer(skipping.without(self.source, opened.taken.skips), trigger)
                return self._run(opened, fits.shape, writer, ahead, Telling(self.source, opened, openlineage))
        except BaseException:
            opened.close()
            raise

    def _home(self) -> Home:
        return open_home(place_of(self.home, self.name), self.source.sparkSession)

    def _writer(self, source: DataFrame, trigger: str | None) -> DataStreamWriter:
        return triggered(source.writeStream.queryName(self.name).outputMode(self.output_mode), trigger)

    def _consent(
        self,
        trust_ledger: str | Iterable[str],
        in_doubt: InDoubt | None,
        confirm: Callable[[list[str]], None],
        *,
        replan: bool,
    ) -> Consent:
        trusted = frozenset([trust_ledger] if isinstance(trust_ledger, str) else trust_ledger)
        if unknown := sorted(trusted - self.sinks.keys()):
            raise ConfigurationError(
                f"trust_ledger (--trust-ledger) names {', '.join(map(repr, unknown))}, which is no sink of pipeline "
                f"{self.name!r}: its sinks are {', '.join(map(repr, self.sinks))}"
            )
        if in_doubt not in {None, "committed", "aborted"}:
            raise ConfigurationError("in_doubt is 'committed' or 'aborted'")
        return Consent(trust_ledger=trusted, in_doubt=in_doubt, replan=replan, confirm=confirm)

    def _run(
        self, opened: Opened, shape: QueryShape, writer: DataStreamWriter, ahead: Ahead | None, telling: Telling
    ) -> Query:
        if opened.taken.coordinator.patience is not None:
            opened.taken.coordinator.patience.seconds = float(self.patience)  # from now on every address is known
        enrichment = self._enrichment(opened)
        beside = BackgroundThread("onceward-ledger")
        runner = EpochRunner(
            opened.taken,
            beside,
            opened.stop,
            clock=time.monotonic,
            now=now,
            on_divergence=self.on_replay_divergence,
            recorded=lambda entry: enrichment.forget(entry.epoch) if enrichment is not None else None,
            observer=telling.observer,
        )
        started: Future[StreamingQuery] = Future()
        dropped = (lambda: rows_dropped(started.result(START_S))) if self.on_late_rows == "fail" else lambda: 0
        checkpoint = opened.taken.checkpoint
        joining = JoiningTopics(self.source, checkpoint.notes)
        runs = cache(lambda: query_shape.write(checkpoint.notes, shape))  # from now on the state is this query's

        def begins(topics: Collection[str]) -> None:
            runs()
            joining.note(topics)

        transforms = self._transforms
        if ahead is not None:
            telling.look_at({ahead.sink: self.source})
            transforms = ahead.transforms(
                lambda rows: beside.submit(lambda: add_rows_read(started.result(START_S), rows))
            )
        shaping = Shaping(
            transforms,
            self.sinks.values(),
            letters=self._letters(),
            enrichment=enrichment,
            rows_dropped=dropped,
            rows_read=lambda: beside.ask(lambda: rows_read(started.result(START_S))),
            joining=begins,
            look_twice=self._look_twice,
            look_at=telling.look_at if ahead is None else lambda _: None,
        )
        each = for_each_batch(writer, self.source.sparkSession, in_foreach_batch(runner, shaping))
        state_schemas.follow(opened.home.storage, checkpoint.folder, checkpoint.location)
        settings = self.state.settings() if self.state is not None else {}
        query = start_query(each, self.source.sparkSession, checkpoint.location, settings)
        started.set_result(query)
        running = Query(self.name, query, runner, opened, ended=self._settle)
        telling.runs(running.sight, runner)
        return running

    def _letters(self) -> Letters | None:
        kafka = ((name, sink) for name, sink in self.sinks.items() if isinstance(sink, KafkaSink))
        return next((Letters(self.source, name, sink.dead_letters) for name, sink in kafka), None)

    def _settle(self, opened: Opened, runner: EpochRunner, failure: BaseException | None, saves: bool) -> None:  # noqa: FBT001
        spark = self.source.sparkSession
        settle(opened, runner, failure, self.retain, lambda folder: delete(folder, spark), saves=saves, now=now)

    def _enrichment(self, opened: Opened) -> Enrichment | None:
        if self.lookup is None:
            return None
        kept = KeptLookups(opened.home.storage, opened.home.location, opened.taken.owner.lineage)
        patience = opened.taken.coordinator.patience
        assert patience is not None  # of a start
        return Enrichment(self.lookup, kept, patience)
