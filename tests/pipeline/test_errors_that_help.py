"""Every error that a user can cause is a line or two with the cause and the fix."""

import errno
import logging
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors.exceptions.captured import UnknownException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import onceward as ow
from onceward.errors import HomeUnusable, OncewardError, OutageTooLong, PipelineFileError, TopicUnusable, UserCodeFailed
from onceward.pipeline import host
from onceward.pipeline import pipeline as pipelines
from onceward.pipeline.explaining import explained, in_users_file
from support.judge import Kafka
from support.places import USELESS
from support.runs import run

HERE = str(Path(__file__))
Made = Callable[..., ow.Pipeline]


@pytest.fixture
def made(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Made:
    """A pipeline with one event to read, and a fault."""
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", "v")])

    def make(
        rows: Callable[[DataFrame], DataFrame] = lambda batch: batch.select("key", "value"),
        *,
        bootstrap: str = kafka.bootstrap,
        topic: str = source,
        home: Path = tmp_path / "home",
        small: int = 10 << 20,
    ) -> ow.Pipeline:
        events = ow.read_kafka(spark, bootstrap, topics=[topic])
        sink = ow.KafkaSink(kafka.bootstrap, topic=target, small_epoch_bytes=small)
        return ow.Pipeline(name, home=home, source=events).to(sink, rows=rows)

    return make


def told(error: BaseException | None, *, lines: int = 2, columns: int = 200) -> str:
    """An error for people: short, and without Spark's plans and stacks."""
    text = str(error)
    assert len(text.splitlines()) <= lines, text
    assert len(text) <= lines * columns, text
    for noise in ("Traceback", "\tat ", "org.apache", "SQLSTATE", "'Project", "Py4J"):
        assert noise not in text
    return text


def test_a_wrong_port_is_named_at_once(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """I4: Spark's own source would try for minutes."""
    monkeypatch.setattr(pipelines, "FIRST_START_S", 0.5)
    with pytest.raises(OutageTooLong) as raised:
        run(made(bootstrap="127.0.0.1:1"))
    assert "no Kafka broker listens at 127.0.0.1:1 (127.0.0.1:1: connection refused)" in told(raised.value, lines=3)
    assert "check the address (bootstrap=)" in str(raised.value)


def test_a_host_that_does_not_exist_is_named(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "FIRST_START_S", 0.0)
    with pytest.raises(OutageTooLong, match="there is no host of this name"):
        run(made(bootstrap="no-such-host.invalid:9092"))


def test_a_missing_source_topic_is_named_with_the_command_that_makes_it(made: Made) -> None:
    """I4."""
    with pytest.raises(
        TopicUnusable, match=r"source topic 'clikcs' does not exist .* `onceward kafka topic create clikcs`"
    ) as raised:
        run(made(topic="clikcs"))
    told(raised.value)


@pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])
def test_a_failing_python_function_shows_its_own_exception_file_and_line(
    made: Made, small: int, caplog: pytest.LogCaptureFixture
) -> None:
    """I4: and is not tried six times."""

    def divide(number: int) -> int:
        return number // 0

    broken = sf.udf(divide, "int", useArrow=False)  # else Spark warns of the type hints
    line = divide.__code__.co_firstlineno + 1
    with caplog.at_level(logging.WARNING, "onceward"), pytest.raises(UserCodeFailed) as raised:
        run(made(lambda batch: batch.select("key", broken(sf.lit(1)).cast("string").alias("value")), small=small))
    text = told(raised.value)
    assert text.startswith(f"{HERE}, line {line}: ZeroDivisionError: integer division or modulo by zero")
    tries = [it for it in caplog.messages if "was aborted and is redone" in it]
    assert len(tries) == 1
    assert "ZeroDivisionError" in tries[0]
    assert "Python worker" not in tries[0]


def test_a_function_of_the_batch_that_fails_shows_its_line(made: Made) -> None:
    def rows(batch: DataFrame) -> DataFrame:
        return batch.select(undefined)  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(UserCodeFailed) as raised:
        run(made(rows))
    line = rows.__code__.co_firstlineno + 1
    assert told(raised.value).startswith(f"{HERE}, line {line}: NameError: name 'undefined' is not defined")


def test_a_typo_in_a_column_is_one_line_with_what_was_meant(made: Made) -> None:
    """I4."""
    with pytest.raises(UserCodeFailed, match=r"there is no column `valeu`; did you mean `value`") as raised:
        run(made(lambda batch: batch.select("key", "valeu")))
    told(raised.value, lines=1)


@pytest.mark.parametrize("useless", USELESS)
def test_a_home_that_cannot_be_made_is_named_with_what_to_look_for(made: Made, tmp_path: Path, useless: Any) -> None:
    """I4: by everything that takes one. A read-only disk is refused by the same calls."""
    with useless(tmp_path) as home:
        pipeline = made(home=home)
        with pytest.raises(HomeUnusable, match=rf"cannot use {tmp_path}/.*: .*A pipeline's home, .*look for") as raised:
            pipeline.start()
        told(raised.value, columns=700)
        for act in (pipeline.reset, pipeline.find_poison, pipeline.has_begun, pipeline.stand_by):
            with suppress(OncewardError):  # and nothing of Python's
                act()
        for skip in (pipeline.skip, pipeline.unskip):
            with suppress(OncewardError):
                skip("t", 0, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "import onceward as ow\nx = ow.Pipelin\n",
            "line 2: AttributeError: module 'onceward' has no attribute 'Pipelin'",
        ),
        ("def build(spark):\n    return pipeline\n", "line 2: NameError: name 'pipeline' is not defined"),
        ("def build(spark:\n    pass\n", "line 1: SyntaxError: '(' was never closed"),
        ("import no_such_module\n", "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "def build(spark):\n    return spark.range(1).select('nope')\n",
            "line 2: there is no column `nope`; did you mean `id`?",
        ),
    ],
)
def test_an_error_in_the_users_file_is_told_with_its_line(
    spark: SparkSession, tmp_path: Path, text: str, says: str
) -> None:
    """I4."""
    file = tmp_path / "job.py"
    file.write_text(textwrap.dedent(text))
    with pytest.raises(PipelineFileError) as raised, in_users_file(str(file)):
        host.load(file)(spark)
    assert told(raised.value).startswith(f"{file}, {says}")


def test_a_full_disk_is_named_with_what_to_do(spark: SparkSession) -> None:
    """I4: whoever notices it, Python or Spark's JVM."""
    ours = explained(OSError(errno.ENOSPC, "No space left on device", "/data/home/ledger/1.json"))
    assert "cannot write /data/home/ledger/1.json: no space left on device" in told(ours)
    assert "make room there, and start again" in str(ours)
    text = "An error occurred\nCaused by: java.io.IOException: No space left on device\n\tat java.base/x"
    theirs = explained(UnknownException(desc=text, stackTrace="", cause=None))
    assert "a disk is full" in told(theirs)
    assert "spark.local.dir" in str(theirs)
