"""Savepoints: created, compared, refused where a restore would double what is committed, restored as a copy."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.errors import SavepointOutdated
from onceward.textbook.pictures.conversation import Conversation, Happened, Said
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.spending import Spending
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story


@dataclass(frozen=True, slots=True)
class Last:
    """What a reader of each output knows, what the comparison found, and why the old savepoint was refused."""

    orders: dict[str, int]
    copy: dict[str, int]
    changed: tuple[tuple[str, str, str, str], ...]
    refused: str
    after_the_refusal: dict[str, int]


def tell(stage: Stage) -> Ending:
    job = Spending(stage.spark(), stage.folder())
    shelf = stage.folder()
    stage.say("The pipeline `orders` adds up what each customer has spent. On Monday anna spends 500 and ben 300.")
    job.orders("1-monday", {"anna": 500, "ben": 300})
    monday = job.run(job.pipeline("orders")).savepoint(to=shelf / "monday")
    stage.say(
        "A savepoint is made because somebody asks for it: `query.savepoint(to='monday')`, or `onceward savepoint "
        "create`. It holds the positions, the state, and what each sink has received, with a checksum of every file."
    )
    stage.say("On Tuesday anna spends 200 more, and cleo 900. The pipeline goes on, and a second savepoint is made.")
    job.orders("2-tuesday", {"anna": 200, "cleo": 900})
    tuesday = job.run(job.pipeline("orders")).savepoint(to=shelf / "tuesday")
    changed = _compared(job, Path(monday), Path(tuesday))
    stage.heading("The difference")
    stage.say("`onceward savepoint diff monday tuesday` compares the two states key by key:")
    stage.show("what", "customer", "monday", "tuesday", rows=[*changed])
    refused = _refused(job, Path(monday))
    stage.heading("An old savepoint is refused")
    stage.say(
        "Restoring Monday's savepoint into `orders` would commit Tuesday's totals a second time. The start ends "
        f"with `SavepointOutdated`: {refused}. Nothing was touched."
    )
    after = job.told("orders")
    stage.say(
        "Whoever wants it all the same says so: `--new-lineage` begins a new history of epochs, and what the sinks "
        "hold stays there."
    )
    _restore_a_copy(stage, job, shelf)
    stage.draw(_picture())
    last = Last(job.told("orders"), job.told("copy"), changed, refused, after)
    stage.show(
        "customer",
        "output of orders",
        "output of copy",
        rows=[(name, total, last.copy.get(name, "-")) for name, total in sorted(last.orders.items())],
    )
    stage.say("Ben is not in the copy's output: it writes totals that change, and his has not changed since Monday.")
    return Ending(
        last=last,
        takeaways=(
            "A checkpoint is the pipeline's own, for going on after a crash. A savepoint is yours, and complete.",
            "A savepoint can be moved, and outlives the home that it came from.",
            "A restore never repeats silently what a sink has committed: it is refused, or begun knowingly.",
        ),
        lives_in=(
            "src/onceward/savepoint/creating.py",
            "src/onceward/savepoint/restoring.py",
            "src/onceward/epoch/new_lineage.py",
            "docs/savepoints.md",
        ),
    )


def _restore_a_copy(stage: Stage, job: Spending, shelf: Path) -> None:
    """From a moved savepoint, under another name, with an output of its own."""
    stage.heading("A copy that goes on from Monday")
    (shelf / "monday").rename(shelf / "moved")
    shutil.rmtree(job.home("orders"))
    job.run(job.pipeline("copy"), from_savepoint=shelf / "moved")
    stage.say(
        "Under another name and with another output, Monday's savepoint is the beginning of a copy. Before that, "
        "its directory was moved and the home of `orders` deleted: a savepoint needs nothing but itself. The copy "
        "reads on from Monday's position: Tuesday's orders."
    )


def _compared(job: Spending, before: Path, after: Path) -> tuple[tuple[str, str, str, str], ...]:
    from onceward.pipeline.state_diff import diff

    def total(held: str | None) -> str:
        return "-" if held is None else str(json.loads(held)["sum"])

    (store,) = diff(job.spark, before, after)
    rows = [(it.kind, json.loads(it.key)["customer"], total(it.before), total(it.after)) for it in store.rows]
    return (*rows, ("the same", f"{store.same} other", "", ""))


def _refused(job: Spending, savepoint: Path) -> str:
    try:
        job.run(job.pipeline("orders"), from_savepoint=savepoint)
    except SavepointOutdated as error:
        return str(error).splitlines()[1].removeprefix("  - ")
    raise AssertionError("a savepoint older than what the sink holds was restored")


def _picture() -> Conversation:
    orders, saved, copy = "orders", "savepoint", "copy"
    return Conversation(
        title="One savepoint: refused where it would double, welcome where it does not.",
        lanes=(orders, saved, copy),
        moments=(
            Happened(orders, "epoch 0: Monday's orders"),
            Said(orders, saved, "create: positions, state, sinks"),
            Happened(orders, "epoch 1: Tuesday's orders"),
            Said(saved, orders, "restore: SavepointOutdated", Tone.BAD, lost=True),
            Said(saved, copy, "restore: a copy, its own output", Tone.GOOD),
            Happened(copy, "Tuesday's orders, again", Tone.GOOD),
        ),
    )


STORY: Final = Story(
    name="savepoints",
    title="Savepoints: create, compare, restore, refuse",
    question="How do you go back to Monday without doubling Tuesday?",
    needs=(Need.SPARK,),
    tell=tell,
)
