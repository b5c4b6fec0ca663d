"""Which tests run when (docs/testing.md): `--tier quick`, `test` (what plain pytest runs), `all`, and `rest`.

Every test is in exactly one of three places, so none can be in none: it is pure, or it needs a real server, or it is a
combination of what others show already and is listed here, with its witness in `make test`.
"""

import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

TIERS: Final = ("quick", "test", "all")  # each holds the one before it
REST: Final = "rest"  # of "all", what is not in "test"
COVERING: Final = ("tests/epoch/", "tests/kafka/", "tests/proof/", "tests/docs/")  # what `make coverage` runs
SERVERS: Final = frozenset({"broker", "cluster", "drivers", "own", "own_kafka", "postgres", "spark", "stack"})
STARTS_A_SERVER: Final = frozenset({"java", "spark-submit", "initdb", "pg_ctl", "postgres"})

# Not quick, though no fixture says so: they start servers or JVMs of their own, or simulate for many seconds.
NOT_QUICK: Final = {
    "tests/cli/test_kafka_command.py": ("*",),
    "tests/cli/test_run_command.py": ("*",),
    "tests/cli/test_secured_kafka.py": ("*",),
    "tests/dashboard/test_browser.py": ("*",),
    "tests/jars/test_cache.py": ("*",),
    "tests/jars/test_java.py": ("*",),
    "tests/kafka/test_quotas.py": ("*",),
    "tests/pipeline/test_archive.py": ("*",),
    "tests/pipeline/test_session.py": ("*",),
    "tests/pipeline/test_tiered_and_compacted_topics.py": ("*",),
    "tests/project/test_wheel.py": ("*",),
    "tests/proof/test_simulation.py": (
        "test_the_schedules_end_*", "test_the_search_*", "test_two_processes_*", "test_wherever_*",
    ),
    "tests/proof/test_stack.py": ("*",),
    "tests/servers/test_dev_broker.py": ("*",),
    "tests/testing/test_kit.py": ("*",),
}  # fmt: skip

SOFTLY_WHERE_KILLED: Final = ("begun-1", "written-1", "voted-2", "prepared-1", "marked-1", "decided-1", "recorded-1")
# The witness: what in `make test` shows the same. Patterns are matched against the test's name with its parameters.
COMBINATIONS: Final = {
    "tests/servers/test_dev_broker.py": {
        "test_three_brokers_survive_*": "test_stack: three brokers, one of them killed or paused",
    },
    "tests/pipeline/test_kills.py": {
        "test_a_driver_killed_at_every_named_point_*": "test_many_kills: every point, Kafka with all other sinks",
        "test_a_driver_killed_at_random_*": "test_chaos_runs: kills at random moments",
        "test_a_zombie_*[[]over-tasks]": "the short way; what fences is the same for both",
        "test_a_transaction_that_timed_out_*[[]short-way]": "over tasks",
        "test_a_python_worker_killed_*": "test_many_kills: a worker that dies writing to all sinks",
        "test_a_broker_killed_*[[]short-way]": "over tasks",
        "test_tasks_in_executor_processes_*": "test_cluster: an executor and a worker killed",
    },
    "tests/pipeline/test_brokers.py": {
        "test_any_of_three_brokers_*": "test_three_brokers: our own transactions, whichever of three is killed",
        "test_two_of_three_brokers_*": "test_kills: the only broker killed and restarted",
    },
    "tests/pipeline/test_cluster.py": {
        "test_state_in_a_home_*": "test_workers: an executor that does not see the driver's file says so",
        "test_files_in_a_folder_*": "tests/sinks/files: what tasks report and the driver does not find is an error",
        "test_spark_submit_*": "test_submit: on a local master; and onceward run on the cluster",
    },
    "tests/pipeline/test_many_kills.py": {
        "test_a_driver_killed_at_every_step_*[[]kafka-*]": "all sinks together; and without Kafka",
        "test_a_driver_killed_at_every_step_*[[]all-over-tasks]": (
            "all sinks, written by the driver; a worker killed while all are written over tasks"
        ),
        "test_a_driver_killed_at_every_step_*[[]all-sinks-*]": "all sinks, at the second one's vote and commit",
        "test_a_driver_killed_at_every_step_*[[]postgres-files]": "ledger-decides: the same sinks, from the votes on",
        "test_a_zombie_*[[]kafka-postgres-*]": "test_kills: a zombie where Kafka decides",
        "test_a_zombie_*[[]postgres-files-*]": "test_decision_races; test_kills: a zombie where Kafka decides",
        "test_an_epoch_in_doubt_*": "test_many_sinks: both deciders, softly, shown and resolved without the pipeline",
    },
    "tests/pipeline/test_many_sinks.py": {
        **dict.fromkeys(
            [f"test_a_crash_at_each_step_*-{step}]" for step in SOFTLY_WHERE_KILLED],
            "test_many_kills: really killed there, over all sinks and over the ledger's decision",
        ),
        "test_a_crash_at_each_step_*[[]kafka-decides-committed-2]": "test_many_kills: really killed there",
        "test_a_crash_at_each_step_*[[]ledger-decides-committed-1]": "test_many_kills: really killed there",
    },
    "tests/pipeline/test_operators.py": {
        "test_*[[]windows-that-update]": "windows that append; duplicates in the heap",
        "test_*[[]join-in-the-heap]": "a join on disk; duplicates in the heap",
        "test_*[[]state-of-ones-own-shrinking]": "state of one's own that is spread wider; a join that shrinks",
    },
    "tests/pipeline/test_restore_kills.py": {
        "test_a_driver_that_sleeps_*": "test_kills: a zombie that wakes; the simulation's sleep through restores",
    },
    "tests/pipeline/test_snapshots.py": {
        "test_snapshots_taken_while_*": "test_restored_snapshots: copies of running pipelines; tests/snapshot: kills",
    },
    "tests/pipeline/test_lookups.py": {
        "test_drivers_that_die_or_sleep_*": "the demo, whose pipeline with a lookup is killed; two tries, softly",
    },
    "tests/pipeline/test_modes_of_sinks.py": {
        "test_*[[]files-at-*]": "the other sinks, and every guarantee over Kafka in test_modes",
        "test_*[[]iceberg-at-*]": "Delta, whose rows are staged by the same code",
    },
    "tests/pipeline/test_hdfs.py": {
        "test_a_driver_with_its_home_in_hdfs_*": "a pipeline lives in HDFS, stopped and started; kills on a local home",
    },
    "tests/pipeline/test_rewriting.py": {
        "test_*[[]joined]": "test_operators: a join at three widths; what is rewritten is a store of it",
        "test_*[[]windowed]": "test_operators: windows at three widths",
        "test_*[[]sessions]": "test_operators: windows at three widths",
    },
    "tests/docs/test_quickstart.py": {
        "test_who_pastes_all_of_it_*": "the same without `make setup`, which has made what the tests run in",
    },
    "tests/cli/test_new_command.py": {
        "test_the_projects_own_test_*": "test_quickstart: a first job, killed",
    },
    "tests/proof/test_simulation.py": {
        "test_no_way_of_the_small_model_*": "five thousand seeded schedules; the search finds planted bugs",
    },
    "tests/proof/test_chaos_runs.py": {
        "test_three_brokers_*": "test_three_brokers: our own transactions; `make prove` with three brokers",
        "test_what_promises_less_*": "test_modes: each guarantee and Spark's own sink; a job that doubles is caught",
        "test_the_documents_job_*": "the same file, where it doubles",
    },
    "tests/sinks/files/test_conformance.py": {
        "TestJson::*": "Parquet: a format only changes how a file is encoded (test_sink)",
        "TestCsv::*": "Parquet: a format only changes how a file is encoded (test_sink)",
    },
    "tests/dashboard/test_live.py": {
        "test_a_pipeline_is_followed_*": "test_browser_live: one that dies and comes back, on the page itself",
    },
    "tests/demo/test_feeder.py": {
        "test_every_record_is_fed_once_*": "the whole demo, whose broker is killed too",
    },
    "tests/demo/test_demo_command.py": {
        "test_kept_it_runs_on_*": "the whole demo",
        "test_an_interrupt_*": "a demo that is killed clears away too",
        "test_a_job_that_dies_by_itself_*": "a demo that is killed clears away too",
    },
    "tests/testing/test_kit.py": {
        "test_a_sink_that_keeps_the_contract_passes[[]DecidingDirectorySink]": (
            "Kafka, which decides by itself too, passes every case (tests/sinks/kafka/test_conformance.py)"
        ),
        "test_a_case_that_does_not_apply_*[[]DecidingDirectorySink]": "a sink that does not decide, case by case",
    },
    "tests/testing/test_your_own.py": {
        "test_the_sink_of_the_page_passes_the_kit": "the same file: case by case, in the tests' own Spark",
    },
    "tests/apps/test_tutorial.py": {
        "test_who_follows_*": "test_application runs the page's code; the demo kills it",
    },
    "tests/apps/test_application.py": {
        "test_at_least_once_charges_*": "test_modes: at-least-once doubles",
    },
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=(*TIERS, REST),
        help="quick: without servers; test: with them (unless told otherwise); all: every combination too; rest: the "
        "combinations alone",
    )
    parser.addoption(
        "--after-coverage", action="store_true", help="without the quick tests that `make coverage` has just run"
    )


def pytest_configure(config: pytest.Config) -> None:
    _Watch.watching(config)


def tier_of(item: pytest.Item) -> str:
    """The smallest tier that runs it."""
    if witness_of(item.nodeid) is not None:
        return "all"
    fixtures: list[str] = getattr(item, "fixturenames", [])
    real = item.get_closest_marker("slow") or SERVERS & set(fixtures) or _matched(item.nodeid, NOT_QUICK) is not None
    return "test" if real else "quick"


def witness_of(nodeid: str) -> str | None:
    """What shows the same in `make test`; None if this test is no mere combination."""
    pattern = _matched(nodeid, COMBINATIONS)
    return None if pattern is None else COMBINATIONS[nodeid.partition("::")[0]][pattern]


def _matched(nodeid: str, patterns: Mapping[str, Iterable[str]]) -> str | None:
    file, _, name = nodeid.partition("::")
    return next((pattern for pattern in patterns.get(file, ()) if fnmatchcase(name, pattern)), None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.args or config.args == config.getini("testpaths"):
        _require_matched(items)
    named = any("::" in argument for argument in config.args)  # who names a test wants it
    wanted: str = config.getoption("--tier") or ("all" if named else "test")
    tiers = TIERS[-1:] if wanted == REST else TIERS[: TIERS.index(wanted) + 1]
    covered: tuple[str, ...] = COVERING if config.getoption("--after-coverage") else ()
    left_out = [item for item in items if tier_of(item) not in tiers or _has_run(item, covered)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _has_run(item: pytest.Item, covered: tuple[str, ...]) -> bool:
    return item.nodeid.startswith(covered) and tier_of(item) == "quick"


def _require_matched(items: list[pytest.Item]) -> None:
    """A pattern that matches nothing is about a test that was renamed: it would run in a tier where nobody meant it."""
    for file, patterns in [*COMBINATIONS.items(), *NOT_QUICK.items()]:
        names = [item.nodeid.partition("::")[2] for item in items if item.nodeid.startswith(f"{file}::")]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise pytest.UsageError(f"tests/support/tiers.py: no test of {file} is called {pattern}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    _Watch.pure = item.nodeid if tier_of(item) == "quick" else None
    try:
        return (yield)
    finally:
        _Watch.pure = None


class _Watch:
    """A test that says it is pure, and starts a server or a JVM, fails."""

    pure: str | None = None
    _hooked = False

    @classmethod
    def watching(cls, _config: pytest.Config) -> None:
        if not cls._hooked:  # an audit hook stays for the life of the process
            cls._hooked = True
            sys.addaudithook(cls._audit)

    @classmethod
    def _audit(cls, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and cls.pure is not None:
            executable, command = arguments[:2]
            words = [executable, *([command] if isinstance(command, (str, bytes)) else command)]
            names = {Path(str(word, "utf-8") if isinstance(word, bytes) else str(word)).name for word in words[:2]}
            if names & STARTS_A_SERVER:
                raise AssertionError(
                    f"{cls.pure} is in the quick tier and starts {command}: "
                    "use a fixture of tests/conftest.py, or name it in NOT_QUICK"
                )
