"""Planted bugs of resets. None of this is on the shipped path."""

from collections.abc import Mapping

from onceward.epoch import deeds, new_lineage
from onceward.epoch.contract import LastCommit, Owner
from onceward.epoch.deeds import Deed
from onceward.epoch.resetting import Resetting
from onceward.epoch.takeover import TakeOver
from onceward.epoch.term import Term


class NotFenced(Resetting):
    """The sinks are looked at and not taken over: who was paused may still commit what the new lineage reads again."""

    def _fence(self, owner: Owner, found: Mapping[str, LastCommit | None]) -> None:
        pass


class DoubtThrownAway(Resetting):
    """An epoch that is decided and not everywhere is forgotten with its lineage."""

    def _require_none_in_doubt(self, old: Deed, owner: Owner) -> None:
        pass


class BegunEarly(Resetting):
    """The new lineage is in force before it is noted where it begins."""

    def _begin(self, term: Term) -> Deed:
        old, lineage = self.home.deed(), self.fresh()
        owner = Owner(pipeline=self.pipeline, lineage=lineage, term=term.number, guarantee=self.guarantee)
        found = self._judge(old, owner)
        deed = Deed(
            format=deeds.FORMAT,
            pipeline=self.pipeline,
            lineage=lineage,
            guarantee=self.guarantee.value,
            folder=new_lineage.folder_of(lineage, term.number),
            origin=self._origin(old, term, {name: (it.lineage, it.epoch) for name, it in found.items() if it}),
        )
        begins = self._begins(old, found)
        deeds.begin(self.home.storage, term.number, deed)
        self._lay_out(self.home.of_lineage(deed), begins)
        return deed


class LacksUnnoticed(Resetting):
    """A store that has forgotten epochs is gone on with: they stay missing."""

    def _require_all_hold(self, *_: object) -> None:
        pass


class OldMarkerTakenForOurs(TakeOver):
    """What the deciding sink holds of the lineage before a reset is noted as a marker of the new one."""

    def _is_marked(self, markers: Mapping[str, LastCommit | None]) -> bool:
        decider = self.coordinator.decider
        return decider is not None and markers[decider] is not None
