"""`onceward run`: the pipelines of a file, in this process."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from onceward.cli import logs
from onceward.cli.failing import ShowTraceback, print_traceback
from onceward.cli.logs import LogFile, LogFormat, LogLevel
from onceward.cli.output import AsJson, result
from onceward.cli.restart import LIMIT, Restart, RestartLimit, is_supervised, own_command, supervise, supervised
from onceward.cli.spark_options import Conf, DriverMemory, Packages, PyFiles, names, settings
from onceward.cli.telemetry import Metrics, OpenLineage, require_usable, served
from onceward.cli.watch import AsJsonLines, Quiet, view

if TYPE_CHECKING:
    from onceward.epoch.recovery import InDoubt
    from onceward.pipeline.host import Ended
    from onceward.pipeline.query import Query
    from onceward.watching.sight import Sight


def run(
    file: Annotated[Path, typer.Argument(help="A Python file with build(spark).", show_default=False)],
    *,
    once: Annotated[bool, typer.Option("--once", help="Commit what is there now, then end.")] = False,
    trigger: Annotated[
        str | None, typer.Option(help="Epochs at this interval: 1s, 500ms. Default: as fast as possible.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master. Default: local[*].")] = None,
    conf: Conf = None,
    packages: Packages = None,
    py_files: PyFiles = None,
    driver_memory: DriverMemory = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a living driver of the same home at once.")
    ] = False,
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Wait with Spark up while another driver runs, and take over when it ends."),
    ] = False,
    trust_ledger: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-ledger", metavar="SINK", help="Go on from the ledger where this sink has lost its marker."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --trust-ledger: do not ask.")] = False,
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
    json_lines: AsJsonLines = False,
    quiet: Quiet = False,
    log_level: LogLevel = "warning",
    log_format: LogFormat = "text",
    log_file: LogFile = None,
    metrics: Metrics = None,
    openlineage: OpenLineage = None,
    show_traceback: ShowTraceback = False,
    restart: Restart = False,
    restart_limit: RestartLimit = LIMIT,
) -> None:
    """Run the pipelines that FILE's build(spark) returns; Ctrl-C and SIGTERM finish the running epoch."""
    if once and trigger is not None:
        raise typer.BadParameter("--once and --trigger exclude each other")
    if savepoint is None and (partitions is not None or new_name is not None or new_lineage):
        raise typer.BadParameter("--partitions, --as and --new-lineage go with --from SAVEPOINT")
    if restart and (savepoint or take_over or trust_ledger or in_doubt or replan or accept_lost_input):
        raise typer.BadParameter(
            "--restart would repeat what is to be done once: --from, --take-over, --trust-ledger, --in-doubt, "
            "--replan and --accept-lost-input go without it. Start once with them, stop, then use --restart."
        )
    if standby and (once or savepoint or take_over or trust_ledger or in_doubt or replan or accept_lost_input):
        raise typer.BadParameter(
            "--standby waits for another driver to end, maybe for days: what a person decides knowingly, and --once, "
            "go without it"
        )
    chosen = settings(conf, packages, driver_memory)
    if restart and not is_supervised():
        raise typer.Exit(supervise(own_command(), restart_limit, logs.reporting(log_level, log_format)))
    logs.set_up(log_level, log_file, quiet=quiet or json_lines, log_format=log_format)
    require_usable(openlineage)
    with (
        logs.failure_logged(log_format),
        supervised() as tell,
        view(quiet=quiet, json_lines=json_lines, log_format=log_format) as shown,
        served(metrics, shown.report),
    ):
        from onceward.jars.spark import require_pyspark

        require_pyspark()
        from onceward.pipeline import host, shipping
        from onceward.pipeline.explaining import in_our_words, in_users_file
        from onceward.pipeline.session import end, session

        def look(sights: list["Sight"]) -> None:
            tell(sights)
            shown.look(sights)

        logs.no_echoes()
        show = print_traceback if show_traceback else lambda _: None
        with in_our_words(show):
            with in_users_file(str(file)):
                build = host.load(file)
            spark = session(file.stem, master=master, **chosen)
        try:
            with in_our_words(show):
                shipping.add(names(py_files), spark.sparkContext)
                with in_users_file(str(file)):
                    pipelines = build(spark)
                restores: dict[str, host.Restores] = {}
                if savepoint is not None:
                    pipelines, restores = host.restoring(
                        pipelines, savepoint, new_name=new_name, partitions=partitions, new_lineage=new_lineage
                    )

                def confirm(lines: list[str]) -> None:
                    shown.report("\n".join(lines))
                    if not yes:
                        typer.confirm("Go on without what these sinks lack?", abort=True, err=True)

                ended = host.run(
                    pipelines,
                    restores=restores,
                    standby=standby,
                    trigger="once" if once else trigger,
                    take_over=take_over,
                    trust_ledger=trust_ledger or [],
                    confirm=confirm,
                    in_doubt=cast("InDoubt | None", in_doubt),
                    replan=replan,
                    accept_lost_input=accept_lost_input,
                    openlineage=openlineage,
                    report=shown.report,
                    look=look,
                )
        finally:
            end(spark)
    facts, text = told(ended)
    result({"event": "ended", **facts} if json_lines else facts, text, as_json=as_json or json_lines)


def told(ended: "Ended") -> tuple[dict[str, object], str]:
    """How a run ended, for programs and for people."""
    facts = [
        {
            "name": query.name,
            "epochs": query.epochs_committed,
            "rows_in": query.rows_read,
            "rows_out": query.rows_written,
            "last_epoch": query.epochs[-1].epoch if query.epochs else None,
        }
        for query in ended.queries
    ]
    text = "\n".join(_line(query) for query in ended.queries)
    return {"ended": ended.by, "pipelines": facts}, text


def _line(query: "Query") -> str:
    out = ", ".join(f"{rows:,} to {sink}" for sink, rows in query.rows_written.items())
    if not query.epochs_committed:
        return f"{query.name}: ended, nothing new was committed"
    epochs = f"{query.epochs_committed:,} epoch{'s' if query.epochs_committed > 1 else ''}"
    return f"{query.name}: ended, {epochs} committed: {query.rows_read:,} rows in, {out}"
