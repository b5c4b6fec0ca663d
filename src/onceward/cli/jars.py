"""`onceward jars`: the locked jars in the user's cache."""

from collections.abc import Callable
from pathlib import Path

import typer

from onceward.cli.output import EXIT_FAILED, AsJson, progress, result
from onceward.errors import OncewardError
from onceward.jars.cache import altered, cache_root, folder_of, jars_of
from onceward.jars.lock import BROKER, CONNECTOR, JarLock

app = typer.Typer(help="The locked jars: Spark's Kafka connector and the dev broker.", no_args_is_help=True)


def _locks() -> list[JarLock]:
    return [JarLock.read(CONNECTOR), JarLock.read(BROKER)]


@app.command()
def fetch(*, as_json: AsJson = False) -> None:
    """Fetch what is missing, and archive Spark's and Kafka's classes; quick when everything is there."""
    from onceward.pipeline import archive
    from onceward.servers.broker import archive as archive_of_broker

    count = sum(len(jars_of(lock, progress)) for lock in _locks())
    classes = [str(made) for make in (archive.make, archive_of_broker.make) if (made := _archived(make)) is not None]
    facts = {"jars": count, "path": str(cache_root()), "classes": classes}
    result(facts, f"{count} jars in {cache_root()}", as_json=as_json)


def _archived(make: Callable[[Callable[[str], None]], Path]) -> Path | None:
    """An archive only saves time: without one a JVM starts as any other does."""
    try:
        return make(progress)
    except OncewardError as error:
        progress(f"{error}. Starts take longer without it; `onceward jars fetch` tries again.")
        return None


@app.command()
def verify(*, as_json: AsJson = False) -> None:
    """Hash every jar again and compare it with the lock."""
    wrong = {
        name: {"expected": lock.sha256[name], "got": got}
        for lock in _locks()
        for name, got in altered(lock, folder_of(lock), by_hash=True).items()
    }
    lines = [f"{name}: expected SHA-256 {it['expected']}, got {it['got']}" for name, it in wrong.items()]
    text = "\n".join([*lines, "`onceward jars fetch` repairs it"]) if wrong else "every jar is the locked one"
    result({"ok": not wrong, "wrong": wrong}, text, as_json=as_json)
    if wrong:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def path(*, as_json: AsJson = False) -> None:
    """Where the jars are kept."""
    folders = {lock.name: str(folder_of(lock)) for lock in _locks()}
    result(folders, "\n".join(folders.values()), as_json=as_json)
