"""The commit: one transaction that moves the staged rows, writes the marker and drops what was staged.

Either all of it is there or nothing, so the marker alone tells how a lost answer to COMMIT ended, and whoever asks
again, here or in another process, needs only the committable.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from psycopg import Cursor, sql

from onceward.epoch.contract import AFTER, Committable, Owner
from onceward.errors import StagingLost, TargetUnusable
from onceward.sinks import succession
from onceward.sinks.postgres import marker, staging
from onceward.sinks.postgres.marker import MARKERS, Marker
from onceward.sinks.postgres.names import StagingName, Table
from onceward.sinks.postgres.session import Row

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a committable says: which rows go where. `table` is None for an epoch without rows."""

    lineage: str
    epoch: int
    term: int
    schema: str
    table: str | None
    tries: tuple[int, ...] | None  # None: every row of the staging table counts
    target: Table
    columns: tuple[str, ...]
    key: tuple[str, ...]  # none: append
    rows: int
    digest: int
    succession: Mapping[str, Any]  # which epoch it follows, under `AFTER`

    def encode(self) -> Committable:
        """As small JSON; the digest as text, since not every reader of JSON has 64 bits."""
        told = asdict(self)
        told |= told.pop("succession")
        return {"version": VERSION, **told, "target": list(self.target), "digest": f"{self.digest:016x}"}

    @classmethod
    def decode(cls, committable: Committable) -> Self:
        """Of this version, or nothing is done."""
        if committable.get("version") != VERSION:
            raise TargetUnusable(
                f"this epoch was staged in format {committable.get('version')!r} of another release of Onceward, and "
                f"this one reads format {VERSION}; start the release that staged it"
            )
        apart = ("version", AFTER)
        fields: dict[str, Any] = {name: value for name, value in committable.items() if name not in apart}
        fields["succession"] = {name: committable[name] for name in apart[1:] if name in committable}
        tries = fields["tries"]
        fields |= {
            "tries": None if tries is None else tuple(tries),
            "target": Table(*fields["target"]),
            "columns": tuple(fields["columns"]),
            "key": tuple(fields["key"]),
            "digest": int(fields["digest"], 16),
        }
        return cls(**fields)

    def __str__(self) -> str:
        source = "no rows" if self.table is None else f"its {self.rows} rows in {Table(self.schema, self.table)}"
        return (
            f"epoch {self.epoch} is decided, and {source} could not be moved to {self.target}; nothing is lost, and "
            "the next start goes on with it once the cause is removed"
        )


def publish(cursor: Cursor[Row], owner: Owner, plan: Plan) -> None:
    """Repeating it is harmless; two at once wait for each other at the marker's row.

    The row is locked and must still say what it said when the epoch began. One that was removed is made again: an epoch
    that follows none may then be committed, and no other.
    """
    found = marker.hold(cursor, plan.schema, owner, lock=True)
    names = staging.staged(cursor, plan.schema, owner)
    if not found.has(plan.lineage, plan.epoch):
        _require_ours(found, owner, plan)
        succession.require_predecessor(owner, plan.epoch, plan.succession, found.last_commit, _way_out(owner, plan))
        if plan.table is not None:
            _move(cursor, plan, names)
        done = Marker(
            owner_lineage=found.owner_lineage,
            owner_term=found.owner_term,
            lineage=plan.lineage,
            epoch=plan.epoch,
            term=owner.term,
            rows=plan.rows,
            digest=plan.digest,
        )
        marker.write(cursor, plan.schema, owner, done, plan.target)
    if found.owner_lineage == owner.lineage:
        # The driver alone wrote a table without tries, so nobody can be writing into it.
        alone = plan.tries is None and [str(name) for name in names] == [plan.table]
        staging.drop(cursor, plan.schema, staging.dead(names, owner, plan.epoch), end_writers=not alone)


def _way_out(owner: Owner, plan: Plan) -> str:
    """For a person who knows what the target holds: the statement that says so to the sink."""
    after = plan.succession.get(AFTER)
    told = (None, None, None) if after is None else (*after, plan.term)
    statement = sql.SQL(
        "INSERT INTO {} (pipeline, sink, owner_lineage, owner_term, lineage, epoch, term) VALUES ({}) "
        "ON CONFLICT (pipeline, sink) DO UPDATE SET lineage = excluded.lineage, epoch = excluded.epoch, "
        "term = excluded.term"
    ).format(
        sql.Identifier(plan.schema, MARKERS),
        sql.SQL(", ").join(map(sql.Literal, (owner.pipeline, owner.sink, owner.lineage, owner.term, *told))),
    )
    return (
        f"Restore {plan.target} and its marker together to a state that has what it follows. Or, if what "
        f"{plan.target} holds is right, or its gap is accepted, run this and start again: {statement.as_string()}"
    )


def _require_ours(found: Marker, owner: Owner, plan: Plan) -> None:
    """A decided epoch may be committed by whoever knows of it, until a newer term has gone on to other epochs."""
    overtaken = found.lineage == plan.lineage and found.term is not None and found.term > max(plan.term, owner.term)
    if found.owner_lineage != owner.lineage or overtaken:
        raise marker.fenced(owner)


def _move(cursor: Cursor[Row], plan: Plan, names: list[StagingName]) -> None:
    assert plan.table is not None
    source = Table(plan.schema, plan.table)
    if plan.table not in map(str, names):
        raise StagingLost(
            f"epoch {plan.epoch} is decided and not in {plan.target}, and its staging table {source} is gone: somebody "
            "dropped it, or the server lost what it had confirmed (fsync off, or a failover to a replica that lagged). "
            f"Restore the table, or restore {plan.target} and the pipeline to an earlier savepoint"
        )
    moved = cursor.execute(staging.move(source, plan.tries, plan.target, plan.columns, plan.key)).rowcount
    if moved != plan.rows:  # a trigger may keep rows back, which is the target's affair; missing rows are ours
        there = staging.count(cursor, source, plan.tries)
        if there != plan.rows:
            raise StagingLost(
                f"epoch {plan.epoch} is decided, and its staging table {source} has {there} of the {plan.rows} rows "
                "that were staged: somebody changed it"
            )
