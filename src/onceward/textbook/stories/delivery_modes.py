"""The same kills under three guarantees: lost, doubled, neither (A5)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from onceward.epoch.contract import Guarantee
from onceward.textbook.kafka.ground import Ground
from onceward.textbook.kafka.worker import Job, charge
from onceward.textbook.pictures.conversation import Conversation, Happened, Said
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story

AT_ONCE: Final = 2
ORDERS: Final = tuple(f"order {number}" for number in range(1, 7))
KILLS: Final = (0, 1)  # in which batch each life is killed; the last one runs to the end
WORKER, BROKER, READER = LANES = ("worker", "broker", "reader")


@dataclass(frozen=True, slots=True)
class Mode:
    guarantee: Guarantee
    says: str  # how it works
    title: str  # of its picture
    steps: tuple[str, str]  # what the worker asks of the broker, before and after the place where it is killed


MODES: Final = (
    Mode(
        Guarantee.AT_MOST_ONCE,
        "First note the position, then write the output.",
        "At most once: what was noted and not written is lost",
        ("note position {last}", "write charges {first} and {last}"),
    ),
    Mode(
        Guarantee.AT_LEAST_ONCE,
        "First write the output, then note the position.",
        "At least once: what was written and not noted is written again",
        ("write charges {first} and {last}", "note position {last}"),
    ),
    Mode(
        Guarantee.EXACTLY_ONCE,
        "Output and position go into one transaction, and one request commits both.",
        "Exactly once: output and position count together or not at all",
        ("write charges {first} and {last}", "note position {last}, commit both"),
    ),
)


@dataclass(frozen=True, slots=True)
class Count:
    """What a reader of committed records found in the end."""

    seen: int
    lost: int
    doubled: int

    @property
    def tone(self) -> Tone:
        return Tone.BAD if self.lost or self.doubled else Tone.GOOD


def tell(stage: Stage) -> Ending:
    stage.say(
        f"A worker reads {len(ORDERS)} orders, {AT_ONCE} at a time, and writes a charge for each. For every {AT_ONCE} "
        "it does two things: it writes the charges, and it notes its position, how far it has read."
    )
    stage.say(
        f"Under each guarantee the worker is killed {len(KILLS)} times with `kill -9`, in batch 1 and in batch 2, "
        "always between its two steps. Each time another process takes its place and goes on from the noted position."
    )
    found: dict[str, Count] = {}
    with Ground(stage) as ground:
        for mode in MODES:
            stage.heading(mode.guarantee.capitalize().replace("-", " "))
            stage.say(mode.says)
            found[mode.guarantee.value] = _run(stage, ground, mode)
    stage.heading("Side by side")
    stage.show(
        "guarantee",
        "orders",
        "charges seen",
        "lost",
        "doubled",
        rows=[(name, len(ORDERS), count.seen, count.lost, count.doubled) for name, count in found.items()],
    )
    return Ending(
        last=found,
        takeaways=(
            "At most once and at least once are the same two steps in a different order.",
            (
                "Exactly once needs a sink that can make output and position visible in one step. The orders were read "
                "and computed more than once here too: what happens once is the effect."
            ),
            "In Onceward it is one setting of a pipeline, `guarantee=`, and exactly-once is what you get without it.",
        ),
        lives_in=("src/onceward/epoch/contract.py", "src/onceward/sinks/kafka/sink.py", "docs/sinks/kafka.md"),
    )


def _run(stage: Stage, ground: Ground, mode: Mode) -> Count:
    job = Job(
        name=ground.unique("worker"),
        source=ground.topic("orders", *ORDERS),
        target=ground.topic("charges"),
        bootstrap=ground.bootstrap,
        at_once=AT_ONCE,
    )
    moments: list[Said | Happened] = []
    for batch in (*KILLS, None):
        moments += _live(job, mode, batch)
    copies = Counter(ground.seen(job.target))
    wanted = [copies[charge(order)] for order in ORDERS]
    assert sum(wanted) == copies.total()
    count = Count(seen=sum(wanted), lost=wanted.count(0), doubled=sum(it > 1 for it in wanted))
    stage.say(
        f"A reader sees {count.seen} charges for {len(ORDERS)} orders: {count.lost} lost, {count.doubled} doubled."
    )
    moments.append(Said(BROKER, READER, f"{count.lost} lost, {count.doubled} doubled", count.tone))
    stage.draw(Conversation(title=mode.title, lanes=LANES, moments=tuple(moments)))
    return count


def _live(job: Job, mode: Mode, killed_in: int | None) -> Iterator[Said | Happened]:
    """One life of the worker: until it is killed in that batch, or to the end of the orders. What it did."""
    with job.start(mode.guarantee) as child:
        while (said := child.heard())["at"] == "between":
            before, after = (_words(step, said["batch"]) for step in mode.steps)
            yield Said(WORKER, BROKER, before)
            if said["batch"] == killed_in:
                child.kill()
                yield Happened(WORKER, "kill -9; another one starts", Tone.BAD)
                return
            child.go_on()
            yield Said(WORKER, BROKER, after)
        assert (said, killed_in) == ({"at": "end"}, None)
        child.ended()


def _words(step: str, batch: int) -> str:
    return step.format(first=batch * AT_ONCE + 1, last=(batch + 1) * AT_ONCE)


STORY: Final = Story(
    name="delivery-modes",
    title="At most once, at least once, exactly once",
    question="The same kills under three guarantees: what is lost or doubled?",
    tell=tell,
    needs=(Need.KAFKA,),
)
