"""A driver sleeps, is replaced, and wakes up: C6."""

from dataclasses import dataclass
from typing import Any, Final

from onceward.epoch.contract import Guarantee
from onceward.textbook.kafka.child import Child
from onceward.textbook.kafka.ground import Ground
from onceward.textbook.kafka.worker import Job
from onceward.textbook.pictures.conversation import Conversation, Happened, Said
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story

ORDERS: Final = ("order 1", "order 2")
OLD, NEW, BROKER, READER = LANES = ("old driver", "new driver", "broker", "reader")


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """What the old driver was answered when it woke, and what readers saw before, after the change, and then."""

    write: str
    commit: str
    transaction: str  # the state in which Onceward's own code ended
    seen: list[list[str]]
    lying_there: list[str]


def tell(stage: Stage) -> Ending:
    stage.say(
        "Two processes, one job. Both use the same transactional id, which is how the broker knows that the second is "
        "the successor of the first."
    )
    with Ground(stage) as ground:
        job = Job(
            name=ground.unique("driver"),
            source=ground.topic("orders", *ORDERS),
            target=ground.topic("charges"),
            bootstrap=ground.bootstrap,
            at_once=len(ORDERS),
        )
        with job.child("onceward.textbook.kafka.zombie", orders=ORDERS) as old:
            return _night(stage, ground, job, old)


def _night(stage: Stage, ground: Ground, job: Job, old: Child) -> Ending:
    stage.heading("The old driver falls asleep")
    assert old.heard() == {"at": "written", "answer": "NONE"}
    old.sleep()
    old.go_on()  # it will, when it wakes
    before = ground.seen(job.target)
    stage.say(
        "The old driver opened a transaction, wrote a charge for order 1, and then its process was stopped "
        "(`SIGSTOP`): as in a long garbage collection, or on a machine that froze. It is not dead, and it knows "
        f"nothing of the time that passes. A reader of committed records sees {len(before)} charges."
    )
    stage.heading("A new driver takes over")
    with job.start(Guarantee.EXACTLY_ONCE) as new:
        assert new.heard() == {"at": "between", "batch": 0}
        new.go_on()
        assert new.heard() == {"at": "end"}
        new.ended()
    between = ground.seen(job.target)
    stage.say(
        "Somebody starts a new driver. With `InitProducerId` it asks for the producer id of the transactional id, and "
        "the broker gives it a higher producer epoch, a number that only grows. The open transaction of the old driver "
        "is aborted. The new driver reads both orders, writes both charges and commits. "
        f"A reader sees {len(between)} charges."
    )
    stage.heading("The old driver wakes up")
    old.wake()
    said = old.heard()
    old.ended()
    after, lying_there = ground.seen(job.target), ground.seen(job.target, "read_uncommitted")
    _explain(stage, said, after, lying_there)
    stage.draw(_picture(said, len(before), len(between), len(after)))
    return Ending(
        last=Last(
            write=said["write"],
            commit=said["commit"],
            transaction=said["transaction"],
            seen=[before, between, after],
            lying_there=lying_there,
        ),
        takeaways=(
            "Nobody can tell a dead driver from a slow one. So the broker does not try: it refuses the older epoch.",
            (
                "Partition leaders and the transaction's coordinator both check the epoch, and have different names "
                f"for it: `{said['write']}` and `{said['commit']}`."
            ),
            (
                "It works because the transactional id is the same in every life of the job. Onceward uses one for "
                "each pipeline, for ever."
            ),
        ),
        lives_in=(
            "src/onceward/kafka/codes.py",
            "src/onceward/kafka/transaction.py",
            "src/onceward/epoch/takeover.py",
            "docs/decisions/0004-terms-and-ledger-names.md",
        ),
    )


def _explain(stage: Stage, said: dict[str, Any], after: list[str], lying_there: list[str]) -> None:
    stage.say("The old driver goes on where it stopped: it writes a charge for order 2, and commits.")
    stage.show(
        "what it tries",
        "whom it asks",
        "the broker's answer",
        rows=[
            ("write a charge", "the partition's leader", f"`{said['write']}`"),
            ("commit (EndTxn)", "the transaction's coordinator", f"`{said['commit']}`"),
        ],
    )
    stage.say(
        "Both answers say the same: a newer producer exists. Onceward's own driver code then asks whether it may go on "
        "as the owner of its old epoch. That is refused too, and the transaction ends in the state "
        f"`{said['transaction']}`: the driver stops and touches nothing."
    )
    aborted = len(lying_there) - len(after)
    stage.say(
        f"A reader of committed records sees {len(after)} charges, one for each order. In the topic lies {aborted} "
        "more, written before the old driver slept: it was aborted, and such readers skip it."
    )


def _picture(said: dict[str, Any], before: int, between: int, after: int) -> Conversation:
    return Conversation(
        title="A driver that was replaced while it slept cannot add a record",
        lanes=LANES,
        moments=(
            Said(OLD, BROKER, "write a charge"),
            Happened(OLD, "stopped", Tone.BAD),
            Said(BROKER, READER, f"{before} charges"),
            Said(NEW, BROKER, "InitProducerId"),
            Happened(BROKER, "aborts, new epoch", Tone.QUIET),
            Said(NEW, BROKER, "write 2 charges"),
            Said(NEW, BROKER, "EndTxn: commit"),
            Said(BROKER, READER, f"{between} charges", Tone.GOOD),
            Happened(OLD, "wakes up", Tone.QUIET),
            Said(OLD, BROKER, "write a charge"),
            Said(BROKER, OLD, said["write"], Tone.BAD),
            Said(OLD, BROKER, "EndTxn: commit"),
            Said(BROKER, OLD, said["commit"], Tone.BAD),
            Said(BROKER, READER, f"{after} charges", Tone.GOOD),
        ),
    )


STORY: Final = Story(
    name="zombie",
    title="The zombie",
    question="A driver taken for dead wakes up and goes on writing: who stops it?",
    tell=tell,
    needs=(Need.KAFKA,),
)
