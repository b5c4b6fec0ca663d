"""Bugs on purpose: each shows that some checker can fail. They replace pieces of the production code, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onceward.proof.planted import home, kafka, lineages, reading, sinks, starts
from onceward.proof.simulation.patching import Patches
from onceward.proof.simulation.schedule import Schedule, Shape


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: what it does wrong, and the pieces that do it."""

    says: str
    patches: Patches
    of_the_ledger: bool = False  # only where the ledger decides
    needs: frozenset[str] = frozenset()  # faults or settings without which nobody would see it
    of_reading: bool = False  # of those who read and write Kafka's partitions, which have schedules of their own

    def shows_in(self, shape: Shape) -> bool:
        """Whether a kind of pipeline uses what is broken at all."""
        if self.of_reading:
            return False
        if any(target.startswith(_OF_KAFKA) for target in self.patches) and not shape.kafka:
            return False
        if PREDECESSOR in self.patches and not shape.stores:
            return False
        return not (self.of_the_ledger and shape.kafka)

    def may_show(self, schedule: Schedule) -> bool:
        """Whether a schedule uses it."""
        return self.shows_in(schedule.shape) and self.needs <= schedule.traits


# Where a piece is looked up when a driver starts or runs.
KAFKA: Final = "onceward.sinks.kafka.transactional:TransactionalKafka"
TRANSACTOR: Final = f"{KAFKA}.transactor_kind"
PREDECESSOR: Final = "onceward.sinks.succession:require_predecessor"
_OF_KAFKA: Final = "onceward.sinks.kafka."
COORDINATOR: Final = "onceward.proof.simulation.driver:Coordinator"
RUNNER: Final = "onceward.proof.simulation.driver:EpochRunner"
JOURNAL: Final = "onceward.epoch.runner:Journal"
TAKE_OVER: Final = "onceward.epoch.starting:TakeOver"
DECISIONS: Final = "onceward.epoch.starting:Decisions"
LEDGER: Final = "onceward.epoch.starting:Ledger"
TERM: Final = "onceward.epoch.term:Term"
RECORDED: Final = "onceward.epoch.takeover:recorded"
NEW_LINEAGE: Final = "onceward.epoch.new_lineage:NewLineage"

PLANTS: Final[Mapping[str, Plant]] = {
    # Kafka's transaction
    "marker-before-fencing": Plant(
        "reads the marker, then fences",
        {f"{KAFKA}.fence": kafka.fences_late, f"{KAFKA}.last_commit": kafka.tells_what_was},
    ),
    "no-fencing": Plant(
        "nobody is fenced before the first write",
        {f"{KAFKA}.fence": kafka.fences_nobody, TRANSACTOR: kafka.FencesToWrite},
    ),
    "identity-kept": Plant("an aborted try's identity is used again", {TRANSACTOR: kafka.KeepsTheIdentity}),
    "marker-after-end": Plant("the marker follows EndTxn", {TRANSACTOR: kafka.MarksAfterwards}),
    "abort-after-unknown": Plant(
        "a commit without an answer is aborted and redone",
        {TRANSACTOR: kafka.GivesUp, f"{KAFKA}.decide": kafka.aborts_the_unknown},
    ),
    "identity-computed": Plant("adds one instead of reading the answer", {TRANSACTOR: kafka.ComputesTheIdentity}),
    "timeout-taken-for-commit": Plant(
        "a lost transaction is taken for committed", {TRANSACTOR: kafka.TakesTheTimeoutForCommitted}
    ),
    "marker-without-term": Plant("the marker does not say whose votes count", {TRANSACTOR: kafka.MarksWithoutTerm}),
    # Where the output stands, which snapshots across pipelines are cut by
    "boundaries-forgotten": Plant(
        "what an epoch does not write stands where it stood at the start",
        {f"{KAFKA}.open": kafka.notes_the_start, f"{KAFKA}.pre_commit": kafka.forgets_boundaries},
    ),
    "boundaries-from-nothing": Plant(
        "a start does not ask where topics end", {f"{KAFKA}.open": kafka.begins_with_nothing}
    ),
    "boundaries-of-first-try": Plant(
        "a redone epoch keeps the places of its first try", {f"{KAFKA}.pre_commit": kafka.keeps_the_first_try}
    ),
    # Two-phase commit
    "published-before-decision": Plant("the vote makes rows visible", {COORDINATOR: sinks.PublishesEarly}),
    "clean-up-in-doubt": Plant("a start deletes what is in doubt", {TAKE_OVER: home.AbortsInDoubt}),
    "votes-after-decision": Plant("decides, then asks for votes", {COORDINATOR: sinks.VotesAfterTheDecision}),
    "commit-forgotten": Plant("a failed commit is logged and forgotten", {COORDINATOR: sinks.LogsAndGoesOn}),
    "abort-ignored": Plant("the decider's no is not heard", {COORDINATOR: sinks.TakesAbortedForCommitted}),
    "abort-after-error": Plant("an error of the decision is a no", {COORDINATOR: sinks.AbortsTheUnknown}),
    # Home: ledger, decisions, terms, recovery
    "ledger-not-synced": Plant(
        "ledger and decisions may not survive",
        {
            "onceward.epoch.ledger:Ledger.write": home.writes_fragile,
            "onceward.epoch.ledger:Ledger.sync": home.syncs_nothing,
            "onceward.epoch.decisions:Decisions._decided": home.believes_at_once,
        },
    ),
    "positions-not-synced": Plant("the offset log may not survive", {JOURNAL: home.PositionsNotSynced}),
    "skip-on-replay": Plant("a replay does not run the state", {RUNNER: home.SkipsReplay}),
    "slot-left-open": Plant("a start closes no slot", {DECISIONS: home.ClosesNothing}, of_the_ledger=True),
    "slot-looked-at-twice": Plant("a start overlooks a decision", {DECISIONS: home.LooksTwice}, of_the_ledger=True),
    "slot-refusal-ignored": Plant(
        "decides though the slot is taken",
        {DECISIONS: home.IgnoresTheRefusal, TERM: home.NeverFenced},
        of_the_ledger=True,
    ),
    "term-not-checked": Plant(
        "an older term is refused nowhere",
        {DECISIONS: home.AnyTermCloses, TERM: home.NeverFenced},
        of_the_ledger=True,
    ),
    "old-term-believed": Plant("an older term's votes are believed", {LEDGER: home.BelievesOldTerms}),
    "prepared-not-written": Plant("votes are not durable before EndTxn", {JOURNAL: home.NothingPrepared}),
    "predecessor-not-recorded": Plant("epochs overtake their entries", {JOURNAL: home.PredecessorNotRecorded}),
    "decided-redone": Plant("recovery redoes a decided epoch", {TAKE_OVER: home.RedoesDecided}),
    "checkpoint-shared": Plant(
        "an overtaken driver writes where its successor reads", {TAKE_OVER: home.SharesTheCheckpoint}
    ),
    "log-believed": Plant("altered positions in the engine's log are believed", {TAKE_OVER: home.BelievesTheLog}),
    "marker-gone-means-never": Plant("a lost marker is taken for none", {RECORDED: home.passes_over_births}),
    "decider-by-name": Plant("a sink named ledger is taken for the ledger", {TAKE_OVER: home.DeciderByName}),
    "forgetting-unnoticed": Plant(
        "a database that was set back goes on",
        {JOURNAL: home.ForgettingUnnoticed, PREDECESSOR: sinks.compares_nothing},
    ),
    "set-back-before-commit": Plant(
        "a database that is set back within an epoch goes on", {PREDECESSOR: sinks.compares_nothing}
    ),
    # Restores and resets
    "savepoint-unjudged": Plant(
        "an old savepoint is restored as if it were new",
        {"onceward.savepoint.restoring:Restoring.judge": lineages.judges_nothing},
    ),
    "reset-of-what-lacks": Plant(
        "a reset goes on after epochs that a store has lost",
        {"onceward.epoch.resetting:Resetting.judge": lineages.judges_nothing},
        needs=frozenset({"forget", "restore"}),
    ),
    "lineage-not-fenced": Plant(
        "a new lineage leaves sinks to whoever is paused", {f"{NEW_LINEAGE}._fence": lineages.fences_nothing}
    ),
    "doubt-thrown-away": Plant(
        "a new lineage forgets an epoch that is decided", {f"{NEW_LINEAGE}._closed": lineages.closes_nothing}
    ),
    "lineage-begun-early": Plant(
        "a lineage counts before its state is there", {f"{NEW_LINEAGE}._put_in_force": lineages.begins_early}
    ),
    "lineage-not-synced": Plant(
        "a restored state may not survive",
        {
            "onceward.epoch.storage:Below.settle": lineages.lasts_for_now,
            "onceward.epoch.storage:Below.sync": lineages.lasts_for_now,
        },
    ),
    "rescaled-not-synced": Plant(
        "a state that was shared out anew may not survive",
        {"onceward.savepoint.restoring:Restoring.lay_out": lineages.rewrites_for_now},
        needs=frozenset({"rescaled", "power"}),
    ),
    "lineage-slot-open": Plant(
        "an overtaken restore begins its lineage", {"onceward.epoch.deeds:enter": lineages.leaves_slots_open}
    ),
    "expectation-of-old-lineages": Plant(
        "what an older lineage expected is taken for ours", {RECORDED: lineages.expects_as_older_ones}
    ),
    "begun-forgotten": Plant(
        "a new lineage forgets an epoch that was begun, where it is written once",
        {"onceward.epoch.new_lineage:Ending.begun": starts.forgets_what_was_begun},
        needs=frozenset({"at-most-once", "restore"}),
    ),
    "absent-sink-forgotten": Plant(
        "a new lineage does not know what sinks hold that are out",
        {"onceward.epoch.new_lineage:Ending.held": starts.knows_no_absent_sink},
        needs=frozenset({"sinks", "restore"}),
    ),
    "sources-confused": Plant(
        "a reset takes one cluster's offsets for another's",
        {"onceward.epoch.resetting:Resetting._of_source": starts.lowest_of_all},
        needs=frozenset({"two clusters", "restore"}),
    ),
    "skipped-in-every-source": Plant(
        "a record is left out of every topic of that name",
        {"onceward.epoch.skips:of_source": starts.of_every_source},
        needs=frozenset({"two clusters", "skip"}),
    ),
    # Starts, and what becomes of a checkpoint
    "any-query": Plant(
        "a changed query reads the state of the old one",
        {"onceward.epoch.starting:_require_same_query": starts.any_query},
        needs=frozenset({"query"}),
    ),
    "judged-before-the-wait": Plant(
        "what was judged before the lease was waited for is not judged again",
        {"onceward.epoch.starting:Start._entered": starts.judges_once},
        needs=frozenset({"waits"}),
    ),
    "judged-before-the-fence": Plant(
        "what was judged before older drivers were fenced is not judged again",
        {"onceward.epoch.starting:Start._judge": starts.judges_only_before},
        needs=frozenset({"query"}),
    ),
    "left-undecided": Plant(
        "the sink that decides leaves while an epoch is open in it",
        {"onceward.epoch.starting:Start._require_nothing_open": starts.asks_nobody_who_left},
        needs=frozenset({"sinks"}),
    ),
    "trusts-every-sink": Plant(
        "trust in the ledger silences every sink",
        {"onceward.epoch.takeover:check_marker": starts.silences_every_sink},
        needs=frozenset({"expire", "forget"}),
    ),
    "own-claim-unnoticed": Plant(
        "a claim whose answer was lost is taken for somebody else's",
        {
            "onceward.epoch.storage:claimed": starts.takes_its_own_for_theirs,
            f"{NEW_LINEAGE}._put_in_force": lineages.clears_what_it_began,
        },
        needs=frozenset({"disk-echo", "restore"}),
    ),
    "begun-plan-not-synced": Plant(
        "an epoch that is written once may lose its plan",
        {"onceward.epoch.checkpoint:Checkpoint.sync_positions": starts.plan_may_be_lost},
        needs=frozenset({"at-most-once", "power"}),
    ),
    "saved-and-dropped": Plant(
        "a checkpoint is dropped before it is saved",
        {"onceward.savepoint.retaining:_needed": starts.needs_no_savepoint},
        needs=frozenset({"not retained", "stop"}),
    ),
    "silence-is-death": Plant(
        "another machine's pins are cleared",
        {
            "onceward.holding:is_gone": starts.silence_is_death,
            "onceward.savepoint.pins:Pins.pin": starts.remembers_no_pins,
        },
        needs=frozenset({"saver", "switch"}),
    ),
    "decided-forgotten": Plant("recovery takes decided for finished", {TAKE_OVER: home.ForgetsUnfinished}),
    # Reading and writing partitions
    **{name: Plant(says, patches, of_reading=True) for name, (says, patches) in reading.BUGS.items()},
}
