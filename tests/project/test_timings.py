"""Workers that finish together: what is long begins first, and is shared out."""

from support.timings import LONG_S, groups_of, room_of

LONG = "tests/pipeline/test_kills.py"
SHORT = "tests/epoch/test_home.py"


def test_a_short_file_stays_together_and_comes_last() -> None:
    tests = [f"{SHORT}::test_a", f"{SHORT}::test_b[1]", f"{LONG}::test_c"]
    groups = groups_of(tests, {f"{LONG}::test_c": LONG_S + 1})
    assert list(groups) == [f"{LONG}::test_c", SHORT]
    assert groups[SHORT] == tests[:2]


def test_a_long_file_is_shared_out_by_function_and_a_long_function_by_its_parameters() -> None:
    tests = [f"{LONG}::{name}" for name in ("test_a[1]", "test_a[2]", "test_b[1]", "test_b[2]")]
    groups = groups_of(tests, {f"{LONG}::test_a": 2 * LONG_S, f"{LONG}::test_b": LONG_S / 2})
    assert sorted(groups.values()) == [[tests[0]], [tests[1]], tests[2:]]


def test_no_test_is_left_out_or_run_twice() -> None:
    tests = [f"{file}::test_{number}[{way}]" for file in (LONG, SHORT) for number in range(9) for way in "ab"]
    for seconds in (0.0, LONG_S / 9, LONG_S):
        groups = groups_of(tests, {f"{LONG}::test_{number}": seconds for number in range(9)})
        assert sorted(nodeid for group in groups.values() for nodeid in group) == sorted(tests)


def test_each_kind_of_sink_is_a_room_of_its_own() -> None:
    assert room_of("tests/sinks/kafka/test_conformance.py::TestKafkaSink::test_a") == "tests/sinks/kafka"
    assert room_of("tests/pipeline/test_kills.py::test_a[x/y]") == "tests/pipeline"
