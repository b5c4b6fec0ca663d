"""Where the time goes: the slowest tests, the time of each room, and which tests a worker gets next.

`tests/durations.json` keeps what each test function took, for the order: the longest first, so that workers finish
together. `--keep-durations` brings it up to date.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

KEPT: Final = Path(__file__).parents[1] / "durations.json"
SLOWEST: Final = 20
LONG_S: Final = 40.0  # a file that takes longer is shared out between the workers, one function at a time
UNKNOWN_S: Final = 0.3
WHOLE: Final = frozenset(  # their tests share what takes long to set up
    {
        "tests/pipeline/test_cluster.py",
        "tests/pipeline/test_hdfs.py",
        "tests/proof/test_stack.py",
        "tests/testing/test_kit.py",
    }
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help=f"print the slowest {SLOWEST} tests and each room's time")
    parser.addoption("--keep-durations", action="store_true", help=f"note in {KEPT.name} how long each test took")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # one of several processes; its parent hears of every test
        config.pluginmanager.register(Times(config), "times")


class Times:
    """Sums up what tests report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._took: Counter[str] = Counter()  # by node id: setup, call and teardown

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] += report.duration  # type: ignore[assignment] # seconds, not a count

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._config.getoption("--times") and self._took:
            terminalreporter.section(f"slowest {SLOWEST} tests")
            for nodeid, seconds in self._took.most_common(SLOWEST):
                terminalreporter.write_line(f"{seconds:7.1f} s  {nodeid}")
            terminalreporter.section("time of each room")
            rooms: Counter[str] = Counter()
            tests: Counter[str] = Counter()
            for nodeid, seconds in self._took.items():
                rooms[room_of(nodeid)] += seconds  # type: ignore[assignment]
                tests[room_of(nodeid)] += 1
            for room, seconds in rooms.most_common():
                terminalreporter.write_line(f"{seconds:7.1f} s  {tests[room]:4d} tests  {room}")
            terminalreporter.write_line(f"{sum(rooms.values()):7.1f} s  {sum(tests.values()):4d} tests  all rooms")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._config.getoption("--keep-durations") and exitstatus == pytest.ExitCode.OK:
            found: defaultdict[str, float] = defaultdict(float)
            for nodeid, seconds in self._took.items():
                found[function_of(nodeid)] += seconds
            kept = {**kept_durations(), **{name: round(seconds, 1) for name, seconds in found.items()}}
            lines = {name: seconds for name, seconds in sorted(kept.items()) if seconds >= 1}
            KEPT.write_text(json.dumps(lines, indent=1) + "\n")


def room_of(nodeid: str) -> str:
    """tests/<room>, and for the many kinds of sinks one room each."""
    folders = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(folders[: 3 if "sinks" in folders else 2])


def function_of(nodeid: str) -> str:
    """Without parameters."""
    return nodeid.partition("[")[0]


def kept_durations() -> dict[str, float]:
    found: dict[str, float] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def groups_of(nodeids: Iterable[str], kept: Mapping[str, float]) -> dict[str, list[str]]:
    """What one worker runs in a row, the longest first.

    A file; of a long file each function; of a long function each of its parameters.
    """
    files: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for nodeid in nodeids:
        files[nodeid.partition("::")[0]][function_of(nodeid)].append(nodeid)
    groups: dict[str, list[str]] = {}
    took: dict[str, float] = {}
    for file, functions in files.items():
        seconds = {function: kept.get(function, UNKNOWN_S) for function in functions}
        whole = file in WHOLE or sum(seconds.values()) < LONG_S
        for function, tests in functions.items():
            alone = not whole and seconds[function] > LONG_S
            for nodeid in tests:
                group = file if whole else nodeid if alone else function
                groups.setdefault(group, []).append(nodeid)
                took[group] = took.get(group, 0.0) + seconds[function] / len(tests)
    return dict(sorted(groups.items(), key=lambda group: -took[group[0]]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling | None":
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        """A worker that has nothing left takes the longest group that nobody has."""

        def schedule(self) -> None:
            if self.collection is None:
                groups = groups_of(next(iter(self.registered_collections.values())), kept_durations())
                self._order = list(groups)
                self._group = {nodeid: group for group, nodeids in groups.items() for nodeid in nodeids}
            super().schedule()

        def _split_scope(self, nodeid: str) -> str:
            return self._group[nodeid]

        def _assign_work_unit(self, node: Any) -> None:
            longest = next(group for group in self._order if group in self.workqueue)
            self.workqueue.move_to_end(longest, last=False)
            super()._assign_work_unit(node)

    return ByGroup(config, log) if config.getoption("dist") == "loadscope" else None
