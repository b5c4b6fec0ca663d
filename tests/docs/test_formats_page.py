"""The page on formats as a reader follows it: its files, on a real broker, and a stand-in for a schema registry."""

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import fastavro
import pytest
from google.protobuf import (  # type: ignore[import-untyped] # it ships no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from pyspark.sql import SparkSession

from onceward.pipeline.host import load
from support.judge import Kafka
from support.page_files import DOCS, write_files
from support.runs import run

PAGE = DOCS / "formats.md"
FIELDS = [{"name": "id", "type": "string"}, {"name": "cents", "type": "int"}]
FIRST = {"type": "record", "name": "Click", "fields": FIELDS}
SECOND = {**FIRST, "fields": [{"name": "ad", "type": "string"}, *FIELDS]}  # a version with a field more, and before
SCHEMAS = {7: FIRST, 8: SECOND}


class Answers(BaseHTTPRequestHandler):
    """As a registry does."""

    def do_GET(self) -> None:
        number = int(self.path.removeprefix("/schemas/ids/"))
        self.send_response(200 if number in SCHEMAS else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"schema": json.dumps(SCHEMAS.get(number))}).encode())

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def registry() -> Iterator[str]:
    """Where it listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(
    spark: SparkSession, kafka: Kafka, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder with the page's files, whose modules Spark's workers find too."""
    write_files(PAGE, tmp_path, port_9092=kafka.bootstrap, port_8081=registry)
    (tmp_path / "taps_pb2.py").write_text(_as_protoc_writes(_tap()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(tmp_path))
    yield tmp_path
    for name in ("registry", "avro_clicks", "taps_pb2", "protobuf_taps"):
        sys.modules.pop(name, None)


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def test_avro_is_read_with_the_schema_that_it_was_written_with(spark: SparkSession, kafka: Kafka, page: Path) -> None:
    """I7: several versions in one topic; what cannot be read is a dead letter with its reason."""

    def written(number: int, **click: Any) -> bytes:
        data = BytesIO()
        fastavro.schemaless_writer(data, SCHEMAS[number], click)
        return framed(number, data.getvalue())

    good = [written(7, id="a", cents=1), written(8, id="b", cents=2, ad="x")]
    bad = {
        b"plain": "ValueError: not written with a schema registry",
        framed(99, b""): "ValueError: schema 99 is not in the registry",
        good[0] + b"!": "ValueError: there is more after the record's end",
        good[0][:-1]: "EOFError",
    }
    read, dead = _run(spark, kafka, page, "avro", "clicks", [*good, *bad])
    assert read == [{"id": "a", "cents": 1}, {"id": "b", "cents": 2, "ad": "x"}]
    assert dead == bad


def test_protobuf_is_read_by_its_fields_numbers(spark: SparkSession, kafka: Kafka, page: Path) -> None:
    """I7."""
    tap = _message(_tap())
    good = [framed(9, b"\0" + tap(id="a", cents=1).SerializeToString())]
    bad = {
        framed(9, b"\x02\x02"): "ValueError: not the first message of its schema",
        b"plain": "ValueError: not written with a schema registry",
    }
    read, dead = _run(spark, kafka, page, "protobuf", "taps", [*good, *bad, framed(9, b"\0\xff")])
    assert read == [{"id": "a", "cents": 1}]
    assert dead.pop(framed(9, b"\0\xff")).startswith("DecodeError")
    assert dead == bad


def _run(
    spark: SparkSession, kafka: Kafka, page: Path, form: str, what: str, values: list[bytes]
) -> tuple[list[dict[str, Any]], dict[bytes, str]]:
    topic = f"{form}-{what}"
    kafka.wire.create_topics([topic, f"{topic}-read", f"{topic}-dead"], 1)
    kafka.feed(topic, [("k", value) for value in values])
    run(load(page / f"{form}_job.py")(spark)[0])
    dead = {it.value(): dict(it.headers())["dead-letter-reason"].decode() for it in kafka.read(f"{topic}-dead")}
    return [json.loads(it) for it in kafka.values(f"{topic}-read")], dead


def _tap() -> Any:
    """What protoc makes of the page's message."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="taps.proto", syntax="proto3")
    fields = [
        field(name="id", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL),
        field(name="cents", number=2, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL),
    ]
    file.message_type.add(name="Tap", field=fields)
    return file


def _message(file: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Tap"))


def _as_protoc_writes(file: Any) -> str:
    return (
        "from google.protobuf import descriptor_pool\n"
        "from google.protobuf.internal import builder\n"
        f"DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({file.SerializeToString()!r})\n"
        "builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())\n"
        "builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, 'taps_pb2', globals())\n"
    )
