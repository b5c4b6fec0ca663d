"""What the coordinator writes down about one epoch, and what has to hold before each step."""

from typing import TYPE_CHECKING

from onceward.epoch.checkpoint import Positions
from onceward.epoch.contract import EpochContext, Guarantee
from onceward.epoch.coordinator import Attempted
from onceward.epoch.ledger import DECIDED, PREPARED, Entry
from onceward.epoch.ports import Batch

if TYPE_CHECKING:
    from onceward.epoch.runner import EpochRunner


class Journal:
    """One epoch's steps: what each needs, and what it leaves in ledger and decisions."""

    def __init__(self, runner: "EpochRunner", context: EpochContext, positions: Positions, batch: Batch) -> None:
        self.runner, self.context, self.positions, self.batch = runner, context, positions, batch
        self.exactly_once = runner.taken.owner.guarantee is Guarantee.EXACTLY_ONCE
        self._syncing = runner.background.submit(self._sync)

    def open(self) -> None:
        """Every sink still holds what it must; before its first epoch Kafka gets its marker."""
        if self.exactly_once:
            self.runner.establish_marker(self.context)
            self.runner.require_all_hold()

    def ready(self) -> None:
        """The positions and every earlier epoch are durable, and no newer driver has started."""
        self.positions_synced()
        self.runner.await_record()
        self.runner.taken.term.require_current()
        self.runner.require_none_dropped(self.batch, self.context.epoch)

    def positions_synced(self) -> None:
        """What the decision is about survives a power cut."""
        try:
            self._syncing.result()
        except OSError:
            self._sync()  # once more, in this try

    def prepare(self, attempted: Attempted) -> None:
        """The votes, before Kafka is asked."""
        if self.exactly_once:
            self.runner.taken.ledger.write(self._entry(attempted, PREPARED))

    def decide(self, attempted: Attempted) -> None:
        """The ledger's decision. Afterwards once more: is this driver current? Else its successor finishes it."""
        if self.exactly_once:
            self.runner.taken.decisions.decide(self._entry(attempted, DECIDED))
            self.runner.taken.term.require_current()

    def _sync(self) -> None:
        self.runner.taken.checkpoint.sync_positions(self.context.epoch)

    def _entry(self, attempted: Attempted, phase: str) -> Entry:
        return self.runner.entries.entry(self.context, self.positions, attempted, phase)
