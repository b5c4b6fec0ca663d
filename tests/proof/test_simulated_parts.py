"""The pieces of the simulated world: a disk that fails, state that is shared out anew, copies, Kafka without
transactions, a store that is set back, and clocks."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from onceward.epoch.contract import Guarantee
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.runner import EpochRunner
from onceward.proof.checkers import judge, together
from onceward.proof.history import LedgerLine, Row
from onceward.proof.simulation.campaign import quick
from onceward.proof.simulation.disk import Disk, Mount
from onceward.proof.simulation.reading import schedule as readings
from onceward.proof.simulation.reading.world import World as ReadWorld
from onceward.proof.simulation.schedule import BY_NAME, Fault, Schedule
from onceward.proof.simulation.simulate import simulate
from onceward.proof.simulation.store import Store
from onceward.proof.simulation.world import BEGAN
from onceward.savepoint.restoring import Restoring
from proof.histories import good, row

if TYPE_CHECKING:
    from onceward.proof.simulation.patching import Patches

RESTORING = "onceward.savepoint.restoring:Restoring"
CHANGES: dict[str, Callable[[Mount], object]] = {
    "replace": lambda mount: mount.replace("a/new", b"x"),
    "claim": lambda mount: mount.claim("a/new", b"x"),
    "write": lambda mount: mount.write("a/new", [b"x"]),
    "link": lambda mount: mount.link("a/old", "a/new"),
    "move": lambda mount: mount.move("a", "b"),
    "remove": lambda mount: mount.remove("a/old"),
    "clear": lambda mount: mount.clear("a"),
    "sync": lambda mount: mount.sync("a/old"),
    "settle": lambda mount: mount.settle("a"),
}


def mounted(wrong: str) -> tuple[Disk, Mount]:
    """A disk with one file that is not synced, and a way to it on which something goes wrong."""
    disk = Disk()
    disk.put("a/old", b"y")

    def enter(what: str, about: str) -> str:
        if wrong == "disk-before":
            raise OSError(f"{what} {about}")
        return wrong

    return disk, Mount(disk, enter, lambda *_: None)


def found(disk: Disk) -> tuple[dict[str, bytes], set[str]]:
    return dict(disk.files), set(disk.before)


class TestDisk:
    """Whatever changes a home may fail, without its effect or after it."""

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_change_that_fails_before_its_effect_has_none(self, change: str) -> None:
        disk, mount = mounted("disk-before")
        before = found(disk)
        with pytest.raises(OSError, match="a"):
            CHANGES[change](mount)
        assert found(disk) == before

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_change_may_fail_after_its_effect(self, change: str) -> None:
        disk, mount = mounted("disk-after")
        before = found(disk)
        with pytest.raises(OSError, match="the disk said no"):
            CHANGES[change](mount)
        assert found(disk) != before

    def test_a_folder_is_made_once_and_that_may_fail(self) -> None:
        _, mount = mounted("")
        with pytest.raises(FileExistsError):
            mount.make("a")
        mount.make("b")
        for wrong in ("disk-before", "disk-after"):
            _, mount = mounted(wrong)
            with pytest.raises(OSError, match="b"):
                mount.make("b")


class TestOtherPartitions:
    """A restore with another number of partitions uses an epoch up, whose state is the one before."""

    @pytest.mark.parametrize("name", BY_NAME)
    def test_what_follows_is_exact_under_kills_too(self, name: str) -> None:
        """E5: one is restored at 100 and killed in what follows, another one is restored in its turn."""
        rewritten = 0
        for step in range(100, 130, 6):
            story: list[str] = []
            faults = (Fault(step, "restore", 36), Fault(step + 60, "kill"), Fault(step + 170, "restore", 36))
            with quick():
                run = simulate(Schedule(5, BY_NAME[name], faults), story=story)
            assert run.violations == {}
            rewritten += any("rewriting the state" in line for line in story)
        assert rewritten

    def test_a_partition_that_is_forgotten_is_noticed(self) -> None:
        def forgets(self: Restoring, room: Any, *others: Any) -> int:
            epoch = lay_out(self, room, *others)
            for name in room.storage.walk("checkpoints/000000/state/0/1"):
                room.storage.replace(f"checkpoints/000000/state/0/1/{name}", b"{}")
            return epoch

        lay_out = Restoring.lay_out
        patches: Patches = {f"{RESTORING}.lay_out": forgets}
        broken: set[str] = set()
        for step in range(70, 110, 4):
            with quick():
                broken |= simulate(
                    Schedule(5, BY_NAME["store"], (Fault(step, "restore", 36),)), patches
                ).violations.keys()
        assert "state" in broken


class TestCopies:
    """A savepoint restored under another name in a home of its own, while the original goes on."""

    @pytest.mark.parametrize("name", BY_NAME)
    def test_both_are_exact(self, name: str) -> None:
        copies = 0
        for argument in (4, 5, 6, 7, 21, 38, 55):
            story: list[str] = []
            with quick():
                run = simulate(Schedule(5, BY_NAME[name], (Fault(130, "copy", argument),)), story=story)
            assert run.violations == {}
            copies += any("is a copy from epoch" in line for line in story)
        assert copies == 7

    def test_what_a_copy_breaks_is_told_as_its_own(self) -> None:
        patches: Patches = {f"{RESTORING}._record": lambda *_: None}  # its ledger does not say where it begins
        with quick():
            run = simulate(Schedule(5, BY_NAME["2 stores"], (Fault(130, "copy", 4),)), patches)
        assert run.violations
        assert all(line.startswith("copy copy-1: ") for lines in run.violations.values() for line in lines)

    def test_violations_of_both_are_told(self) -> None:
        assert together({"a": ["1"]}, {"a": ["2"], "b": ["3"]}) == {"a": ["1", "2"], "b": ["3"]}


class TestWeakerGuarantees:
    """The idempotent producer over the simulated brokers."""

    @pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE])
    @pytest.mark.parametrize("name", ["kafka", "kafka+store"])
    def test_what_they_promise_is_kept(self, guarantee: Guarantee, name: str) -> None:
        """A3, A4: under kills, lost answers and late requests."""
        rows = 0
        for step in range(50, 130, 4):
            faults = (Fault(step - 30, "lose-answer"), Fault(step - 5, "delay", 12), Fault(step, "kill"))
            with quick():
                run = simulate(Schedule(5, BY_NAME[name], faults, guarantee=guarantee))
            assert run.violations == {}
            rows += sum(len(found) for found in run.history.sinks["kafka"].values())
        assert rows

    def test_who_writes_again_what_is_written_once_is_caught(self) -> None:
        patches: Patches = {"onceward.epoch.runner:EpochRunner._run_at_most_once": EpochRunner._run_once}
        broken: set[str] = set()
        for step in range(50, 120, 3):
            schedule = Schedule(5, BY_NAME["kafka"], (Fault(step, "kill"),), guarantee=Guarantee.AT_MOST_ONCE)
            with quick():
                broken |= simulate(schedule, patches).violations.keys()
        assert "no-duplicate" in broken

    def test_a_row_of_who_did_not_know_yet_that_one_is_skipped_is_no_wrong_one(self) -> None:
        """At-least-once: it counts one more than those that follow; not two more, and not under exactly-once."""
        history = replace(
            good(),
            guarantee=Guarantee.AT_LEAST_ONCE,
            ledger=(LedgerLine(0, 1, "done", {}, {}, frozenset({(("in", 0), 0)})),),
            state={0: 1, 1: 2},
        )
        both = [row(3, number, epoch=1, term=2) for number in (1, 2)]
        assert judge(replace(history, sinks={"s": {("s", 0): (*both, *_rest())}})) == {}
        third = row(3, 3, epoch=1, term=2)
        assert set(judge(replace(history, sinks={"s": {("s", 0): (*both, third, *_rest())}}))) == {"state"}


def _rest() -> list[Row]:
    return [row(2, 1, key=1), row(4, 2, key=1, epoch=1, term=2)]


def test_a_store_that_is_set_back_loses_its_newest_commit_however_epochs_are_counted() -> None:
    """After a reset a sink counts anew, and rows are told apart by all epochs together."""
    store = Store("s")
    for epoch, term in ((0, 1), (1, 1)):
        store.staged["L", epoch, term, 1] = {"0": [row(epoch, epoch=epoch + 5)]}
        assert store.publish(("L", epoch, term, 1), ["0"], term)
    first, second = store.rows
    restores = [store.forget(), store.forget()]
    assert (store.rows, store.committed("L")) == ([], -1)
    for restore in reversed(restores):
        assert restore is not None
        restore()
    assert (store.rows, store.committed("L")) == ([first, second], 1)


def test_no_simulated_clock_begins_at_zero() -> None:
    """Code may take zero for "not yet"; and who has waited for nothing has not waited since then."""
    world = ReadWorld.of(readings.scheduled(1), None)
    assert world.net.clock() == BEGAN > 0
    excuses = world.excuses(TopicPartition("in", 0), 0, 0, takes_old=True, patience_s=1.0)
    assert (excuses.silent_s, excuses.throttled_s) == (0.0, 0.0)
