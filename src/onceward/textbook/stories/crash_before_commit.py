"""Output is written, the position is not committed yet, and the process is killed: C5."""

import signal
from dataclasses import dataclass
from typing import Final

from onceward.epoch.contract import Guarantee
from onceward.textbook.kafka.ground import Ground
from onceward.textbook.kafka.worker import Job
from onceward.textbook.pictures.conversation import Conversation, Happened, Said
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story

ORDERS: Final = ("order 1", "order 2")
WORKER, BROKER, READER = LANES = ("worker", "broker", "reader")


@dataclass(frozen=True, slots=True)
class Result:
    """What readers of committed records saw, and a reader of everything in the end."""

    after_kill: list[str]
    at_end: list[str]
    lying_there: list[str]


@dataclass(frozen=True, slots=True)
class Last:
    output_then_position: Result
    one_transaction: Result


class Trial:
    """The worker under one guarantee: a first life that is killed between its two steps, and a second one."""

    def __init__(self, ground: Ground, guarantee: Guarantee) -> None:
        self._ground, self._guarantee = ground, guarantee
        self._job = Job(
            name=ground.unique("worker"),
            source=ground.topic("orders", *ORDERS),
            target=ground.topic("charges"),
            bootstrap=ground.bootstrap,
            at_once=len(ORDERS),
        )

    def kill(self) -> signal.Signals:
        with self._job.start(self._guarantee) as child:
            assert child.heard() == {"at": "between", "batch": 0}
            return child.kill()

    def finish(self) -> None:
        with self._job.start(self._guarantee) as child:
            assert child.heard() == {"at": "between", "batch": 0}
            child.go_on()
            assert child.heard() == {"at": "end"}
            child.ended()

    def seen(self) -> list[str]:
        """By a reader of committed records."""
        return self._ground.seen(self._job.target)

    def lying_there(self) -> list[str]:
        """By a reader of everything, aborted records too."""
        return self._ground.seen(self._job.target, "read_uncommitted")

    def position(self) -> int:
        return self._ground.position(self._job.name, self._job.source)


def tell(stage: Stage) -> Ending:
    stage.say(
        f"A worker reads {len(ORDERS)} orders from one topic and writes a charge for each into another. It also notes "
        "how far it has read, its position (Kafka calls it a committed offset), so that a restart knows where to go "
        "on. These are two steps, and a process can be killed between them."
    )
    with Ground(stage) as ground:
        naive = _output_then_position(stage, Trial(ground, Guarantee.AT_LEAST_ONCE))
        once = _one_transaction(stage, Trial(ground, Guarantee.EXACTLY_ONCE))
    stage.heading("Side by side")
    stage.show(
        "way of working",
        "orders",
        "seen after the kill",
        "seen at the end",
        rows=[
            ("output, then position", len(ORDERS), len(naive.after_kill), len(naive.at_end)),
            ("one transaction", len(ORDERS), len(once.after_kill), len(once.at_end)),
        ],
    )
    return Ending(
        last=Last(naive, once),
        takeaways=(
            "Writing output and noting the position are two steps. A crash between them shows, whichever comes first.",
            (
                "Kafka can put both into one transaction: the position is then one more write, which becomes visible "
                "together with the output or not at all."
            ),
            "Readers have to ask for it with `isolation.level=read_committed`. Others see aborted records too.",
        ),
        lives_in=(
            "src/onceward/kafka/transactor.py",
            "src/onceward/kafka/marker.py",
            "docs/decisions/0001-one-transaction-per-epoch.md",
        ),
    )


def _output_then_position(stage: Stage, trial: Trial) -> Result:
    stage.heading("First the output, then the position")
    by = trial.kill()
    seen, position = trial.seen(), trial.position()
    stage.say(
        f"The worker wrote its charges and was killed ({by.name}, as `kill -9` sends it) before it noted its position. "
        f"A reader sees {len(seen)} charges; the broker's note for the worker still says position {position}."
    )
    trial.finish()
    at_end = trial.seen()
    stage.say(
        f"The worker that replaces it starts at position {position}, reads the same orders and charges them again. "
        f"A reader now sees {len(at_end)} charges for {len(ORDERS)} orders."
    )
    stage.draw(
        Conversation(
            title="Output first, then the position: after a crash between the two, each order is charged twice",
            lanes=LANES,
            moments=(
                Said(WORKER, BROKER, f"write {len(seen)} charges"),
                Said(BROKER, READER, f"{len(seen)} charges"),
                Happened(WORKER, "kill -9", Tone.BAD),
                Happened(BROKER, f"position still {position}", Tone.QUIET),
                Happened(WORKER, "starts again", Tone.QUIET),
                Said(BROKER, WORKER, f"orders from position {position}"),
                Said(WORKER, BROKER, f"write {len(ORDERS)} charges"),
                Said(WORKER, BROKER, f"note position {trial.position()}"),
                Said(BROKER, READER, f"{len(at_end)} charges", Tone.BAD),
            ),
        )
    )
    return Result(seen, at_end, trial.lying_there())


def _one_transaction(stage: Stage, trial: Trial) -> Result:
    stage.heading("Output and position in one transaction")
    trial.kill()
    seen, lying_there, position = trial.seen(), trial.lying_there(), trial.position()
    stage.say(
        "The same worker is killed at the same place, but now its charges belong to a transaction. "
        f"{len(lying_there)} charges lie in the topic, and a reader of committed records sees {len(seen)} of them."
    )
    trial.finish()
    at_end, lying_there = trial.seen(), trial.lying_there()
    stage.say(
        "The worker that replaces it has the same transactional id. When it asks for its producer id "
        "(`InitProducerId`), the broker aborts what the killed one left open. Then it writes the charges and its "
        "position, and one request (`EndTxn`) commits both. "
        f"A reader sees {len(at_end)} charges for {len(ORDERS)} orders."
    )
    stage.say(
        f"A reader that ignores transactions (`read_uncommitted`) finds {len(lying_there)} records: the "
        f"{len(lying_there) - len(at_end)} aborted ones stay in the log, and readers of committed records skip them."
    )
    stage.draw(
        Conversation(
            title="One transaction for both: what the killed worker wrote is never seen",
            lanes=LANES,
            moments=(
                Said(WORKER, BROKER, f"write {len(ORDERS)} charges"),
                Happened(WORKER, "kill -9", Tone.BAD),
                Said(BROKER, READER, f"{len(seen)} charges"),
                Happened(WORKER, "starts again", Tone.QUIET),
                Said(WORKER, BROKER, "InitProducerId"),
                Happened(BROKER, "aborts what is open", Tone.QUIET),
                Said(BROKER, WORKER, f"orders from position {position}"),
                Said(WORKER, BROKER, f"write {len(ORDERS)} charges"),
                Said(WORKER, BROKER, f"note position {trial.position()}"),
                Said(WORKER, BROKER, "EndTxn: commit both"),
                Said(BROKER, READER, f"{len(at_end)} charges", Tone.GOOD),
            ),
        )
    )
    return Result(seen, at_end, lying_there)


STORY: Final = Story(
    name="crash-before-commit",
    title="Killed between output and position",
    question="Killed between output and position: what do readers see?",
    tell=tell,
    needs=(Need.KAFKA,),
)
