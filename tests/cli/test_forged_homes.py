"""Homes that somebody else has written: their checksums are right, and what they say is still only a claim."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceward as ow
from onceward.cli import destinations
from onceward.cli.main import app
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, PREPARED, Entry, Ledger, SinkEntry
from onceward.errors import ConfigurationError, DestinationUnconfirmed, SinkUnreachable, TargetUnusable
from onceward.pipeline.reviving import KINDS, revival

KAFKA = "onceward.sinks.kafka.sink:KafkaSink"
POSTGRES = "onceward.sinks.postgres.sink:PostgresSink"
ICEBERG = "onceward.sinks.iceberg.sink:IcebergSink"
DELTA = "onceward.sinks.delta.sink:DeltaSink"
FILES = "onceward.sinks.files.sink:FileSink"
EVIL = "import pathlib; pathlib.Path(__file__).with_name('imported').touch()\n"


class Listener:
    """A server of a stranger's, which notes whether anybody has connected."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def was_met(self) -> bool:
        """A connection is in the queue as soon as `connect` has returned over there."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def stranger() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def forge(root: Path, *, decider: str = "ledger", phase: str = DONE, **sinks: tuple[str, dict[str, Any] | None]) -> str:
    """A home that passes every check of its own."""
    home = Home.at(root / "home")
    home.open("p", "exactly-once", "L")
    parts = {name: SinkEntry(kind=kind, settings=settings) for name, (kind, settings) in sinks.items()}
    entry = Entry(
        pipeline="p", lineage="L", term=1, epoch=3, phase=phase, positions=["7"], decider=decider, sinks=parts
    )
    Ledger(home.storage, {}, "L").write(entry)
    return home.location


def run(*arguments: str) -> None:
    app([*arguments, "--json"], standalone_mode=False)


def as_a_user_runs_it(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a folder that Python imports from, as `python -m` does."""
    return subprocess.run(
        [sys.executable, "-m", "onceward", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["resolve", "in-doubt"])
@pytest.mark.parametrize("settings", [None, {}, {"path": "/"}])
def test_a_strangers_class_is_never_imported(command: str, settings: dict[str, Any] | None, tmp_path: Path) -> None:
    """J5."""
    (tmp_path / "evil.py").write_text(EVIL)
    home = forge(tmp_path, decider="x", phase=PREPARED, x=("evil:Sink", settings))
    ended = as_a_user_runs_it(tmp_path, command, home)
    assert "--file FILE.py" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("py-io-impl", "evil.FileIO"),
        ("py-catalog-impl", "evil.Catalog"),
        ("type", "evil"),
        ("uri", "evil://host/db"),
        ("uri", "sqlite:///x?uri=true"),
        ("auth", "{'type': 'custom', 'impl': 'evil.Auth'}"),
        ("s3.signer.uri", "http://127.0.0.1:1"),
    ],
)
def test_a_catalogue_that_names_code_is_never_loaded(setting: str, value: str, tmp_path: Path) -> None:
    """J5."""
    (tmp_path / "evil.py").write_text(EVIL)
    catalog = {"name": "default", "type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", setting: value}
    home = forge(tmp_path, lake=(ICEBERG, {"catalog": catalog, "table": "ns.t"}))
    ended = as_a_user_runs_it(tmp_path, "resolve", home, "--confirm", "0" * 16)
    assert ended.returncode == 1
    assert "sink 'lake': its settings are not taken from a home" in ended.stderr
    assert not (tmp_path / "imported").exists()
    assert not (tmp_path / "c.db").exists()


@pytest.mark.parametrize("command", ["resolve", "in-doubt"])
def test_another_host_is_shown_and_not_connected(
    command: str, stranger: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J4, J5: the password of the environment stays here."""
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    dsn = f"host=127.0.0.1 port={stranger.port} user=me dbname=shop"
    home = forge(
        tmp_path,
        decider="kafka",
        phase=PREPARED,
        kafka=(KAFKA, {"bootstrap": f"127.0.0.1:{stranger.port}", "topic": "out"}),
        sales=(POSTGRES, {"dsn": dsn, "table": "sales"}),
    )
    ended = as_a_user_runs_it(tmp_path, command, home)
    told = ended.stdout + ended.stderr
    assert f"kafka: Kafka at 127.0.0.1:{stranger.port}, topic out" in told
    assert "--confirm" in told
    assert "--file FILE.py" in told
    assert "hunter2" not in told
    assert not stranger.was_met()
    if command == "resolve":
        assert ended.returncode == 1
        assert f"sales: PostgreSQL at {dsn}, table sales" in told


@pytest.mark.parametrize(
    "extra",
    ["service=evil", "passfile=/tmp/x", "sslkey=/tmp/x", "sslrootcert=/tmp/x", "options='-c a=b'", "password=x"],
)
def test_a_connection_string_that_names_files_options_or_secrets_is_refused(
    extra: str, stranger: Listener, tmp_path: Path
) -> None:
    """J5."""
    home = forge(tmp_path, db=(POSTGRES, {"dsn": f"host=127.0.0.1 port={stranger.port} {extra}", "table": "t"}))
    with pytest.raises(ConfigurationError, match=rf"dsn says {extra.partition('=')[0]}"):
        run("resolve", home)
    assert not stranger.was_met()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (KAFKA, {"bootstrap": "h:1", "settings": {"sasl.password": "${env:AWS_SECRET_ACCESS_KEY}"}}),
        (KAFKA, {"bootstrap": 7}),
        (DELTA, {"path": "/x", "storage_options": {}}),
        (FILES, {}),
    ],
)
def test_a_setting_that_no_home_may_give_is_refused(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="sink 's': its settings are not taken from a home"):
        run("resolve", forge(tmp_path, s=(kind, settings)))


@pytest.mark.parametrize(
    ("kind", "settings", "committable"),
    [
        (POSTGRES, {"dsn": "host=h", "table": "sales"}, {"target": ["public", "users"], "schema": "onceward"}),
        (POSTGRES, {"dsn": "host=h", "table": "a.sales"}, {"target": ["b", "sales"], "schema": "onceward"}),
        (POSTGRES, {"dsn": "host=h", "table": "sales"}, {"target": ["public", "sales"], "schema": "other"}),
        (POSTGRES, {"dsn": "host=h", "table": "sales"}, {"target": "sales"}),
        (FILES, {"path": "/x"}, {"term": 1, "attempt": "1/../../etc"}),
        (DELTA, {"path": "/x"}, {"files": [["onceward-1/../../../etc/passwd", 1, 1, [], None]]}),
        (DELTA, {"path": "/x"}, {"files": [], "manifest": "/etc/passwd"}),
        (DELTA, {"path": "/x"}, {"files": [7]}),
    ],
)
def test_a_vote_that_leads_elsewhere_than_the_destination_shown_is_refused(
    kind: str, settings: dict[str, Any], committable: dict[str, Any]
) -> None:
    """J5: what is confirmed is what is done."""
    with pytest.raises(ConfigurationError, match="sink 's': its settings are not taken from a home"):
        revival("s", SinkEntry(kind=kind, settings=settings, committable=committable))


def test_a_code_confirms_these_destinations_and_no_others(
    stranger: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J5: a script's consent is worth nothing once somebody has changed the home."""
    honest = {"dsn": "host=127.0.0.1 port=1 user=me", "table": "t"}
    home = forge(tmp_path, db=(POSTGRES, honest))
    with pytest.raises(DestinationUnconfirmed) as caught:
        run("resolve", home)
    code = str(caught.value).split("--confirm ")[1].split(",")[0]
    with pytest.raises(SinkUnreachable, match="port 1 failed"):  # confirmed: it was tried
        run("resolve", home, "--confirm", code)
    forge(tmp_path, db=(POSTGRES, {**honest, "dsn": f"host=127.0.0.1 port={stranger.port} user=me"}))
    with pytest.raises(
        DestinationUnconfirmed, match=f"is not the code of what the home names now(?s:.*){stranger.port}"
    ):
        run("resolve", home, "--confirm", code)
    assert not stranger.was_met()


@pytest.mark.parametrize("answer", ["n", "y"])
def test_somebody_at_a_terminal_is_asked(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    home = forge(tmp_path, lake=(DELTA, {"path": f"{tmp_path}/file/t"}))
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: answer == "y")
    with pytest.raises(DestinationUnconfirmed if answer == "n" else TargetUnusable):
        run("resolve", home)
    assert f"lake: Delta table in {tmp_path}/file/t" in capsys.readouterr().err


def test_a_destination_cannot_draw_on_the_terminal_or_look_like_another() -> None:
    known = revival("a\nb", SinkEntry(kind=KAFKA, settings={"bootstrap": "аpple.com:9092", "topic": "\x1b[2J\u202et"}))
    (line,) = destinations.lines_of([known])
    assert line == r"a\nb: Kafka at \u0430pple.com:9092, topic \x1b[2J\u202et"


def test_every_sink_of_ours_that_describes_itself_is_on_the_list(tmp_path: Path) -> None:
    """And comes back from there as it was, so that a class that moves cannot be forgotten here."""
    catalog = {"name": "default", "type": "sql", "uri": f"sqlite:///{tmp_path}/c.db"}
    sinks = [
        ow.DeltaSink(tmp_path / "delta", partition_by=["day"]),
        ow.FileSink(tmp_path / "files", format="csv"),
        ow.IcebergSink(catalog=catalog, table="ns.t", partition_by=["day"]),
        ow.KafkaSink("localhost:9092", topic="out", compression="lz4"),
        ow.PostgresSink("host=db user=me", table="t", mode="upsert", key=["id"]),
    ]
    for sink in sinks:
        kind = f"{type(sink).__module__}:{type(sink).__qualname__}"
        settings = json.loads(json.dumps(sink.describe()))
        again = revival("s", SinkEntry(kind=kind, settings=settings)).settings.make()
        assert type(again) is type(sink)
        assert again.describe() == sink.describe()
    assert len(KINDS) == len(sinks)
