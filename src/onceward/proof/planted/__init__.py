"""Bugs on purpose: each shows that some checker can fail. They replace pieces of a simulated driver, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onceward.epoch.decisions import Decisions
from onceward.proof.planted import home, kafka, resets, savepoints, sinks
from onceward.proof.simulation.driver import Parts
from onceward.proof.simulation.schedule import Shape


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: what it does wrong, and the pieces that do it."""

    says: str
    parts: Parts

    def shows_in(self, shape: Shape) -> bool:
        """Whether a kind of pipeline uses what is broken at all."""
        parts = self.parts
        if (parts.kafka_sink or parts.transactor or parts.broker) and not shape.kafka:
            return False
        if (parts.store or parts.store_sink) and not shape.stores:
            return False
        return parts.decisions is Decisions or not shape.kafka


PLANTS: Final[Mapping[str, Plant]] = {
    # Kafka's transaction
    "commit-before-acknowledged": Plant("commits before all acknowledgements", Parts(kafka_sink=kafka.DoesNotWait)),
    "no-fencing": Plant("a start does not fence", Parts(kafka_sink=kafka.DoesNotFence)),
    "marker-before-fencing": Plant("reads the marker, then fences", Parts(kafka_sink=kafka.ReadsBeforeFencing)),
    "epoch-reused": Plant(
        "an aborted try's producer epoch is used again", Parts(kafka_sink=kafka.ReusesTheEpoch, broker=kafka.EpochStays)
    ),
    "retry-in-transaction": Plant(
        "a task is repeated inside the transaction", Parts(kafka_sink=kafka.RetriesInTheTransaction)
    ),
    "marker-after-end": Plant("the marker follows EndTxn", Parts(transactor=kafka.MarksAfterwards)),
    "abort-after-unknown": Plant(
        "a commit without an answer is aborted and redone", Parts(kafka_sink=kafka.AbortsTheUnknownCommit)
    ),
    "identity-computed": Plant("adds one instead of reading the answer", Parts(transactor=kafka.ComputesTheIdentity)),
    "timeout-taken-for-commit": Plant(
        "a lost transaction is taken for committed", Parts(transactor=kafka.TakesTheTimeoutForCommitted)
    ),
    "marker-without-term": Plant("the marker does not say whose votes count", Parts(transactor=kafka.MarksWithoutTerm)),
    # Where the output stands, which snapshots across pipelines are cut by
    "boundaries-forgotten": Plant(
        "what an epoch does not write stands where it stood at the start", Parts(kafka_sink=kafka.BoundariesForgotten)
    ),
    "boundaries-from-nothing": Plant(
        "a start does not ask where topics end", Parts(kafka_sink=kafka.BoundariesFromNothing)
    ),
    "boundaries-of-first-try": Plant(
        "a redone epoch keeps the places of its first try", Parts(kafka_sink=kafka.BoundariesOfTheFirstTry)
    ),
    # Two-phase commit and staging
    "dedup-without-lineage": Plant("an epoch's number alone identifies work", Parts(store=sinks.AnyLineage)),
    "published-before-decision": Plant("the vote makes rows visible", Parts(store_sink=sinks.PublishesEarly)),
    "marker-apart": Plant("rows and marker in two transactions", Parts(store_sink=sinks.MarkerApart)),
    "clean-up-in-doubt": Plant("a start deletes what is in doubt", Parts(store_sink=sinks.CleansUpAtTheStart)),
    "zombie-abort": Plant("a zombie's abort deletes newer staging", Parts(store_sink=sinks.AbortsAnyTerm)),
    "commit-not-idempotent": Plant("a second commit adds again", Parts(store_sink=sinks.CommitsAgain)),
    "zombie-task-counts": Plant("what no report names is published too", Parts(store=sinks.CountsStrangers)),
    "votes-after-decision": Plant("decides, then asks for votes", Parts(coordinator=sinks.VotesAfterTheDecision)),
    "commit-forgotten": Plant("a failed commit is logged and forgotten", Parts(coordinator=sinks.LogsAndGoesOn)),
    "abort-ignored": Plant("the decider's no is not heard", Parts(coordinator=sinks.TakesAbortedForCommitted)),
    "abort-after-error": Plant("an error of the decision is a no", Parts(coordinator=sinks.AbortsTheUnknown)),
    # Home: ledger, decisions, terms, recovery
    "ledger-not-synced": Plant("ledger and decisions may not survive", Parts(mount=home.UnsyncedMount)),
    "positions-not-synced": Plant("the offset log may not survive", Parts(journal=home.PositionsNotSynced)),
    "skip-on-replay": Plant("a replay does not run the state", Parts(runner=home.SkipsReplay)),
    "slot-left-open": Plant("a start closes no slot", Parts(decisions=home.ClosesNothing)),
    "slot-looked-at-twice": Plant("a start overlooks a decision", Parts(decisions=home.LooksTwice)),
    "slot-refusal-ignored": Plant(
        "decides though the slot is taken", Parts(decisions=home.IgnoresTheRefusal, term=home.NeverFenced)
    ),
    "term-not-checked": Plant(
        "an older term is refused nowhere", Parts(decisions=home.AnyTermCloses, term=home.NeverFenced)
    ),
    "old-term-believed": Plant("an older term's votes are believed", Parts(ledger=home.BelievesOldTerms)),
    "prepared-not-written": Plant("votes are not durable before EndTxn", Parts(journal=home.NothingPrepared)),
    "predecessor-not-recorded": Plant("epochs overtake their entries", Parts(journal=home.PredecessorNotRecorded)),
    "decided-redone": Plant("recovery redoes a decided epoch", Parts(take_over=home.RedoesDecided)),
    "checkpoint-shared": Plant(
        "an overtaken driver writes where its successor reads", Parts(take_over=home.SharesTheCheckpoint)
    ),
    "log-believed": Plant("altered positions in the engine's log are believed", Parts(take_over=home.BelievesTheLog)),
    "marker-gone-means-never": Plant("a lost marker is taken for none", Parts(take_over=home.MissingMeansNever)),
    "decider-by-name": Plant("a sink named ledger is taken for the ledger", Parts(take_over=home.DeciderByName)),
    "forgetting-unnoticed": Plant(
        "a database that was set back goes on",
        Parts(journal=home.ForgettingUnnoticed, store_sink=sinks.ComparesNothing),
    ),
    "set-back-before-commit": Plant(
        "a database that is set back within an epoch goes on", Parts(store_sink=sinks.ComparesNothing)
    ),
    # Savepoints and lineages
    "savepoint-unjudged": Plant("an old savepoint is restored as if it were new", Parts(restoring=savepoints.Unjudged)),
    "restore-not-fenced": Plant("a restore leaves sinks to whoever is paused", Parts(restoring=savepoints.NotFenced)),
    "doubt-thrown-away": Plant(
        "a restore forgets an epoch that is decided", Parts(restoring=savepoints.DoubtThrownAway)
    ),
    "lineage-begun-early": Plant("a lineage counts before its state is there", Parts(restoring=savepoints.BegunEarly)),
    "lineage-not-synced": Plant("a restored state may not survive", Parts(mount=savepoints.UnsyncedLineage)),
    "lineage-slot-open": Plant("an overtaken restore begins its lineage", Parts(enter=savepoints.leaves_slots_open)),
    "marks-of-old-lineages": Plant(
        "an older lineage's marker is taken for ours", Parts(take_over=savepoints.MarksOfAllLineages)
    ),
    # Resets
    "reset-not-fenced": Plant("a reset leaves sinks to whoever is paused", Parts(resetting=resets.NotFenced)),
    "reset-over-doubt": Plant("a reset forgets an epoch that is decided", Parts(resetting=resets.DoubtThrownAway)),
    "reset-begun-early": Plant("a lineage counts before its positions are noted", Parts(resetting=resets.BegunEarly)),
    "reset-of-what-lacks": Plant(
        "a reset goes on after epochs that a store has lost", Parts(resetting=resets.LacksUnnoticed)
    ),
    "reset-marked-by-another": Plant(
        "the marker from before a reset is taken for ours", Parts(take_over=resets.OldMarkerTakenForOurs)
    ),
    "decided-forgotten": Plant("recovery takes decided for finished", Parts(take_over=home.ForgetsUnfinished)),
}
