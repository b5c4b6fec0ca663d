"""Every way out of a process: a password and a row are put in front of each, and looked for behind it."""

import json
import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onceward import errors, secret
from onceward.cli import failing, logs, main
from onceward.cli.spark_options import settings
from onceward.cli.watch import JsonLines
from onceward.epoch.observing import AbortedTry, Course
from onceward.epoch.patience import Waiting
from onceward.epoch.tries import line_of
from onceward.errors import (
    CommitUnfinished,
    ConfigurationError,
    EpochFailed,
    InvalidRows,
    OncewardError,
    UserCodeFailed,
)
from onceward.pipeline.query import Query, _told
from onceward.pipeline.source import read_kafka
from onceward.pipeline.stop_signals import stop_signals
from onceward.telemetry import activity
from onceward.telemetry.activity_writer import ActivityWriter
from onceward.telemetry.datasets import reads, written
from onceward.telemetry.lineage import Begun
from onceward.telemetry.logs import JsonFormatter, Logged, TextFormatter
from onceward.telemetry.openlineage import OpenLineage
from onceward.telemetry.outward import error_outward, waiting_outward
from onceward.telemetry.traces import Traces
from onceward.watching.sight import Sight
from support.clocks import MONOTONIC

PASSWORD = "s3cr/et geheim"
ROW = "Ann Smith"
ROWS = f"customer={ROW}, card K4711"  # no number alone: a random id may have it


class Refused(Exception):
    """As a database says it: with the row."""


def fails() -> list[BaseException]:
    """With the row and the password wherever somebody has been seen to put them."""
    theirs = Refused(f"duplicate key ({ROWS}) for {PASSWORD}\nDETAIL: Key (name)=({ROW}) exists, {PASSWORD}")
    ours = [
        UserCodeFailed(f"job.py, line 3: ValueError: no such card: {ROWS} {PASSWORD} (in your own code). Repair it."),
        UserCodeFailed(f"a row cannot be computed: [CAST_INVALID_INPUT] The value '{ROW}' {PASSWORD} cannot be cast"),
        EpochFailed(f"epoch 3 was aborted 6 times, nothing is lost. tries 1 to 6: {line_of(theirs)}"),
        CommitUnfinished(f"epoch 3 is decided, and sink 'db' has not made it visible: {line_of(theirs)}. Its input: x"),
        InvalidRows(f"public.people: duplicate key; Key (name)=({ROW}) {PASSWORD} (SQLSTATE 23505)"),
        OncewardError(f"the broker at h:9092 refused 'me' with {PASSWORD}"),
    ]
    return [theirs, *ours]


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a connection has been opened with it."""
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    secret.looked_up({"user": "me", "password": "${env:DB_PASSWORD}"}, {"password"})


def log_of(formatter: logging.Formatter) -> Callable[[BaseException, Path], str]:
    """Each line that is written about a failure."""

    def written(error: BaseException, _: Path) -> str:
        caught: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = caught.append  # type: ignore[method-assign, assignment] # its only method
        ours = logging.getLogger("onceward")
        level = ours.level
        ours.setLevel(logging.INFO)
        ours.addHandler(handler)
        try:
            Logged("orders").ended(error)
            line = line_of(error) if isinstance(error, Exception) else str(error)
            said = {"event": "try_aborted", "reason": line}
            logging.getLogger("onceward.epoch").warning("epoch 3 was aborted: %s", line, extra=said)
            logging.getLogger("onceward.epoch").warning("it failed: %s", error, extra={"reason": str(error)})
            try:
                raise error
            except BaseException:
                logging.getLogger("onceward.epoch").exception("it %s", "failed")
        finally:
            ours.removeHandler(handler)
            ours.setLevel(level)
        return "\n".join(formatter.format(it) for it in caught)

    return written


def lineage_of(error: BaseException, _: Path) -> str:
    heard: list[str] = []

    def emit(event: RunEvent) -> None:
        heard.append(Serde.to_json(event))

    place = f"s3a://key:{PASSWORD}@bucket/in?sig={PASSWORD}"
    begun = Begun(
        pipeline="orders", guarantee="exactly-once", lineage="L", term=1, sources=[("parquet", {"path": place})],
        sinks={"files": ("m:FileSink", {"path": place})}, positions=[json.dumps({"token": PASSWORD})],
    )  # fmt: skip
    telling = OpenLineage(emit, begun)
    telling.started()
    telling.ended(error)
    assert "bucket/in" in heard[0]
    return "\n".join(heard)


def spans_of(error: BaseException, _: Path) -> str:
    provider, exported = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    course = Course(3, MONOTONIC)
    line = line_of(error) if isinstance(error, Exception) else str(error)
    course.aborted.append(AbortedTry(1, type(error).__name__, line, MONOTONIC))
    Traces(provider.get_tracer("onceward")).failed(3, course, error)
    return "\n".join(it.to_json() for it in exported.get_finished_spans())


def json_lines_of(error: BaseException, _: Path) -> str:
    shown: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout.write", shown.append)
        view = JsonLines()
        failure = _told(error)
        view.look([Sight(pipeline="orders", guarantee="exactly-once", at=MONOTONIC, waiting=waiting_for(error))])
        view.look([Sight(pipeline="orders", guarantee="exactly-once", at=MONOTONIC, active=False, failure=failure)])
    return "".join(shown)


def run_failed_of(error: BaseException, _: Path) -> str:
    shown: list[str] = []
    handler = logging.Handler()
    handler.setFormatter(JsonFormatter())
    handler.emit = lambda record: shown.append(handler.format(record))  # type: ignore[method-assign] # its only method
    log = logging.getLogger(logs.RUN)
    log.addHandler(handler)
    try:
        with pytest.raises(typer.Exit), logs.failure_logged("json"):
            raise error
    finally:
        log.removeHandler(handler)
    (line,) = shown
    assert json.loads(line)["event"] == "run_failed"
    return line


def waiting_for(error: BaseException) -> str:
    """As a driver says it: the error is an answer of a sink that is away."""
    return Waiting("sink 'db'", f"PostgreSQL cannot be reached: {line_of(error)}", MONOTONIC).said(MONOTONIC)  # type: ignore[arg-type]


def hanging_query(error: BaseException) -> Query:
    """One that waits for a sink, as far as it says so."""
    waiting = Waiting("sink 'db'", f"PostgreSQL cannot be reached: {line_of(error)}", time.monotonic())  # type: ignore[arg-type]
    query = Query.__new__(Query)
    query.name = "orders"
    patience = SimpleNamespace(shown=waiting)
    query._runner = SimpleNamespace(running=3, taken=SimpleNamespace(coordinator=SimpleNamespace(patience=patience)))  # type: ignore[assignment]
    return query


def hanging_of(error: BaseException, _: Path) -> str:
    """An epoch that does not end, and a stop that has to wait for it."""
    shown: list[str] = []
    handler = logging.Handler()
    handler.setFormatter(JsonFormatter())
    handler.emit = lambda record: shown.append(handler.format(record))  # type: ignore[method-assign] # its only method
    ours = logging.getLogger("onceward")
    query = hanging_query(error)
    ours.addHandler(handler)
    logging.getLogger(logs.RUN).setLevel(logging.INFO)
    try:
        query._tell_hanging()
        with stop_signals(logs.report, lambda: query.waited_for, lambda _: None):
            for _attempt in range(2):
                signal.raise_signal(signal.SIGTERM)
    finally:
        ours.removeHandler(handler)
        logging.getLogger(logs.RUN).setLevel(logging.NOTSET)
    assert [json.loads(it)["event"] for it in shown] == ["epoch_not_ended", "report", "report"]
    for said in (shown[0], shown[2]):
        assert "waiting for sink 'db': PostgreSQL cannot be reached" in said
    return "".join(shown)


WAYS = {
    "JSON log": log_of(JsonFormatter()),
    "OpenLineage": lineage_of,
    "OpenTelemetry": spans_of,
    "lines of JSON": json_lines_of,
    "the end of a run as JSON": run_failed_of,
    "what a stop waits for": hanging_of,
}


def activity_of(error: BaseException, home: Path) -> str:
    writer = ActivityWriter(home, pipeline="orders", term=1, pid=1, host="h", sinks=[], clock=lambda: MONOTONIC)
    writer.started()
    line = line_of(error) if isinstance(error, Exception) else str(error)
    writer.aborted(3, AbortedTry(1, type(error).__name__, f"{'x' * (990 - len(line))}{line}", MONOTONIC))
    writer.ended(error)
    return "\n".join(it.read_text() for it in (home / activity.FOLDER).iterdir())


def terminal_of(error: BaseException, _: Path) -> str:
    shown: list[str] = []

    def app() -> None:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(main, "app", app)
        patched.setattr(main, "progress", shown.append)
        with suppress(SystemExit, Refused):
            main.main()
    return "".join(shown)


# Without the error's class: a state, and what is waited for.
NAMELESS = {"lines of JSON", "what a stop waits for"}

FOR_PEOPLE = {
    "text log": log_of(TextFormatter()),
    "activity": activity_of,
    "terminal": terminal_of,
}


@pytest.fixture(params=range(len(fails())), ids=lambda it: type(fails()[it]).__name__)
def error(request: pytest.FixtureRequest) -> BaseException:
    return fails()[request.param]


@pytest.mark.parametrize("way", [*WAYS, *FOR_PEOPLE])
def test_no_password_leaves_by_any_way(way: str, error: BaseException, tmp_path: Path) -> None:
    """J4: in clear, as a URL has it, or half of it."""
    out = {**WAYS, **FOR_PEOPLE}[way](error, tmp_path)
    assert out or not isinstance(error, OncewardError)
    for form in (PASSWORD, "s3cr%2Fet", "s3cr\\/et", "geheim"):
        assert form not in out


@pytest.mark.parametrize("way", WAYS)
def test_no_row_leaves_for_a_program(way: str, error: BaseException, tmp_path: Path) -> None:
    """J4: what others say in an error stays here; its class, and what we say ourselves, go out."""
    out = WAYS[way](error, tmp_path)
    for part in (ROW, "Ann", "K4711", "card"):
        assert part not in out
    if way not in NAMELESS:
        assert type(error).__name__ in out


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        (UserCodeFailed("job.py, line 3: KeyError: 'Ann' (yours)"), "UserCodeFailed: job.py, line 3: KeyError"),
        (
            UserCodeFailed("a row cannot be computed: [CAST_INVALID_INPUT] The value 'x'"),
            "UserCodeFailed: a row cannot be computed: [CAST_INVALID_INPUT]",
        ),
        (InvalidRows("t: duplicate; Key (a)=(b) (SQLSTATE 23505)"), "InvalidRows: t (SQLSTATE 23505)"),
        (errors.TopicUnusable("topic 't' does not exist at h:9092; make it"), None),
        (errors.HomeUnusable("cannot write /out/name=Ann/x"), "HomeUnusable: cannot write /out/name=…/x"),
        (PermissionError(13, "Permission denied", "/x"), "PermissionError: [Errno 13] Permission denied"),
        (ValueError("Ann"), "ValueError"),
        (ValueError(), "ValueError"),
        ("PostgreSQL at db:5432 cannot be reached: nobody", "PostgreSQL at db:5432 cannot be reached"),
        ("Refused: Ann: x", "Refused"),
        ("", ""),
    ],
)  # fmt: skip
def test_an_error_leaves_as_its_class_and_our_own_words(text: Any, leaves: str | None) -> None:
    assert error_outward(text) == (leaves if leaves is not None else f"{type(text).__name__}: {text}")


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("sink 'a': PostgreSQL at h cannot be reached: Ann (3 s)", "sink 'a': PostgreSQL at h cannot be reached"),
        ("sink 'a': refused (3 s)", "sink 'a': refused (3 s)"),
        ("epoch 4: committing in 'a'", "epoch 4: committing in 'a'"),
        ("new events", "new events"),
        ("", ""),
    ],
)
def test_what_is_waited_for_leaves_as_our_own_words(text: str, leaves: str) -> None:
    assert waiting_outward(text) == leaves


def test_an_error_that_is_none_of_ours_is_one_line_of_json_with_where_it_arose() -> None:
    """J4: and no raw traceback, which has the text and with it a row."""
    facts = json.loads(run_failed_of(Refused(ROWS), Path()))
    assert (facts["error"], facts["message"]) == ("Refused", "Refused")
    assert "run_failed_of" in facts["traceback"]
    for ending in (typer.Exit(3), typer.Abort(), typer.BadParameter("x")):
        with pytest.raises(type(ending)), logs.failure_logged("json"):
            raise ending


def test_all_of_an_error_as_a_person_asks_for_it_has_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    failing.print_traceback(Refused(f"{ROW} {PASSWORD}"))
    assert f"Refused: {ROW} ***" in capsys.readouterr().err


def test_it_leaves_short() -> None:
    assert len(error_outward(errors.TopicUnusable("x" * 5000))) == 300


def test_a_name_of_data_has_no_key_in_it() -> None:
    """Neither before an @ nor behind a ?, nor a secret of ours anywhere."""
    (read,) = reads([("parquet", {"path": "abfss://c:key@account/in?sv=1&sig=abc"})], [], [])
    assert read.dataset == ("file", "abfss://account/in")
    assert written("m:DeltaSink", {"path": f"/lake/{PASSWORD}/t"}) == [("file", "/lake/***/t")]
    assert written("m:FileSink", {"path": "/out/a?b@c"}) == [("file", "/out/a?b@c")]


class TestKnownSecrets:
    """Of a process: those of its settings, whether they were given or looked up."""

    @pytest.fixture(autouse=True)
    def _nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(secret, "_known", secret._Known())

    def test_one_is_hidden_wherever_it_stands_and_as_a_url_has_it(self) -> None:
        secret.looked_up({"password": "a+b/longer"}, {"password"})
        for text in ("xa+b/longery", "a%2Bb%2Flonger", {"a": ["a+b/longer"]}, {"a+b/longer": 1}):
            assert "longer" not in str(secret.without_secrets(text))

    def test_a_short_one_is_hidden_where_it_stands_alone(self) -> None:
        secret.remember({"password": "test"}, {"password"})
        assert secret.without_secrets("user=me/test, the latest tests") == "user=me/***, the latest tests"

    def test_what_stands_in_the_open_too_is_none(self) -> None:
        """A user postgres with that password, in a database of that name."""
        secret.looked_up({"user": "postgres", "password": "postgres"}, {"password"})
        assert secret.without_secrets("postgres.public.t") == "postgres.public.t"

    def test_a_reference_is_none_and_nor_is_what_is_too_short_to_tell(self) -> None:
        secret.remember({"password": "${env:X}", "sslpassword": "abc"}, {"password", "sslpassword"})
        assert secret.without_secrets("${env:X} abc") == "${env:X} abc"

    def test_without_a_list_telling_names_are_taken(self) -> None:
        secret.remember({"s3.secret-access-key": "of-the-lake", "uri": "http://catalog"})
        assert secret.without_secrets("of-the-lake http://catalog") == "*** http://catalog"
        secret.remember({"kafka.ssl.keystore.key": "BEGIN-KEY-7", "kafka.ssl.keystore.type": "PEM-or-so"})
        assert secret.without_secrets("BEGIN-KEY-7 PEM-or-so") == "*** PEM-or-so"

    @pytest.mark.parametrize("value", ['qu"ote-in-it', "back\\slash-in-it", "gehe\u00efm-wort", "tab\tin-it"])
    def test_one_is_hidden_in_a_text_that_is_json(self, value: str) -> None:
        secret.remember({"password": value}, {"password"})
        for as_ascii in (True, False):
            encoded = json.dumps({"dsn": f"me {value}"}, ensure_ascii=as_ascii)
            assert secret.without_secrets(encoded) == '{"dsn": "me ***"}'

    def test_those_of_a_source_and_of_its_session_are_taken_in_where_it_is_read(self) -> None:
        """J4: a setting of Java's clients may have one inside."""
        conf = SimpleNamespace(getAll={"spark.hadoop.fs.s3a.secret.key": "of-the-bucket", "spark.master": "local[*]"})
        spark: Any = SimpleNamespace(conf=conf)
        jaas = 'org.x.Module required username="me" password="of \\"kafka\\" it";'
        options = {
            "kafka.sasl.jaas.config": jaas,
            "kafka.ssl.truststore.password": "of-the-store",
            "minPartitions": "12",
        }
        with pytest.raises(ConfigurationError):  # no broker is asked: it has neither topics nor a pattern
            read_kafka(spark, "h:9092", options=options)
        said = f'of-the-bucket of-the-store {jaas} of "kafka" it, local[*] 12'
        assert secret.without_secrets(said) == "*** *** *** ***, local[*] 12"

    def test_those_of_a_command_line_are_known_before_spark_has_them(self) -> None:
        settings(["spark.hadoop.fs.s3a.secret.key=of-the-bucket", "spark.x.token.enabled=true"], None, None)
        assert secret.without_secrets("of-the-bucket true") == "*** true"
