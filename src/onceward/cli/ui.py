"""`onceward ui`: a live page about pipelines, on this machine only. It reads, and writes nothing."""

import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.clusters import SettingOption, named_values
from onceward.cli.output import progress, result
from onceward.epoch.home import parse_home
from onceward.errors import ConfigurationError

if TYPE_CHECKING:
    from onceward.dashboard.kafka_watch import KafkaWatch

PORT: Final = 8484
FIRST_ANSWER_S: Final = 10.0  # of Kafka, with --json; a page is shown without waiting for it


def ui(
    homes: Annotated[
        list[str] | None,
        typer.Argument(metavar="HOME", help="Homes, or folders with homes in them.", show_default=False),
    ] = None,
    *,
    kafka: Annotated[
        str | None,
        typer.Option("--kafka", metavar="HOST:PORT", help="Show this Kafka's open transactions. Default: none."),
    ] = None,
    setting: SettingOption = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of 127.0.0.1; 0: any that is free.")] = PORT,
    demo: Annotated[bool, typer.Option("--demo", help="Run the demo beside it, with kills, and show that.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the overview once as JSON, and end.")] = False,
) -> None:
    """Show pipelines live in a browser: epochs, two-phase commits, Kafka's transactions. Only reads.

    Nothing is asked over the network unless you name it (--kafka): what a home says of its servers is not believed.
    """
    _require_sense(homes, kafka, setting, demo=demo, as_json=as_json)
    from onceward.dashboard import serving
    from onceward.dashboard.watch import Watch

    serving.require_installed()
    with suppress(KeyboardInterrupt), ExitStack() as opened:  # that is how it is meant to end
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        listening = opened.enter_context(serving.bound(port)) if not as_json else None
        paths, folders = _paths(homes or []), list[Path]()
        if demo:
            from onceward.cli.ui_demo import demo_beside

            shown = opened.enter_context(demo_beside())
            folders, kafka = [shown.homes], shown.bootstrap
        sight = _kafka(kafka, setting, opened) if kafka is not None else None
        watch = Watch(paths, sight, folders=folders)
        if listening is None:
            import msgspec

            if sight is not None:
                sight.wait(FIRST_ANSWER_S)
            result(msgspec.to_builtins(watch.overview()), "", as_json=True)
            return
        serving.serve(watch, listening, lambda url: progress(f"{url} shows it live; Ctrl-C ends it"))


def _require_sense(
    homes: list[str] | None, kafka: str | None, setting: list[str] | None, *, demo: bool, as_json: bool
) -> None:
    if demo and (homes or kafka or as_json):
        raise typer.BadParameter("--demo brings its own homes and its own Kafka, and goes with --port only")
    if not demo and not homes:
        raise typer.BadParameter("name the homes to be shown, or --demo")
    if setting and kafka is None:
        raise typer.BadParameter("--setting goes with --kafka HOST:PORT")


def _kafka(bootstrap: str, setting: list[str] | None, opened: ExitStack) -> "KafkaWatch":
    from onceward.dashboard.kafka_watch import KafkaWatch
    from onceward.kafka.wire import Cluster

    sight = KafkaWatch(Cluster(bootstrap, named_values("--setting", setting)))
    opened.callback(sight.close)
    return sight


def _paths(homes: list[str]) -> list[Path]:
    found = []
    for home in homes:
        path = parse_home(home)
        if not isinstance(path, Path):
            raise ConfigurationError(
                f"{home} is in HDFS, and the page reads homes on local or mounted paths only. `onceward epochs {home}` "
                "and `onceward in-doubt` show it"
            )
        found.append(path)
    if found and not any(path.is_dir() for path in found):
        raise ConfigurationError(f"there is no directory {', '.join(map(str, found))}")
    return found
