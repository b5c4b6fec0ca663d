"""Two-phase commit over a file, a database and Kafka at once: without a failure, and with one in each phase."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onceward.errors import CommitUnfinished
from onceward.textbook.pictures.conversation import Conversation
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story
from onceward.textbook.watch import DRIVER, FILES, KAFKA, POSTGRES, Watch

if TYPE_CHECKING:
    from onceward.textbook.payments import Payments, Seen

WAIT_S: Final = 60.0
VOTED: Final = "all have voted"
DECIDED: Final = "Kafka has decided"
COMMITTED: Final = "all have committed"
ABORTED: Final = "try 1 was aborted"
REDONE: Final = "try 2 has committed"
UNFINISHED: Final = "PostgreSQL cannot commit"
BACK: Final = "PostgreSQL runs again"
FINISHED: Final = "the next start has ended"


@dataclass(frozen=True, slots=True)
class Last:
    """What was staged when all had voted; what readers saw at each moment; in the end, the payments in each place."""

    staged: dict[str, int | str]
    seen: "dict[str, Seen]"
    paid: dict[str, list[str]]
    unfinished: str  # the error's name
    resolved: tuple[str, ...]


def tell(stage: Stage) -> Ending:
    from onceward.textbook.payments import Payments

    stage.say(
        "A pipeline writes payments into three places at once: files, a PostgreSQL table and a Kafka topic. Each epoch "
        "has three payments, and must be visible in all three places or in none, whatever fails in between."
    )
    with Payments(stage) as job:
        run = _Run(job)
        unfinished = run.first_driver()
        _without_failure(stage, run)
        _failure_in_phase_one(stage, run)
        _failure_in_phase_two(stage, run, unfinished)
        resolved = run.next_driver()
        _finished(stage, run, resolved)
        paid = job.paid()
    return Ending(
        last=Last(run.staged, run.seen, paid, unfinished, resolved),
        takeaways=(
            "Phase one: everybody writes and votes. What is staged is durable, and not yet visible.",
            "Before the decision, any failure aborts everybody, and the epoch is done again.",
            "After the decision there is no way back: a commit is asked again until it succeeds, across restarts too.",
            "A Kafka transaction cannot stay prepared for ever, so its commit is the decision, and it comes last.",
        ),
        lives_in=(
            "src/onceward/epoch/coordinator.py",
            "src/onceward/epoch/contract.py",
            "src/onceward/epoch/takeover.py",
            "src/onceward/sinks/files/sink.py",
            "src/onceward/sinks/postgres/publish.py",
            "src/onceward/kafka/transaction.py",
        ),
    )


class _Run:
    """Two drivers, one after the other, and what was seen meanwhile. The failures are real: PostgreSQL is stopped."""

    def __init__(self, job: "Payments") -> None:
        self._job = job
        self.watch = Watch()
        self.staged: dict[str, int | str] = {}
        self.seen: dict[str, Seen] = {}

    def first_driver(self) -> str:
        """Three epochs: without a failure, with one before the decision, with one after it. How it ended."""
        watch, failed = self.watch, threading.Event()
        watch.when("after", KAFKA, "pre_commit", 0, self._voted)
        watch.when("after", KAFKA, "decide", 0, lambda: self._look(DECIDED))
        watch.when("after", POSTGRES, "commit", 0, lambda: self._look(COMMITTED))
        watch.when("before", POSTGRES, "pre_commit", 1, self._stop_postgres)
        watch.when("after", FILES, "abort", 1, self._aborted)
        watch.when("after", POSTGRES, "commit", 1, lambda: self._look(REDONE))
        watch.when("after", KAFKA, "decide", 2, self._stop_postgres)
        watch.when("failed", POSTGRES, "commit", 2, failed.set)
        query = self._job.start(watch)
        assert failed.wait(WAIT_S), "PostgreSQL is stopped, so its commit fails"
        try:
            query.stop()
        except CommitUnfinished as error:
            self._look(UNFINISHED)
            return type(error).__name__
        raise AssertionError("a driver ended well that has not finished its commit")

    def next_driver(self) -> tuple[str, ...]:
        """What it told about the epoch that it found."""
        told: list[str] = []
        self._job.postgres.start()
        self._look(BACK)
        assert self._job.start(Watch(), told.append).wait(WAIT_S), "there is nothing left to read"
        self._look(FINISHED)
        return tuple(told)

    def picture(self, epoch: int, title: str) -> Conversation:
        """The epoch's first try, as it went."""
        return Conversation(
            title=title, lanes=(DRIVER, FILES, POSTGRES, KAFKA), moments=self.watch.moments(epoch, attempt=1)
        )

    def show(self, stage: Stage, *moments: str) -> None:
        """What readers see at these moments."""
        rows: list[tuple[object, ...]] = [(it, *self.seen[it]) for it in moments]
        stage.show("when", "files", "PostgreSQL", "Kafka", "Kafka, uncommitted", rows=rows)

    def _look(self, moment: str) -> None:
        self.seen[moment] = self._job.look()

    def _voted(self) -> None:
        self._look(VOTED)
        self.staged = self._job.staged()

    def _stop_postgres(self) -> None:
        self._job.postgres.stop()
        self.watch.note(POSTGRES, "stopped")

    def _aborted(self) -> None:
        self._job.postgres.start()
        self.watch.note(POSTGRES, "runs again", Tone.GOOD)
        self._look(ABORTED)


def _without_failure(stage: Stage, run: _Run) -> None:
    stage.heading("Without a failure")
    stage.draw(run.picture(0, "Epoch 0: everybody writes, everybody votes, Kafka decides, the others commit."))
    stage.say(
        "`pre_commit` is the vote: all is written and durable, and no reader of committed data sees it. Then "
        f"{run.staged[FILES]} payments are in a hidden directory, {run.staged[POSTGRES]} in a staging table, "
        f"and {run.staged[KAFKA]} in Kafka's open transaction."
    )
    stage.show(
        "step",
        "files",
        "PostgreSQL",
        "Kafka",
        rows=[
            ("write", "files in a hidden directory", "rows in a staging table", "records in a transaction"),
            ("pre_commit", "sync, add a manifest", "count, check for clashes", "all are acknowledged"),
            ("decide", "", "", "marker, EndTxn(commit)"),
            ("commit", "one rename", "one transaction", ""),
            ("abort", "delete the directory", "drop the table", "EndTxn(abort)"),
        ],
    )
    stage.say(
        "So many payments a reader sees in each place, in Kafka also one with `isolation.level=read_uncommitted`:"
    )
    run.show(stage, VOTED, DECIDED, COMMITTED)
    stage.say(
        "Between the decision and the last commit the places differ for a moment. What counts is that there is no way "
        "back any more: the others will follow."
    )


def _failure_in_phase_one(stage: Stage, run: _Run) -> None:
    stage.heading("A failure in phase one")
    stage.say("In epoch 1 PostgreSQL is stopped before it can vote. The files had voted yes, and Kafka had written.")
    stage.draw(run.picture(1, "Epoch 1, first try: one vote is missing, so everybody aborts."))
    run.show(stage, ABORTED, REDONE)
    stage.say(
        "Nothing of the first try was ever visible: not in the files, not in PostgreSQL when it ran again, and not in "
        "Kafka for readers with `isolation.level=read_committed`. Readers with `read_uncommitted` saw the three "
        "aborted records, and will see them for ever. The second try wrote all of it again and committed."
    )


def _failure_in_phase_two(stage: Stage, run: _Run, unfinished: str) -> None:
    stage.heading("A failure in phase two")
    stage.say("In epoch 2 PostgreSQL is stopped after the decision. Now nobody may abort: Kafka's readers have it.")
    stage.draw(run.picture(2, "Epoch 2: decided, so the commit is asked again until it succeeds."))
    run.show(stage, UNFINISHED)
    stage.say(
        "The driver would ask for ever. Here it is told to stop, and does not pretend that all is well: it ends with "
        f"`{unfinished}`, which names the epoch, the sink and the input."
    )


def _finished(stage: Stage, run: _Run, resolved: tuple[str, ...]) -> None:
    stage.heading("The next start finishes it")
    stage.say("PostgreSQL is back, and the pipeline is started again. Before it reads anything it says:")
    for line in resolved:
        stage.say(f"`{line}`")
    run.show(stage, BACK, FINISHED)


STORY: Final = Story(
    name="two-phase-commit",
    title="Two-phase commit, with a failure in each phase",
    question="How do a file, a database and Kafka commit as one?",
    needs=(Need.KAFKA, Need.POSTGRES, Need.SPARK),
    tell=tell,
)
