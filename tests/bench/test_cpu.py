"""CPU time from a recorded /proc."""

import os
from pathlib import Path

import pytest

from bench.cpu import TICKS, Snapshot, used

# pid -> (name, parent, ticks of its own, ticks of children that were waited for)
Table = dict[int, tuple[str, int, int, int]]
HARNESS, JOB, JVM, DAEMON, WORKER, BROKER, STRANGER, KERNEL, WRITER = 100, 200, 201, 202, 203, 300, 900, 2, 50
BEFORE: Table = {
    HARNESS: ("python", 1, 100, 0),
    JOB: ("python", HARNESS, 50, 0),
    JVM: ("java", JOB, 1000, 10),
    DAEMON: ("python3 (daemon)", JVM, 5, 0),
    WORKER: ("python", DAEMON, 200, 0),
    BROKER: ("java", HARNESS, 500, 0),
    STRANGER: ("chrome", 1, 7000, 0),
    KERNEL: ("kthreadd", 0, 0, 0),
    WRITER: ("kworker/u4:1", KERNEL, 10, 0),
}


def recorded(folder: Path, table: Table, busy: int, steal: int = 0) -> Path:
    folder.mkdir()
    (folder / "stat").write_text(f"cpu  {busy} 0 0 99999 77 0 0 {steal} 0 0\ncpu0 1 0\ncpu1 1 0\nintr 1\n")
    (folder / "uptime").write_text("1 1")
    for pid, (name, parent, own, waited) in table.items():
        (folder / str(pid)).mkdir()
        fields = ["S", str(parent), *["0"] * 9, str(own), "0", str(waited), "0", *["0"] * 10]
        (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    return folder


def test_cpu_is_told_apart_by_process(tmp_path: Path) -> None:
    after = {
        **BEFORE,
        JVM: ("java", JOB, 1400, 10),
        WORKER: ("python", DAEMON, 300, 0),
        BROKER: ("java", HARNESS, 650, 0),
    }
    first = Snapshot.take(0.0, recorded(tmp_path / "a", BEFORE, busy=10_000))
    second = Snapshot.take(5.0, recorded(tmp_path / "b", after, busy=10_650))
    usage = used(first, second, ours=HARNESS, parts={"job": JOB, "broker": BROKER})
    assert usage.cpu == {"jvm": pytest.approx(400 / TICKS), "python": pytest.approx(100 / TICKS), "broker": 150 / TICKS}
    assert usage.seconds == 5.0
    assert usage.others == pytest.approx(0.0)


def test_a_worker_that_has_ended_is_counted_once(tmp_path: Path) -> None:
    """Its parent waited for it: what it used in all is the parent's now, also what it had used before."""
    after = {pid: it for pid, it in BEFORE.items() if pid != WORKER}
    after[DAEMON] = ("python3 (daemon)", JVM, 5, 260)
    first = Snapshot.take(0.0, recorded(tmp_path / "a", BEFORE, busy=10_000))
    second = Snapshot.take(5.0, recorded(tmp_path / "b", after, busy=10_060))
    usage = used(first, second, ours=HARNESS, parts={"job": JOB})
    assert usage.cpu["python"] == pytest.approx(60 / TICKS)
    assert usage.others == pytest.approx(0.0)


def test_a_daemon_that_has_ended_with_its_workers_is_not_the_jvms(tmp_path: Path) -> None:
    """The JVM waited for them: what they used meanwhile is Python's, and what they had used before is nobody's news."""
    after = {pid: it for pid, it in BEFORE.items() if pid not in (WORKER, DAEMON)}
    after[JVM] = ("java", JOB, 1040, 10 + 5 + 200 + 70)
    first = Snapshot.take(0.0, recorded(tmp_path / "a", BEFORE, busy=10_000))
    second = Snapshot.take(5.0, recorded(tmp_path / "b", after, busy=10_110))
    usage = used(first, second, ours=HARNESS, parts={"job": JOB})
    assert usage.cpu == {"jvm": pytest.approx(40 / TICKS), "python": pytest.approx(70 / TICKS)}
    assert usage.others == pytest.approx(0.0)


def test_what_others_took_is_a_share_of_the_machine(tmp_path: Path) -> None:
    """The stranger and the host's other guests count; the kernel's own threads do not, they write our pages."""
    after = {**BEFORE, STRANGER: ("chrome", 1, 7300, 0), WRITER: ("kworker/u4:1", KERNEL, 60, 0)}
    first = Snapshot.take(0.0, recorded(tmp_path / "a", BEFORE, busy=10_000))
    second = Snapshot.take(5.0, recorded(tmp_path / "b", after, busy=10_350, steal=100))
    usage = used(first, second, ours=HARNESS, parts={})
    assert usage.others == pytest.approx((300 + 100) / TICKS / (5.0 * 2))


def test_this_process_is_seen_in_the_real_proc() -> None:
    now = Snapshot.take(0.0)
    assert os.getpid() in now.family(os.getppid())
    assert now.cores == os.cpu_count()
