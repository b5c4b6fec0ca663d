"""Whether every executor can run Onceward's tasks: asked by a tiny job before anything is read or written.

Small epochs run without Python workers. Without this check a machine that lacks the interpreter or a package would be
found by the first large epoch, perhaps at night.
"""

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext, cloudpickle
from pyspark.serializers import NoOpSerializer

from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.epoch.home import MEMORY, parse_home
from onceward.errors import WorkerUnusable
from onceward.pipeline import interpreter, worker_look
from onceward.sinks.parcel import is_local, is_local_cluster

NO_MODULE: Final = "No module named"
DEADLINE_S: Final = 300.0  # machines of a cluster that grows take minutes to come
TOLD_AFTER_S: Final = 5.0
SETTLED_S: Final = 2.0  # executors of one application come one after the other
POLL_S: Final = 0.05
DRIVER: Final = "driver"
# What every large epoch needs of Onceward; a sink's own module is asked for besides.
MODULES: Final = ("onceward.sinks.rows", "onceward.sinks.kafka.tasks")
WAYS_OUT: Final = (
    "Install onceward and what your sinks need for that interpreter on these hosts; or name one that has them: "
    f"{interpreter.SETTING}, or {interpreter.VARIABLE}; or ship the environment with the job: spark.archives "
    "(docs/deploy/standalone.md). A home that holds state must be in HDFS, or on a mount that all machines share."
)


class Question(NamedTuple):
    """What an executor is asked: can it import these, does it see this file?"""

    modules: tuple[str, ...]
    probe: str | None = None


_usable: set[tuple[str, str, Question]] = set()  # application, executor, and what it could do


@dataclass(frozen=True, slots=True, order=True)
class Executor:
    """A process of Spark's that runs tasks."""

    id: str
    host: str = field(compare=False)  # which tasks and the list of executors may write differently

    @property
    def location(self) -> list[str]:
        """As Spark writes a preferred place of a task."""
        return [f"executor_{self.host}_{self.id}"]


def require_workers(
    context: SparkContext,
    sinks: Iterable[TwoPhaseCommitSink],
    state: str | Path | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Raise `WorkerUnusable` with the hosts and what each lacks. Tasks under the driver's own Python need no asking.

    state: the home in which executors will keep the query's state, if it has any: all machines must share a path.
    """
    if is_local(context.master or "") and interpreter.is_the_drivers(context.pythonExec):
        return
    own = {type(sink).__module__ for sink in sinks}
    wanted = (*MODULES, *sorted(it for it in own if it.startswith("onceward.")))
    with _probe(state) as probe, _told(report, "waiting for Spark's executors to answer"):
        _ask_all(context, Question(wanted, probe))


def _ask_all(context: SparkContext, question: Question) -> None:
    deadline = time.monotonic() + DEADLINE_S
    asked: set[Executor] = set()
    while (fresh := _newcomers(context, asked, question, deadline)) or not asked:
        reports = _ask(context, sorted(fresh), question, deadline)
        wrong = {executor: said for executor, said in reports.items() if said and executor in _living(context)}
        if wrong:
            raise WorkerUnusable(_explained(wrong, len(_living(context)), context.pythonExec))
        asked |= {*reports, *fresh}
        _usable.update((str(context.applicationId), executor.id, question) for executor in reports)


def _newcomers(context: SparkContext, asked: set[Executor], question: Question, deadline: float) -> set[Executor]:
    """Who has not answered yet; the first time whoever is there, perhaps nobody, later whoever comes soon after."""
    application = str(context.applicationId)
    until = min(time.monotonic() + (SETTLED_S if asked and not _in_this_process(context) else 0), deadline)
    while True:
        living = _living(context)
        known = {executor for executor in living if (application, executor.id, question) in _usable}
        asked |= known
        if (fresh := living - asked) or time.monotonic() >= until:
            return fresh
        time.sleep(POLL_S)


def _living(context: SparkContext) -> set[Executor]:
    only_living = True
    summaries = context._jsc.sc().statusStore().executorList(only_living)  # noqa: SLF001 - the public one has no ids
    found = {Executor(it.id(), it.hostPort().rpartition(":")[0]) for it in _each(summaries)}
    return {it for it in found if it.id != DRIVER} or (found if _in_this_process(context) else set())


def _in_this_process(context: SparkContext) -> bool:
    master = context.master or ""
    return is_local(master) and not is_local_cluster(master)


def _ask(
    context: SparkContext, executors: Sequence[Executor], question: Question, deadline: float
) -> dict[Executor, str]:
    """What each executor lacks, or an empty text; without executors, of whichever comes to run a task."""
    found: dict[Executor, str] = {}
    while True:
        tasks, said = _run(context, [it for it in executors if it not in found], question, deadline)
        found |= _by_executor(tasks, said)
        left = [it for it in executors if it not in found]
        if said or not left:
            return found
        if time.monotonic() >= deadline:
            return found | dict.fromkeys(left, "it did not answer in time")
        # Spark ended their tasks with the job, because of those that failed: they are asked again.


def _run(
    context: SparkContext, executors: Sequence[Executor], question: Question, deadline: float
) -> tuple[list[Any], list[str]]:
    """One task for each executor, or one anywhere: every run of a task, and the answers, unless the job failed."""
    tag = f"onceward-{uuid.uuid4().hex}"
    cloudpickle.register_pickle_by_value(worker_look)  # type: ignore[no-untyped-call]  # workers may lack Onceward
    missing, wanted, probe = worker_look.missing, question.modules, question.probe
    places = [executor.location for executor in executors] or [[]]
    looks = _placed(context, places).mapPartitions(lambda _: [missing(wanted, probe)])
    timer = threading.Timer(max(deadline - time.monotonic(), 0), context.cancelJobsWithTag, [tag])
    timer.start()
    context.addJobTag(tag)
    try:
        said = looks.collect()
    except Py4JJavaError:
        tasks, late = _tasks(context, tag), time.monotonic() >= deadline
        if late and not tasks:
            raise WorkerUnusable(_nobody(context)) from None
        if not late and not any(task.status() == "FAILED" for task in tasks):
            raise
        return tasks, []
    finally:
        timer.cancel()
        context.removeJobTag(tag)
    return _tasks(context, tag), said


def _by_executor(tasks: Iterable[Any], said: Sequence[str]) -> dict[Executor, str]:
    """A task that failed tells by its error what is wrong where it ran; one that succeeded, by its answer."""
    found: dict[Executor, str] = {}
    for task in tasks:
        executor = Executor(task.executorId(), task.host())
        if task.status() == "FAILED":
            error = task.errorMessage()
            found[executor] = _last_words(error.get() if error.isDefined() else "")
        elif task.status() == "SUCCESS" and said:
            found.setdefault(executor, said[task.index()])
    return found


def _tasks(context: SparkContext, tag: str) -> list[Any]:
    """Every run of the tagged job's tasks, once Spark's status store knows how each ended."""
    spark = context._jsc.sc()  # noqa: SLF001
    until = time.monotonic() + TOLD_AFTER_S
    while True:
        jobs = [spark.statusTracker().getJobInfo(number).get() for number in spark.statusTracker().getJobIdsForTag(tag)]
        stages = [stage for job in jobs for stage in job.stageIds()]
        over = jobs and all(job.status().name() != "RUNNING" for job in jobs)
        found = [task for stage in stages for task in _each(spark.statusStore().taskList(stage, 0, 10_000))]
        if time.monotonic() > until or (over and all(task.status() != "RUNNING" for task in found)):
            return found
        time.sleep(POLL_S)


def _placed(context: SparkContext, places: Sequence[Sequence[str]]) -> "RDD[bytes]":
    """A row for each list of preferred places: PySpark has no such call, Spark has."""
    jvm: Any = context._jvm  # noqa: SLF001
    scala = jvm.scala.jdk.javaapi.CollectionConverters
    rows = [jvm.scala.Tuple2(b"", scala.asScala(list(places_of_row)).toSeq()) for places_of_row in places]
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    made = context._jsc.sc().makeRDD(scala.asScala(rows).toSeq(), tag)  # noqa: SLF001
    return RDD(made.toJavaRDD(), context, NoOpSerializer())


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def _last_words(error: str) -> str:
    """Of a Java stack or a Python traceback the line that says what happened."""
    lines = [line.strip() for line in error.splitlines() if line.strip() and not line.startswith("\t")]
    if any("Traceback" in line for line in lines):
        return lines[-1]
    if lost := [line for line in lines if NO_MODULE in line]:  # the interpreter's own, before any task has run
        return lost[0]
    return lines[0] if lines else "it failed without a word"


def _explained(wrong: dict[Executor, str], living: int, python: str) -> str:
    lines = [f"  {executor.host} (executor {executor.id}): {said}" for executor, said in sorted(wrong.items())]
    head = f"{len(wrong)} of {living} Spark executors cannot run Onceward's tasks under {python!r}:"
    return "\n".join([head, *lines, WAYS_OUT])


def _nobody(context: SparkContext) -> str:
    host = context.getConf().get("spark.driver.host", "?")
    return (
        f"no executor has come within {DEADLINE_S:.0f} s: {context.master} has no free cores or memory for this "
        f"application, or its workers cannot reach the driver at {host} (spark.driver.host, spark.driver.port)"
    )


@contextmanager
def _probe(home: str | Path | None) -> Iterator[str | None]:
    """A file in the home, or in the nearest folder above that is there, for as long as executors look for it."""
    folder = parse_home(home) if home not in {None, MEMORY} else None  # one in memory is for tests, on one machine
    if not isinstance(folder, Path):
        yield None
        return
    place = next(it for it in (folder, *folder.parents) if it.is_dir())
    with tempfile.NamedTemporaryFile(prefix=".onceward-probe-", dir=place) as file:
        yield file.name


@contextmanager
def _told(report: Callable[[str], None], text: str) -> Iterator[None]:
    """Say what is waited for, if it takes long."""
    timer = threading.Timer(TOLD_AFTER_S, report, [text])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
