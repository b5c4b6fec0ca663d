"""PostgresSink: rows are staged in a table of their own, and one transaction moves them and writes the marker.

No prepared transactions are used, which most servers do not allow: what survives a crash between vote and commit is an
ordinary table, and the commit is an ordinary transaction that can be repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from psycopg import Cursor, errors
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from onceward.epoch.contract import Committable, EpochContext, Guarantee, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.outcome import MODULUS, Outcome
from onceward.errors import ConfigurationError, EpochFailed, TargetUnusable
from onceward.postgres.options import Options
from onceward.sinks import rows as epoch_rows
from onceward.sinks.postgres import catalog, clashes, marker, staging
from onceward.sinks.postgres.failures import translated
from onceward.sinks.postgres.names import StagingName, Table
from onceward.sinks.postgres.publish import VERSION, Plan, publish
from onceward.sinks.postgres.session import Row, Session
from onceward.sinks.postgres.shape import Shape, look, require_usable
from onceward.sinks.postgres.work import CopyTask, copy_rows, direct_job, staging_job
from onceward.sinks.succession import Succession

SCHEMA: Final = "onceward"


@dataclass(frozen=True, slots=True)
class Staged:
    """What `write` has put where; `table` is None for no rows."""

    table: Table | None
    tries: tuple[int, ...] | None
    rows: int
    shape: Shape


class PostgresSink(TwoPhaseCommitSink):
    """Writes an epoch's rows into a table, column by name.

    dsn: a libpq connection string or URL. A password may also come from PGPASSWORD or the password file.
    table: `table` or `schema.table`, taken as it stands; a part with a dot in it in double quotes.
    mode: "append" inserts; "upsert" writes over the row that has the same `key`, which needs a unique index.
    create: make the table from the first epoch's columns if it is missing.
    schema: where staging tables and markers live; made if it is missing.
    small_epoch_bytes: up to this size an epoch is collected and copied by the driver itself; 0 never.
    """

    def __init__(
        self,
        dsn: str,
        *,
        table: str,
        mode: Literal["append", "upsert"] = "append",
        key: Sequence[str] = (),
        create: bool = False,
        schema: str = SCHEMA,
        small_epoch_bytes: int = epoch_rows.SMALL_EPOCH_BYTES,
    ) -> None:
        if mode not in ("append", "upsert"):
            raise ConfigurationError(f"mode {mode!r} is not known; choose 'append' or 'upsert'")
        if isinstance(key, str) or (mode == "upsert") != bool(key):
            raise ConfigurationError(
                "mode='upsert' needs key=('id',), the columns of a unique index, and mode='append' takes no key; "
                f"got mode={mode!r}, key={key!r}"
            )
        self.table = Table.parse(table)
        self.mode = mode
        self.key = tuple(key)
        self.create = create
        self.schema = schema
        self._table_text = table
        self._session = Session(Options.parse(dsn))
        self._size = epoch_rows.Size(small_epoch_bytes)
        self._shape: Shape | None = None
        self._staged: Staged | None = None
        self._succession = Succession()

    def __repr__(self) -> str:
        return f"PostgresSink({self._session.options.public!r}, table={self._table_text!r}, mode={self.mode!r})"

    @property
    def options(self) -> Options:
        """How it connects."""
        return self._session.options

    def open(self, owner: Owner) -> None:
        """Connect, check the target and our rights, and fence older drivers of this pipeline and sink.

        Whoever may not have the sink is refused before anybody is fenced.
        """
        self.owner = owner
        self._shape = self._staged = None
        self._succession.forget()
        self._session.open(marker.application(owner))
        try:
            self._session.run("opening the PostgreSQL sink", self._open)
        except BaseException:
            self._session.close()
            raise

    def last_commit(self) -> LastCommit | None:
        """What the marker's row says now. A table of markers that is gone says as little as a row that is."""
        try:
            found = self._session.run("reading the marker", lambda cursor: marker.read(cursor, self.schema, self.owner))
        except TargetUnusable as error:
            if not isinstance(error.__cause__, errors.UndefinedTable):
                raise
            found = None
        return self._succession.told(None if found is None else found.last_commit)

    def begin(self, context: EpochContext) -> None:
        """Is the sink still ours? Asking also brings back a connection that broke between epochs."""
        self._staged = None
        last = self._session.run("beginning an epoch", self._require_ours)
        if self._exactly_once:
            self._succession.begin(self.owner, context.epoch, last)

    def write(self, context: EpochContext, rows: DataFrame) -> Outcome:
        """Copy the rows into a staging table; or, under a weaker guarantee, into the target itself."""
        shape = self._shape_of(rows.schema, fresh=context.attempt > 1)
        stage = Table(self.schema, str(StagingName.of(self.owner, context))) if self._exactly_once else None
        with translated(f"copying rows of epoch {context.epoch} for {shape.target.table}", blame_rows=True):
            prepared = epoch_rows.with_hash(shape.layout.prepared(rows))
            table = self._size.collect(prepared, context)
            short = table is not None
            work = self._work(context, shape, stage, short=short)
            if table is not None:
                reports = epoch_rows.run_here(table, work)
            else:
                reports = epoch_rows.run_in_tasks(prepared, context, self._size, work)
        count = sum(report["rows"] for report in reports)
        tries = None if short else tuple(report["try"] for report in reports if report["rows"])
        self._staged = Staged(stage if count else None, tries, count, shape)
        return Outcome(rows=count, digest=sum(report["digest"] for report in reports) % MODULUS)

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        """Every row that was reported is in the staging table, and nothing in it would be refused by the target."""
        if not self._exactly_once:
            return {"version": VERSION, "direct": True}
        staged = self._staged
        assert staged is not None, "write() comes first"
        names = staged.shape.layout.names
        doing = f"checking what is staged of epoch {context.epoch} for {staged.shape.target.table}"
        if staged.table is not None:
            self._session.run(doing, lambda cursor: self._verify(cursor, staged, names), blame_rows=True)
        plan = Plan(
            lineage=self.owner.lineage,
            epoch=context.epoch,
            term=self.owner.term,
            schema=self.schema,
            table=staged.table.name if staged.table is not None else None,
            tries=staged.tries,
            target=staged.shape.target.table,
            columns=tuple(names),
            key=self.key,
            rows=outcome.rows,
            digest=outcome.digest,
            succession=self._succession.noted,
        )
        return plan.encode()

    def commit(self, context: EpochContext, committable: Committable) -> None:  # noqa: ARG002 - the committable has it
        """One transaction. After a lost answer it is asked again: the marker tells whether it went through."""
        if not committable.get("direct"):
            self._succession.forget()
            plan = Plan.decode(committable)
            self._session.run(str(plan), lambda cursor: publish(cursor, self.owner, plan))

    def abort(self, context: EpochContext) -> None:
        """Drop every staging table of this pipeline and sink up to this epoch, and of lineages that are over."""
        self._staged = None
        if self._exactly_once:
            self._session.run(f"aborting epoch {context.epoch}", lambda cursor: self._abort(cursor, context.epoch))

    @property
    def computing_s(self) -> float:
        """Where the rows were collected first."""
        return self._size.computing_s

    def digest(self, context: EpochContext, rows: DataFrame) -> Outcome:  # noqa: ARG002 - the contract names the epoch
        """What `write` would have returned."""
        return epoch_rows.digest(self._shape_of(rows.schema).layout.prepared(rows))

    def when_repeated(self) -> str:
        """An upsert makes the same of the same."""
        if self.mode == "append":
            return super().when_repeated()
        return "rows with the same key are written over; rows that are not made again stay as they are"

    def describe(self) -> Mapping[str, Any]:
        """Everything but the password."""
        return {
            "dsn": self._session.options.public,
            "table": self._table_text,
            "mode": self.mode,
            "key": list(self.key),
            "create": self.create,
            "schema": self.schema,
            "small_epoch_bytes": self._size.small_epoch_bytes,
        }

    def close(self) -> None:
        self._session.close()

    @property
    def _exactly_once(self) -> bool:
        return self.owner.guarantee is Guarantee.EXACTLY_ONCE

    def _open(self, cursor: Cursor[Row]) -> None:
        catalog.require_server(cursor, self._session.options.place)
        if (target := catalog.find(cursor, self.table)) is not None:
            require_usable(cursor, target, self.key)
        elif not self.create:
            raise TargetUnusable(
                f"there is no table {self.table} at {self._session.options.place}; make it, or let "
                "PostgresSink(create=True) make it from the first epoch's columns"
            )
        if not self._exactly_once:
            return
        marker.set_up(cursor, self.schema)
        marker.require_rights(cursor, self.schema)
        marker.require_free(marker.read(cursor, self.schema, self.owner), self.owner)
        marker.claim(cursor, self.schema, self.owner)

    def _require_ours(self, cursor: Cursor[Row]) -> LastCommit | None:
        if not self._exactly_once:
            return None
        found = marker.hold(cursor, self.schema, self.owner)
        if found.is_fenced(self.owner):
            raise marker.fenced(self.owner)
        return found.last_commit

    def _abort(self, cursor: Cursor[Row], epoch: int) -> None:
        found = marker.hold(cursor, self.schema, self.owner, lock=True)
        # A driver that was overtaken leaves everything alone: what it takes for undecided may be decided by now.
        if not found.is_fenced(self.owner):
            names = staging.staged(cursor, self.schema, self.owner)
            staging.drop(cursor, self.schema, staging.dead(names, self.owner, epoch))

    def _verify(self, cursor: Cursor[Row], staged: Staged, names: Sequence[str]) -> None:
        assert staged.table is not None
        there = staging.count(cursor, staged.table, staged.tries)
        if there != staged.rows:
            raise EpochFailed(f"{staged.table} has {there} rows, and {staged.rows} were copied: nothing is committed")
        clashes.require_none(cursor, staged.table, staged.tries, staged.shape.target, names, self.key)

    def _shape_of(self, schema: StructType, *, fresh: bool = False) -> Shape:
        """How these columns go into the target, which is looked at again now and then."""
        known = self._shape
        if known is None or fresh or not known.still_fits(schema):
            known = self._shape = self._session.run(
                "looking at the target",
                lambda cursor: look(cursor, schema, self.table, self.key, create=self.create),
            )
        return known

    def _work(self, context: EpochContext, shape: Shape, stage: Table | None, *, short: bool) -> epoch_rows.Work:
        """In the driver the rows are collected already, so that repeated tasks do no harm; tasks tag what they copy."""
        if stage is None:
            once = self.owner.guarantee is Guarantee.AT_MOST_ONCE
            job = direct_job(shape, self.key, context.epoch, once=once)
        else:
            job = staging_job(stage, shape, self.key, context.epoch, tagged=not short)
        if short:
            return lambda batches: [copy_rows(self._session.connection(), job, batches, "writing")]
        if stage is not None:
            create = staging.create(stage, shape.layout, shape.target, self.key, tagged=True)
            self._session.run(f"staging epoch {context.epoch}", lambda cursor: cursor.execute(create))
        return CopyTask(job, self._session.options.resolved(self._session.connection()))
