"""What the simulation has found in the production code, each in its smallest form."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.contract import Guarantee, Owner
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import FILE, Deed
from onceward.epoch.home import FIRST, Home
from onceward.epoch.ledger import DECIDED, DONE, Entry, Ledger, SinkEntry
from onceward.epoch.takeover import TakeOver
from onceward.epoch.term import Holder, Term, acquire, starts
from onceward.errors import HomeMismatch, PipelineFenced
from onceward.proof.simulation.campaign import quick
from onceward.proof.simulation.disk import Disk, Mount
from onceward.proof.simulation.schedule import BY_NAME, Fault, Schedule, scheduled
from onceward.proof.simulation.simulate import simulate
from onceward.proof.simulation.store import Store, StoreSink
from onceward.proof.simulation.world import World
from support.clocks import MONOTONIC


def mount(disk: Disk, step: Callable[[str, str], None] = lambda *_: None) -> Mount:
    def enter(what: str, about: str) -> str:
        step(what, about)
        return ""

    return Mount(disk, enter, step)


def home(disk: Disk, step: Callable[[str, str], None] = lambda *_: None) -> Home:
    return Home(mount(disk, step), "home", "home")


def lose_power(disk: Disk) -> None:
    """Everything unsynced goes."""

    class Worst(Random):
        def random(self) -> float:
            return 0.0

    disk.cut_power(Worst())


def holder(term: int) -> Holder:
    return Holder(term=term, pipeline="p", host="h", machine="m", pid=1, process_start="1", since="noon")


def take_term(disk: Disk) -> Term:
    return acquire(
        mount(disk), holder, is_gone=lambda _: True, clock=lambda: MONOTONIC, sleep=lambda _: None, take_over=True
    )


def taking_over(disk: Disk, sink: StoreSink, term: Term) -> TakeOver:
    """A start of a pipeline with one store, its term claimed."""
    storage = mount(disk)
    return TakeOver(
        owner=Owner(pipeline="p", lineage="L", term=term.number, guarantee=Guarantee.EXACTLY_ONCE),
        coordinator=Coordinator({"s": sink}, is_final=lambda _: True, clock=lambda: MONOTONIC, sleep=lambda _: None),
        home=home(disk),
        deed=Deed(pipeline="p", lineage="L", guarantee="exactly-once"),
        ledger=Ledger(storage, {}, "L"),
        decisions=Decisions(storage, "L", term.number),
        term=Term(storage, term.number, term.holder),
        clock=lambda: MONOTONIC,
        now=lambda: "",
    )


def test_a_first_start_beside_another_one_does_not_take_its_home_for_a_strangers() -> None:
    """It looked for the deed before the other one wrote it, and for the checkpoint afterwards."""
    disk = Disk()

    def meanwhile(what: str, about: str) -> None:
        if what == "list" and FILE not in disk.files:
            home(disk).open("p", "exactly-once", "first")
            disk.put(f"{FIRST}/offsets/0", b"v1\n{}\n{}")

    assert home(disk, meanwhile).open("p", "exactly-once", "second").lineage == "first"


def test_a_home_without_a_deed_but_with_a_checkpoint_is_still_refused() -> None:
    disk = Disk()
    disk.put(f"{FIRST}/offsets/0", b"v1\n{}\n{}")
    with pytest.raises(HomeMismatch, match="holds a Spark checkpoint"):
        home(disk).open("p", "exactly-once", "first")


def test_a_deed_that_somebody_else_wrote_survives_what_is_done_under_it() -> None:
    """Its writer was stopped between the link and the sync; then the power went."""
    disk = Disk()
    home(disk).open("p", "exactly-once", "first")
    disk.before[FILE] = None  # linked, not synced
    home(disk).open("p", "exactly-once", "second")
    lose_power(disk)
    assert home(disk).open("p", "exactly-once", "third").lineage == "first"


def test_the_querys_id_survives_a_power_cut_as_soon_as_an_epoch_can_be_decided() -> None:
    """Spark syncs neither; a start without it would refuse the home for ever."""
    disk = Disk()
    disk.put(f"{FIRST}/metadata", b"{}")
    disk.put(f"{FIRST}/offsets/0", b'v1\n{}\n{"in":{"0":1}}')
    Checkpoint.newest(home(disk)).sync_positions(0)
    lose_power(disk)
    Checkpoint.newest(home(disk)).require_intact(0)


def test_a_lost_query_id_is_harmless_while_nothing_is_out() -> None:
    disk = Disk()
    disk.put(f"{FIRST}/offsets/0", b'v1\n{}\n{"in":{"0":1}}')
    checkpoint = Checkpoint.newest(home(disk))
    checkpoint.require_intact(-1)
    with pytest.raises(HomeMismatch, match="metadata"):
        checkpoint.require_intact(0)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_kill_at_any_step_leaves_no_gap_in_the_ledger_of_kafka_alone(seed: int) -> None:
    """Between Spark's commit log and the entry that follows it, only the marker knows the epoch's counts."""
    shape = BY_NAME["kafka"]
    with quick():
        for step in range(1, shape.span):
            run = simulate(Schedule(seed, shape, (Fault(step, "kill"),)))
            assert run.violations == {}, f"killed at step {step}"


class Overtaken(StoreSink):
    """While its driver recovers, another one starts."""

    disk: Disk

    def abort(self, context: Any) -> None:
        super().abort(context)
        take_term(self.disk)


def test_a_start_that_is_overtaken_in_its_recovery_stops_there() -> None:
    """Else it would go on under a term whose ledger entries count no more."""
    disk, world = Disk(), World(Schedule(1, BY_NAME["store"]))
    sink = Overtaken(world, Store("s"))
    sink.disk = disk
    term, storage = take_term(disk), mount(disk)
    run = taking_over(disk, sink, term)
    with pytest.raises(PipelineFenced):
        run.recover()
    assert starts(storage) == []


class FinishedMeanwhile(StoreSink):
    """A paused driver wakes just after this store was asked, and finishes the epoch that was decided."""

    finish: Callable[[], None]

    def last_commit(self) -> Any:
        found = super().last_commit()
        self.finish()
        return found


def test_an_epoch_that_a_waking_driver_finishes_during_a_start_is_no_lost_marker() -> None:
    """The marker was read before the epoch was published, the ledger after it was recorded: that looked like loss."""
    disk, world, store = Disk(), World(Schedule(1, BY_NAME["store"])), Store("s")
    disk.put(f"{FIRST}/metadata", b"{}")
    disk.put(f"{FIRST}/offsets/0", b'v1\n{}\n{"in":{"0":1}}')
    storage = mount(disk)
    old, new = take_term(disk), take_term(disk)
    which = ("L", 0, old.number, 1)
    store.staged[which] = {"0.0": []}
    part = SinkEntry(committable={"version": 1, "try": list(which), "parts": ["0.0"]})
    decided = Entry(
        pipeline="p", lineage="L", term=old.number, epoch=0, phase=DECIDED, positions=['{"in":{"0":1}}'],
        sinks={"s": part},
    )  # fmt: skip
    Decisions(storage, "L", old.number).decide(decided)

    def finish() -> None:
        store.publish(which, ["0.0"], old.number)
        Ledger(storage, {}, "L").write(msgspec.structs.replace(decided, phase=DONE))

    sink = FinishedMeanwhile(world, store)
    sink.finish = finish
    run = taking_over(disk, sink, new)
    assert run.recover().recovered.committed == 0


def test_the_newest_entry_survives_though_its_writer_was_stopped_before_the_sync() -> None:
    """A start goes on from it, so it has to be there for the next one as well."""
    disk, world = Disk(), World(Schedule(1, BY_NAME["store"]))
    disk.put(f"{FIRST}/metadata", b"{}")
    disk.put(f"{FIRST}/offsets/0", b'v1\n{}\n{"in":{"0":1}}')
    term, storage = take_term(disk), mount(disk)
    store = Store("s")
    store.markers["L"] = (0, term.number)
    entry = Entry(
        pipeline="p", lineage="L", term=term.number, epoch=0, phase=DONE, positions=[], sinks={"s": SinkEntry()}
    )
    Ledger(storage, {}, "L").write(entry)
    (name,) = [file for file in disk.files if file.startswith("ledger/")]
    disk.before[name] = None  # renamed, its folder not synced
    run = taking_over(disk, StoreSink(world, store), term)
    run.recover()
    lose_power(disk)
    assert Ledger(storage, {}, "L").last() == entry


def test_a_zombie_gets_no_part_of_the_producer_id_that_its_heir_began() -> None:
    """G2: as a real broker does it (tests/kafka/test_transactor.py); here the end of an id comes after a few epochs."""
    run = simulate(scheduled(1_019_350))
    assert run.violations == {}


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        pytest.param(
            "kafka",
            [(86, "task", 56), (91, "restore", 31), (141, "kill", 41), (144, "expire", 44), (155, "kill", 57)],
            id="an epoch on record without its sinks was taken for one that wrote nothing",
        ),
        pytest.param(
            "kafka+store",
            [(141, "restore", 18), (178, "resume", 46), (183, "forget", 62)],
            id="a database set back within a restore was told as another home's",
        ),
        pytest.param(
            "kafka+store",
            [(108, "disk-after", 21), (112, "sink-after", 50), (144, "expire", 36), (149, "alter", 47)],
            id="a marker was written anew with positions that were altered since they were compared",
        ),
    ],
)
def test_what_many_schedules_have_found_stays_mended(name: str, faults: list[tuple[int, str, int]]) -> None:
    """G2."""
    for seed in (13136, 23239, 33285):
        run = simulate(Schedule(seed, BY_NAME[name], tuple(Fault(*fault) for fault in faults)))
        assert run.violations == {}
