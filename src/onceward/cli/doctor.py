"""`onceward doctor`: is everything as the guarantee needs it?"""

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.clusters import SettingOption, named_values
from onceward.cli.output import EXIT_FAILED, AsJson, progress, result
from onceward.doctor.durations import seconds
from onceward.doctor.finding import Finding, Level

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDENT: Final = 9
SIGNS: Final = {Level.OK: "ok  ", Level.NOTE: "note", Level.RISK: "RISK"}


def doctor(
    file: Annotated[
        Path | None, typer.Argument(help="A Python file with build(spark): its pipelines too.", show_default=False)
    ] = None,
    *,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Without a FILE: this cluster too.", show_default=False)
    ] = None,
    setting: SettingOption = None,
    downtime: Annotated[
        str, typer.Option(help="How long a pipeline may be down at most: what Kafka deletes is compared with it.")
    ] = "3d",
    master: Annotated[str | None, typer.Option(help="Spark's master. Default: local[*].")] = None,
    as_json: AsJson = False,
) -> None:
    """Look at Java, jars, disks, brokers, topics, rights, databases and settings; say what endangers the guarantee.

    Nothing is started, written or fenced. Exits with 1 if the guarantee is at risk.
    """
    if setting and kafka is None:
        raise typer.BadParameter("--setting goes with --kafka HOST:PORT; a file's pipelines have their own settings")
    longest_s = seconds(downtime)
    found = list(_found(file, kafka, named_values("--setting", setting), longest_s, master))
    risks = sum(it.level is Level.RISK for it in found)
    summary = f"{risks} risk(s)" if risks else "nothing endangers the guarantee"
    result(
        {"risks": risks, "findings": [it.facts() for it in found]},
        "\n".join([*_lines(found), "", summary]),
        as_json=as_json,
    )
    if risks:
        raise typer.Exit(EXIT_FAILED)


def _found(
    file: Path | None, kafka: str | None, settings: Mapping[str, str], downtime_s: float, master: str | None
) -> Iterator[Finding]:
    from onceward.doctor import machine
    from onceward.errors import JavaUnusable
    from onceward.jars import java_command

    yield from machine.examine()
    try:
        java_command()
    except JavaUnusable:
        return  # told above; nothing else can be looked at without
    if kafka is not None:
        from onceward.doctor.pipelines import examine_cluster
        from onceward.kafka.wire import Cluster

        yield from examine_cluster(Cluster(kafka, settings), downtime_s)
    if file is None:
        yield from machine.disks([])
        return
    from onceward.pipeline.session import end, session

    progress("starting Spark, to ask the file for its pipelines")
    spark = session(file.stem, master=master)
    try:
        yield from _of_the_file(file, spark, downtime_s)
    finally:
        end(spark)


def _of_the_file(file: Path, spark: "SparkSession", downtime_s: float) -> Iterator[Finding]:
    import pyspark

    from onceward.doctor import homes, machine, pipelines, spark_settings
    from onceward.pipeline import host

    yield from spark_settings.judge(dict(spark.sparkContext.getConf().getAll()), f"PySpark {pyspark.__version__}")
    built = host.load(file)(spark)
    places = [home for it in built if (home := homes.local(str(it.home))) is not None]
    yield from machine.disks([*places, Path(spark.conf.get("spark.local.dir", "/tmp") or "/tmp")])  # noqa: S108 - Spark's
    for pipeline in built:
        yield from pipelines.examine(pipeline, downtime_s)


def _lines(found: Iterable[Finding]) -> Iterator[str]:
    said = dict.fromkeys(found)  # pipelines share clusters and topics
    for finding in said:
        yield _folded(f"{SIGNS[finding.level]}  {finding.about}: {finding.says}")
        if finding.fix:
            yield _folded(f"      -> {finding.fix}")


def _folded(line: str) -> str:
    width = shutil.get_terminal_size((100, 24)).columns
    return textwrap.fill(line, width, subsequent_indent=" " * INDENT, break_long_words=False, break_on_hyphens=False)
