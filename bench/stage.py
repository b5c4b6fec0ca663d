"""What a benchmark runs on: a broker, topics, systems in processes of their own, rounds, and a report."""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import peers
from bench.broker import PARTITIONS, Topics
from bench.content import KEY_BYTES, Verdict
from bench.machine import circumstances
from bench.report import Report
from bench.rounds import Outcome, Rounds, Subject
from bench.workers import Worker, WorkerFailed
from onceward.servers.broker import DevBroker

Say = Callable[[str], None]
WARM_UP = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked for; None: what the benchmark does by itself."""

    rounds: int | None = None
    records: int | None = None
    seconds: int | None = None
    systems: tuple[str, ...] = ()
    epoch_records: int | None = None  # 0: everything in one epoch
    short: bool = False  # within the ten minutes of `make bench`
    repeats: int = 2


class Stage:
    """One benchmark's surroundings."""

    def __init__(self, options: Options, report: Report, broker: DevBroker, folder: Path, say: Say) -> None:
        self.options, self.report, self.broker, self.folder, self.say = options, report, broker, folder, say
        self.topics = Topics(broker.bootstrap)
        self.rounds = Rounds(say, repeats=options.repeats)
        self._workers: dict[str, Worker] = {}
        report.samples = self.rounds.samples

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def chosen(self, systems: Sequence[str], *, short: Sequence[str] | None = None) -> list[str]:
        """Those that were asked for, or those of the benchmark; peers that are not there are left out, and told."""
        wanted = list(self.options.systems or (short if self.options.short and short is not None else systems))
        missing = [it for it in wanted if it.startswith("pyflink")] if peers.installed() is None else []
        if missing:
            self.note(f"{', '.join(missing)} left out: PyFlink is not installed (python -m bench.peers install)")
        return [it for it in wanted if it not in missing]

    def note(self, text: str) -> None:
        if text not in self.report.notes:
            self.say(text)
            self.report.notes.append(text)

    def worker(self, system: str) -> Worker:
        """One process for each system, started when it is first asked for."""
        if system not in self._workers:
            self.say(f"starting {system}")
            self._workers[system] = Worker(system, self.bootstrap, self.folder)
        return self._workers[system]

    def forget(self, system: str) -> None:
        """The next one is a new process."""
        self._workers.pop(system).close()

    def parts(self, system: str) -> dict[str, int]:
        """Roots of the processes whose CPU time is told."""
        broker = self.broker.pid()
        assert broker is not None
        return {"job": self.worker(system).pid, "broker": broker}

    def copy(
        self, system: str, source: str, records: int, size: int, *, partitions: int = PARTITIONS, **asked: object
    ) -> Outcome:
        """Copy a whole topic, and be judged."""
        target = self.topics.new(partitions)
        answer = self.worker(system).ask("drain", source=source, target=target, **asked)
        verdict = Verdict(
            records, size - KEY_BYTES, keyed=asked.get("function") != "datastream", upper=bool(asked.get("function"))
        )
        metrics = {"records/s": records / answer["seconds"]}
        for name, times in {"epoch ms": answer["epochs_ms"], "commit ms": answer["commits_ms"]}.items():
            if times:
                metrics[name] = statistics.median(times)
        return Outcome(metrics, records, check=lambda: self.topics.judged(target, verdict, partitions))

    def subject(
        self, name: str, system: str, run: Callable[[], Outcome], ready: Callable[[], object] = lambda: None
    ) -> Subject:
        return Subject(name, run, lambda: self.parts(system), ready)

    def able(self, systems: Sequence[str], warm: Callable[[str], object], *, said: str = "") -> list[str]:
        """The systems that come through a warm-up; one that does not is left out, and told."""
        found = []
        for system in systems:
            try:
                for _ in range(1 if self.options.short else WARM_UP):
                    warm(system)
            except WorkerFailed as failed:
                self.note(f"{said or system} left out: {str(failed)[:300]}")
                if system in self._workers:
                    self.forget(system)
            else:
                found.append(system)
        return found

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self.topics.wire.close()


@contextmanager
def staged(identifier: str, title: str, options: Options, say: Say) -> Iterator[Stage]:
    """A broker of its own, below a temporary folder; everything ends with it."""
    report = Report(identifier, title, circumstances=circumstances(), settings={"partitions": PARTITIONS})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onceward-bench-")))
        say(f"{identifier}: starting a broker")
        broker = stack.enter_context(DevBroker(folder / "kafka", port=0))
        stage = Stage(options, report, broker, folder, say)
        stack.callback(stage.close)
        yield stage
