"""`onceward run`: the pipelines of a file, in this process."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from onceward.cli.output import AsJson, progress, result

if TYPE_CHECKING:
    from onceward.epoch.recovery import InDoubt
    from onceward.pipeline.host import Ended


def run(
    file: Annotated[Path, typer.Argument(help="A Python file with build(spark).", show_default=False)],
    *,
    once: Annotated[bool, typer.Option("--once", help="Commit what is there now, then end.")] = False,
    trigger: Annotated[
        str | None, typer.Option(help="Epochs at this interval: 1s, 500ms. Default: as fast as possible.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master. Default: local[*].")] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a living driver of the same home at once.")
    ] = False,
    trust_ledger: Annotated[
        bool, typer.Option("--trust-ledger", help="Go on from the ledger where a sink has lost its marker.")
    ] = False,
    in_doubt: Annotated[
        str | None,
        typer.Option("--in-doubt", help="With --trust-ledger: the epoch in doubt was 'committed' or 'aborted'."),
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Plan the next epoch anew, which was planned and not committed.")
    ] = False,
    accept_lost_input: Annotated[
        bool, typer.Option("--accept-lost-input", help="Go on without events that Kafka has deleted.")
    ] = False,
    savepoint: Annotated[
        str | None, typer.Option("--from", help="Begin with the state and positions of this savepoint.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="With --from: share the state out over so many partitions.")
    ] = None,
    new_name: Annotated[
        str | None,
        typer.Option("--as", help="With --from: as a copy of this name, with a home of its own beside the original's."),
    ] = None,
    new_lineage: Annotated[
        bool,
        typer.Option("--new-lineage", help="With --from: although sinks hold something else than the savepoint knows."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the pipelines that FILE's build(spark) returns; Ctrl-C and SIGTERM finish the running epoch."""
    if once and trigger is not None:
        raise typer.BadParameter("--once and --trigger exclude each other")
    if savepoint is None and (partitions is not None or new_name is not None or new_lineage):
        raise typer.BadParameter("--partitions, --as and --new-lineage go with --from SAVEPOINT")
    from onceward.pipeline import host
    from onceward.pipeline.session import end, session

    build = host.load(file)
    spark = session(file.stem, master=master)
    try:
        pipelines = build(spark)
        restores: dict[str, host.Restores] = {}
        if savepoint is not None:
            pipelines, restores = host.restoring(
                pipelines, savepoint, new_name=new_name, partitions=partitions, new_lineage=new_lineage
            )
        ended = host.run(
            pipelines,
            restores=restores,
            trigger="once" if once else trigger,
            take_over=take_over,
            trust_ledger=trust_ledger,
            in_doubt=cast("InDoubt | None", in_doubt),
            replan=replan,
            accept_lost_input=accept_lost_input,
            report=progress,
        )
    finally:
        end(spark)
    facts, text = told(ended)
    result(facts, text, as_json=as_json)


def told(ended: "Ended") -> tuple[dict[str, object], str]:
    """How a run ended, for programs and for people."""
    facts = [
        {
            "name": query.name,
            "epochs": query.epochs_committed,
            "rows": query.rows_committed,
            "last_epoch": query.epochs[-1].epoch if query.epochs else None,
        }
        for query in ended.queries
    ]
    text = "\n".join(f"{it['name']}: {it['epochs']} epochs, {it['rows']} rows committed" for it in facts)
    return {"ended": ended.by, "pipelines": facts}, text
