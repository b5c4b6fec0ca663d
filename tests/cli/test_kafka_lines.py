"""Records as lines, for people and for programs, there and back."""

import json

import pytest

from onceward.cli.kafka_lines import JsonLines, Lines, PlainLines, Row, as_json, rows, shown
from onceward.epoch.outcome import TopicPartition
from onceward.errors import ConfigurationError
from onceward.kafka.reading import Record


def record(key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None]) -> Record:
    return Record(TopicPartition("t", 2), 7, 1_700_000_000_000, key, value, list(headers))


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"ann:home", Row(b"home", b"ann")),
        (b"ann:a:b", Row(b"a:b", b"ann")),  # the first one counts
        (b"home", Row(b"home")),
        (b"ann:", Row(b"", b"ann")),
        (b":home", Row(b"home", b"")),
        (b'["no colon"]', Row(b'["no colon"]')),
        (b"\xff:\xfe", Row(b"\xfe", b"\xff")),  # bytes are kept as they are
    ],
)
def test_a_line_is_a_key_and_a_value(line: bytes, row: Row) -> None:
    assert PlainLines().row(line) == row


def test_json_is_not_cut_at_its_first_colon_unless_the_user_says_so() -> None:
    """I3: half an object as a key is never what was meant."""
    line = b'{"user": 1}'
    with pytest.raises(ConfigurationError, match=r"line 12: it begins like JSON.*--no-key"):
        list(rows([b"ann:1", line], 11, PlainLines()))
    assert PlainLines(separator=None).row(line) == Row(line)
    assert PlainLines(chosen=True).row(b"{a}:b") == Row(b"b", b"{a}")


def test_empty_lines_are_passed_over_and_counted() -> None:
    assert list(rows([b"", b"a", b""], 1, PlainLines())) == [Row(b"a")]
    with pytest.raises(ConfigurationError, match="line 3: "):
        list(rows([b'{"value": 1}', b"", b"{"], 1, JsonLines()))


def test_lines_may_come_in_pieces() -> None:
    lines = Lines()
    assert [lines.of(it) for it in (b"a\nb", b"c\n", b"d", b"")] == [[b"a"], [b"bc"], [], [b"d"]]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ('{"value": "home"}', Row(b"home")),
        ('{"key": "ann", "value": null}', Row(None, b"ann")),
        ('{"value": {"user": 1}, "partition": 3}', Row(b'{"user":1}', partition=3)),
        ('{"value": 1.5, "timestamp_ms": 9}', Row(b"1.5", timestamp_ms=9)),
        ('{"value": {"base64": "/w=="}, "headers": {"a": "b"}}', Row(b"\xff", headers=[("a", b"b")])),
        ('{"value": "x", "headers": [["a", null], ["a", "c"]]}', Row(b"x", headers=[("a", None), ("a", b"c")])),
    ],
)
def test_a_json_line_is_a_record(line: str, row: Row) -> None:
    assert JsonLines().row(line.encode()) == row


@pytest.mark.parametrize(
    "line", ["", "[]", "{}", '{"value": 1, "keys": 2}', '{"value": {"base64": "?"}}', '{"value": 1']
)
def test_any_other_json_is_refused_with_an_example(line: str) -> None:
    """I3."""
    with pytest.raises(ConfigurationError, match=r'such as \{"key": "ann", "value": "1"\}'):
        JsonLines().row(line.encode())


@pytest.mark.parametrize(
    "found",
    [
        record(b"ann", b"home"),
        record(None, None),
        record(b"\xff\x00", b"\x80", ("h", b"\xfe"), ("h", None)),
    ],
)
def test_what_is_printed_as_json_can_be_written_again(found: Record) -> None:
    row = JsonLines().row(as_json(found).encode())
    assert (row.key, row.value, row.headers) == (found.key, found.value, found.headers)
    assert (row.partition, row.timestamp_ms) == (2, found.timestamp_ms)
    assert json.loads(as_json(found))["offset"] == 7


def test_a_record_is_one_line_that_a_terminal_does_not_act_on() -> None:
    assert shown(record(b"ann", b"home"), where=False) == "ann:home"
    assert shown(record(b"ann", b"home"), where=True, separator="\t") == "2@7\tann\thome"
    assert shown(record(None, b"a\nb\x1b[31m\xff"), where=False) == r"a\nb\x1b[31m\xff"
    assert shown(record(b"ann", None), where=False) == "ann:(no value)"
