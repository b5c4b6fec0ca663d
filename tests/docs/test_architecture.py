"""ARCHITECTURE.md is what newcomers read first: what it names is there, and its numbers are the code's.

What is neither in the code nor in a list here of others' words is a mistake, in the page or in the list.
"""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from onceward.dashboard import files as dashboard_files
from onceward.demo import job as demo_job
from onceward.epoch import (
    checkpoint,
    decisions,
    deeds,
    home,
    ledger,
    query_shape,
    skips,
    source_topics,
    stop_request,
    term,
    tries,
)
from onceward.lookups import kept
from onceward.pipeline import source
from onceward.savepoint import pins, place
from onceward.sinks.rows import SMALL_EPOCH_BYTES
from onceward.telemetry import activity

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "onceward"
PAGE: Final = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PROSE: Final = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
ROOMS: Final = dict(re.findall(r"^\| `([a-z_]+/)` \| (.*) \|$", PAGE, re.MULTILINE))
# Of Spark, Kafka, Delta, Python and the shell; and of ours what is no path, module, class or function.
OF_OTHERS: Final = frozenset(
    """
    FileSystem.getLocal LocalFileSystem OfflineStateRepartitionRunner StateRewriter _delta_log dropDuplicates
    fetch.max.wait.ms from_json fs.file.impl lz4 mapInArrow producer.id.expiration.ms repartitionById
    spark.authenticate spark.jars spark.jars.packages stateStore.maintenanceInterval subscribePattern
    """.split()  # noqa: SIM905 - to be read, and kept sorted
)
MENTIONED: Final = frozenset(
    {
        "{..}{..}", "[1]", "[1, null]", "/proc/PID/fd/N", "attemptNumber > 0", "synchronous_commit = off",
        "max_commit_retries=0", "rows=", 'on_late_rows="fail"', 'partitioning="preserve"', "make check", "onceward new",
        "onceward resolve", "onceward ui", "done", "prepared", "recorded", "terms/TERM.lineage",
    }
)  # fmt: skip


def tokens(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


@cache
def defined() -> frozenset[str]:
    """Classes, functions and methods of ours, these under their class."""
    found: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        for it in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(it, ast.ClassDef | ast.FunctionDef):
                found.add(it.name)
            if isinstance(it, ast.ClassDef):
                found |= {f"{it.name}.{one.name}" for one in it.body if isinstance(one, ast.FunctionDef)}
    return frozenset(found)


def is_there(token: str, room: Path | None = None) -> bool:
    """As a path from the repository, the package or the room, as a module of the room, or as a definition."""
    for base in (ROOT, PACKAGE, *([room] if room is not None else [])):
        if (base / token).exists() and token.strip("/."):
            return (base / token).is_dir() == token.endswith("/") or not token.endswith("/")
    if room is not None and ((room / f"{token}.py").exists() or (room / token / "__init__.py").exists()):
        return True
    return token in defined()


@pytest.mark.parametrize("room", ROOMS)
def test_what_the_map_says_of_a_room_is_in_it(room: str) -> None:
    wrong = [it for it in tokens(ROOMS[room]) if not is_there(it, PACKAGE / room) and it not in OF_OTHERS | MENTIONED]
    assert wrong == []


def test_the_map_has_every_room_and_every_module_beside_them() -> None:
    packages = {f"{it.parent.name}/" for it in PACKAGE.glob("*/__init__.py")}
    assert set(ROOMS) == packages
    (row,) = re.findall(r"^\| (`errors\.py`.*?) \| .* \|$", PAGE, re.MULTILINE)
    modules = {it.name for it in PACKAGE.glob("*.py") if not it.name.startswith("__")}
    assert set(tokens(row)) == modules


def test_the_rooms_stand_in_the_order_that_is_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [it["layers"] for it in contracts if it["type"] == "layers"]
    levels = {
        f"{name.strip().removeprefix('onceward.')}/": at for at, layer in enumerate(layers) for name in layer.split("|")
    }
    checked = set(ROOMS) - {"starter/"}  # files of a user's project, which nobody here imports
    assert checked == set(levels) & set(ROOMS)
    order = [levels[room] for room in ROOMS if room in checked]
    assert order == sorted(order)


def test_every_name_and_every_path_in_the_text_is_there() -> None:
    named = {it for it in tokens(re.sub(r"^\| `.*$", "", PROSE, flags=re.MULTILINE)) if it not in OF_OTHERS | MENTIONED}
    assert sorted(it for it in named - {*FILES_OF_HOMES.values(), *NOTES} if not is_there(it)) == []
    linked = {*re.findall(r"\((docs/[\w./-]+)[#)]", PAGE), *re.findall(r"\b(docs/[\w-]+\.md)\b", PAGE)}
    assert [it for it in linked if not re.match(r"docs/decisions/\d", it) and not (ROOT / it).exists()] == []
    decisions_there = {it.name[:4] for it in (ROOT / "docs" / "decisions").glob("*.md")}
    assert set(re.findall(r"docs/decisions/(\d{4})", PAGE)) <= decisions_there


def test_nothing_is_in_the_lists_of_others_words_without_need() -> None:
    assert sorted((OF_OTHERS | MENTIONED) - set(tokens(PROSE))) == []
    assert sorted(OF_OTHERS & defined()) == []


FILES_OF_HOMES: Final = {
    "deed": deeds.FILE,
    "checkpoints": f"{home.CHECKPOINTS}/",
    "ledger": f"{ledger.FOLDER}/",
    "decisions": f"{decisions.FOLDER}/",
    "lookups": f"{kept.FOLDER}/",
    "terms": f"{term.FOLDER}/",
    "activity": f"{activity.FOLDER}/",
    "requests": f"{stop_request.FOLDER}/",
    "savepoints": f"{place.SAVEPOINTS}/",
    "pins": f"{pins.FOLDER}/",
}
NOTES: Final = {f"{checkpoint.NOTES}/{name}" for name in (query_shape.FILE, source_topics.FILE, skips.FILE)}


def test_a_home_looks_as_it_is_drawn() -> None:
    (drawn,) = re.findall(r"^```\nhome/\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    first = [line.split()[0] for line in drawn.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    assert {re.match(r"[\w.]+/?", it)[0] for it in first} == {*FILES_OF_HOMES.values(), f"{home.LINEAGES}/"}  # type: ignore[index] # a name
    assert set(re.findall(rf"^    ({checkpoint.NOTES}/[\w.]+) ", drawn, re.MULTILINE)) == NOTES
    (folder,) = re.findall(rf"^  ({home.LINEAGES}/.*?)/ ", drawn, re.MULTILINE)
    assert deeds._FOLDER.fullmatch(folder.replace("TERM", f"{7:06d}").replace("ID", "0a1b2c3d"))


@pytest.mark.parametrize(
    "said",
    [
        f"{['', 'one', 'two', 'three', 'four', 'five', 'six'][tries.ATTEMPTS]} tries in all",
        f"Small epochs ({SMALL_EPOCH_BYTES >> 20} MB, an option)",
        f"`read_kafka` sets {source.FETCH_WAIT_MS}",
        f"polls return up to {int(source.POLL_RECORDS):,} records",
        {2: "younger than two seconds"}[dashboard_files.SETTLED_NS // 10**9],
        f"maintains every {demo_job.MAINTENANCE_S} s",
    ],
)
def test_every_number_is_the_codes(said: str) -> None:
    assert said in " ".join(PAGE.split())
