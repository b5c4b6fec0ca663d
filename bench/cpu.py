"""CPU time from /proc: of whole families of processes, by what they are, and of everybody else meanwhile.

A family's time is what its living members used, and what those used that have ended and were waited for; so nothing is
lost when a Python worker ends in the middle. Neighbours on the same host (steal) count as others. The kernel's own
threads do not: they write our pages to disk.
"""

import ctypes
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
KERNEL = 2  # the parent of the kernel's threads
# user nice system idle iowait irq softirq steal guest guest_nice; guest is in user already
NOT_BUSY = (3, 4, 8, 9)


PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Descendants whose parent has ended become children of this process: what they used stays in the family.

    PyFlink's Python workers are left behind by each job, and a killed driver leaves its JVM.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    name: str  # as the kernel knows it: 15 characters
    own: float  # CPU seconds
    waited: float = 0.0  # of children that have ended

    @property
    def seconds(self) -> float:
        return self.own + self.waited

    @property
    def kind(self) -> str:
        return "jvm" if self.name == "java" else "python"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All processes at one moment."""

    at: float  # seconds of any clock
    busy: float  # CPU seconds since boot, of all cores together
    cores: int
    processes: Mapping[int, Process] = field(default_factory=dict)

    @classmethod
    def take(cls, at: float, proc: Path = PROC) -> "Snapshot":
        lines = (proc / "stat").read_text().splitlines()
        ticks = [int(it) for it in lines[0].split()[1:]]
        busy = sum(value for index, value in enumerate(ticks) if index not in NOT_BUSY)
        cores = sum(line.startswith("cpu") for line in lines) - 1
        found = {int(it.name): read for it in proc.iterdir() if it.name.isdigit() and (read := _process(it))}
        return cls(at, busy / TICKS, cores, found)

    def family(self, root: int) -> set[int]:
        """A process and all its descendants."""
        children: dict[int, list[int]] = {}
        for pid, process in self.processes.items():
            children.setdefault(process.parent, []).append(pid)
        found, todo = set[int](), [root] if root in self.processes else []
        while todo:
            pid = todo.pop()
            if pid not in found:
                found.add(pid)
                todo += children.get(pid, [])
        return found

    def seconds(self, pids: set[int]) -> float:
        return sum(self.processes[pid].seconds for pid in pids)


def _process(folder: Path) -> Process | None:
    try:
        stat = (folder / "stat").read_text()
    except OSError:  # it has ended
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    own, waited = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return Process(int(fields[1]), name, own / TICKS, waited / TICKS)


@dataclass(frozen=True, slots=True)
class Usage:
    """What happened between two snapshots."""

    seconds: float
    cpu: Mapping[str, float]  # CPU seconds: jvm, python, broker, ...
    others: float  # share of the machine that was taken by processes that are not ours


def used(before: Snapshot, after: Snapshot, *, ours: int, parts: Mapping[str, int]) -> Usage:
    """`ours`: the root of everything that belongs to the measurement. `parts`: roots by name; "job" is told apart."""
    seconds = max(after.at - before.at, 1e-9)
    mine = _spent(before, after, ours) + _spent(before, after, KERNEL)
    others = max(0.0, after.busy - before.busy - mine) / (seconds * after.cores)
    cpu: dict[str, float] = {}
    for part, root in parts.items():
        for name, spent in _by_kind(before, after, root).items():
            kind = name if part == "job" else part
            cpu[kind] = cpu.get(kind, 0.0) + spent
    return Usage(seconds, cpu, others)


def _spent(before: Snapshot, after: Snapshot, root: int) -> float:
    """Of processes that were in the family at both moments, or came since; one of before that is gone has been added
    to its parent's time, and so has what it had used before."""
    return after.seconds(after.family(root)) - before.seconds(before.family(root))


def _by_kind(before: Snapshot, after: Snapshot, root: int) -> dict[str, float]:
    """The job's JVM and its Pythons. What a process had used when it was last seen is no news of who waited for it."""
    old, new = before.family(root), after.family(root)
    heirs: dict[int, list[Process]] = {}
    for pid in old - new:
        heir = before.processes[pid].parent
        while heir not in new and heir in before.processes:
            heir = before.processes[heir].parent
        heirs.setdefault(heir, []).append(before.processes[pid])
    found: dict[str, float] = {}
    for pid in new:
        now, then = after.processes[pid], before.processes.get(pid, Process(0, "", 0.0))
        gone = heirs.get(pid, [])
        waited = now.waited - then.waited - sum(it.seconds for it in gone)
        whose = "python" if any(it.kind == "python" for it in gone) else now.kind
        for kind, spent in ((now.kind, now.own - then.own), (whose, waited)):
            found[kind] = found.get(kind, 0.0) + max(0.0, spent)
    return found


def resident_mb(pid: int, proc: Path = PROC) -> float:
    """Memory of one process that is in RAM."""
    for line in (proc / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
