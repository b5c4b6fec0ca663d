"""Those who forget and those who lie, and the person who puts it right once a driver has named it.

The run goes on afterwards and is judged like any other: what a message says to do must lead to an exact result.
"""

from typing import TYPE_CHECKING

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.recovery import Consent
from onceward.kafka import marker as markers

if TYPE_CHECKING:
    from collections.abc import Callable

    from onceward.proof.simulation.simulate import Simulation


class Damages:
    """What was damaged in one run and not put right yet."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._restores: list[Callable[[], None]] = []
        self._alterations: list[Callable[[], None]] = []
        self._marker = False
        self.forgot: tuple[str, int] | None = None  # the sink and its epoch, by the last one done

    def do(self, kind: str) -> str:
        """Damage something, if there is anything to damage; what, in words."""
        self.forgot = None
        return {"forget": self._forget, "expire": self._expire, "stranger": self._stranger, "alter": self._alter}[
            kind
        ]()

    def repair(self) -> Consent | None:
        """As the messages advise: restore what was lost or altered; of a marker that is gone, say what readers see."""
        for restore in reversed(self._restores):
            restore()
        self._restores.clear()
        self.restore_logs()
        if not self._marker:
            self._simulation.world.people.unrepaired = False
            return None
        in_doubt = "committed" if self._newest_is_visible() else "aborted"
        return Consent(trust_ledger=frozenset({"kafka"}), in_doubt=in_doubt)  # type: ignore[arg-type] # one of the two

    def restore_logs(self) -> None:
        """Of old epochs nobody reads the log any more but the judge."""
        for restore in reversed(self._alterations):
            restore()
        self._alterations.clear()

    def over(self) -> bool:
        """Whether there is nothing any more that would make a look from outside worthless."""
        broker = self._simulation.broker
        held = broker.groups.get(self._simulation.pipeline) if broker is not None else None
        texts = [text for _, text in held.committed.values()] if held is not None else []
        if self._marker and markers.newest(texts) is None:
            return False
        self._marker = False
        self._simulation.world.people.unrepaired = bool(self._restores or self._alterations)
        return not self._restores

    def _forget(self) -> str:
        for store in self._simulation.stores.values():
            newest, restore = store.newest(), store.forget()
            if restore is not None and newest is not None:
                self.forgot = store.name, newest[1] + self._simulation.shift(newest[0])
                self._restores.append(restore)
                return f"{store.name} is set back: its newest commit is gone"
        return ""

    def _expire(self) -> str:
        return self._lose_marker("the group's offsets expire", overwritten=False)

    def _stranger(self) -> str:
        return self._lose_marker("another consumer commits to the group", overwritten=True)

    def _lose_marker(self, says: str, *, overwritten: bool) -> str:
        broker = self._simulation.broker
        if broker is None or not broker.expire(self._simulation.pipeline, overwritten=overwritten):
            return ""
        self._marker = True
        return says

    def _alter(self) -> str:
        """The positions of the newest finished epoch, in the log of the newest driver."""
        disk = self._simulation.world.disk
        checkpoint = self._checkpoint()
        epoch = checkpoint.last_finished()
        name = f"{checkpoint.folder}/offsets/{epoch}"
        if epoch is None or (was := disk.files.get(name)) is None:
            return ""
        altered = was.replace(b'"0": 1', b'"0": 0').replace(b'"0": 2', b'"0": 1')
        if altered == was:
            altered = was.replace(b'"0": ', b'"0": 1')
        disk.files[name] = altered

        def restore() -> None:
            """Wherever it is by now: starts rename the folder, and a restore leaves it to the old lineage."""
            for moved in [name for name, data in disk.files.items() if data == altered]:
                if moved.endswith(f"/offsets/{epoch}") and not moved.startswith("savepoints/"):
                    disk.put(moved, was)

        self._alterations.append(restore)
        return f"positions of epoch {epoch} are altered in the engine's log"

    def _checkpoint(self) -> Checkpoint:
        return self._simulation.lineages().checkpoint

    def _newest_is_visible(self) -> bool:
        """Whether readers find rows of the epoch that was planned last: what a person would look for."""
        lineages = self._simulation.lineages()
        broker, planned = self._simulation.broker, lineages.checkpoint.planned()
        assert broker is not None
        return planned is not None and any(
            row.epoch == planned + lineages.in_force
            for log in broker.logs.values()
            for batch in log.visible()
            for row in batch.rows
        )
