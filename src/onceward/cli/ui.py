"""`onceward ui`: a live page about pipelines, on this machine only. It reads, and writes nothing."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.clusters import SettingOption, named_values
from onceward.cli.output import AsJson, progress, result
from onceward.epoch.home import parse_home
from onceward.errors import ConfigurationError

if TYPE_CHECKING:
    from onceward.dashboard.watch import Watch

PORT: Final = 8484


def ui(
    homes: Annotated[
        list[str] | None,
        typer.Argument(metavar="HOME...", help="Homes, or folders with homes in them.", show_default=False),
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
    from onceward.dashboard import serving

    if demo and (homes or kafka or as_json):
        raise typer.BadParameter("--demo brings its own homes and its own Kafka")
    if not demo and not homes:
        raise typer.BadParameter("name the homes to be shown, or --demo")
    if setting and kafka is None:
        raise typer.BadParameter("--setting goes with --kafka HOST:PORT")
    serving.require_installed()
    with ExitStack() as opened:
        watch = _watch(homes or [], kafka, setting, opened)
        if as_json:
            import msgspec

            result(msgspec.to_builtins(watch.overview()), "", as_json=True)
            return
        serving.serve(watch, opened.enter_context(serving.bound(port)), lambda url: progress(f"{url} (Ctrl-C ends it)"))


def _watch(homes: list[str], kafka: str | None, setting: list[str] | None, opened: ExitStack) -> "Watch":
    from onceward.dashboard.watch import Watch

    return Watch(_paths(homes), None)


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
    if not any(path.is_dir() for path in found):
        raise ConfigurationError(f"there is no directory {', '.join(map(str, found))}")
    return found
