"""A failure of the user's own code is told with its exception, file and line."""

import pytest

from onceward.pipeline.user_code import Failure, Place, failure_in, failure_of

FILE = "/home/u/job.py"
WORKER = f"""
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "{FILE}", line 12, in shout
    return helper(text)
           ^^^^^^^^^^^^
  File "/home/u/words.py", line 3, in helper
    return text.upper() / 0
ZeroDivisionError: division by zero

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:602)
"""
IN_A_LIBRARY = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task
 0.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/home/u/job.py", line 7, in parse
    return json.loads(text)["a"]
  File "/usr/lib/python3.11/site-packages/fast/json.py", line 346, in loads
    raise Bad
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
OURS = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/onceward/sinks/rows.py", line 160, in each
    yield from work(batches)
ValueError: no
"""


def test_the_last_line_of_the_users_is_named_not_a_librarys() -> None:
    """I4."""
    assert failure_in(WORKER) == Failure("ZeroDivisionError", "division by zero", Place("/home/u/words.py", 3))
    failure = failure_in(IN_A_LIBRARY)
    assert failure is not None
    assert str(failure) == (
        "/home/u/job.py, line 7: json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    )


def test_what_no_line_of_the_users_is_in_is_not_the_users() -> None:
    assert failure_in(OURS) is None
    assert failure_in("Python worker exited unexpectedly (crashed)") is None
    assert failure_in(WORKER.replace("ZeroDivisionError", "onceward.errors.RecordTooLarge")) is None


@pytest.mark.parametrize(
    ("kind", "of_code"),
    [
        ("ZeroDivisionError", True),
        ("KeyError", True),
        ("json.decoder.JSONDecodeError", True),
        ("ConnectionRefusedError", False),
        ("TimeoutError", False),
        ("RuntimeError", False),
        ("requests.exceptions.ConnectionError", False),
        ("some.where.Unknown", False),
    ],
)
def test_only_wrong_code_and_wrong_values_are_beyond_cure(kind: str, of_code: bool) -> None:
    import json  # noqa: F401 - a type is known by name once its module is loaded

    assert Failure(kind, "", Place(FILE, 1)).of_code is of_code


def test_an_exception_of_this_process_is_told_with_its_place() -> None:
    code = compile("def f():\n    return undefined_name\n", FILE, "exec")
    names: dict[str, object] = {}
    exec(code, names)
    with pytest.raises(NameError) as raised:
        names["f"]()  # type: ignore[operator]
    assert str(failure_of(raised.value)) == f"{FILE}, line 2: NameError: name 'undefined_name' is not defined"


def test_a_syntax_error_is_told_with_its_place() -> None:
    with pytest.raises(SyntaxError) as raised:
        compile("def f(:\n", FILE, "exec")
    assert str(failure_of(raised.value)).startswith(f"{FILE}, line 1: SyntaxError: ")
