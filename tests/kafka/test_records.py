"""Arrow columns to record batches, read back by another parser."""

import struct
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from kafka.record import MemoryRecords

from onceward.errors import InvalidRows, RecordTooLarge
from onceward.kafka import columns as columns_module
from onceward.kafka.records import BatchHeader, Columns, Compression, EncodedBatch, encode, stamp
from onceward.kafka.varints import TABLE_SIZE, varints, widths

NOW = 1_700_000_000_000
CAP = 1_048_588  # max.message.bytes' default
HEADER_BYTES = 61
HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
BINARY = pa.binary()
CODECS = list(Compression)
SHORT = Random(2).randbytes(100)


# Rows made, encoded and read back


@dataclass(frozen=True, slots=True)
class Row:
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = NOW


def columns(rows: list[Row], *, timestamps: bool = True) -> Columns:
    entries = [[{"key": key, "value": value} for key, value in row.headers] for row in rows]
    return Columns(
        key=pa.array([row.key for row in rows], pa.binary()),
        value=pa.array([row.value for row in rows], pa.binary()),
        headers=pa.array(entries, HEADERS),
        timestamp=pa.array([row.timestamp for row in rows], pa.int64()) if timestamps else None,
    )


def encoded(
    data: Columns,
    routes: list[int],
    compression: Compression = Compression.NONE,
    cap: int | dict[int, int] = CAP,
    hashes: np.ndarray | None = None,
    **options: Any,
) -> list[EncodedBatch]:
    return list(
        encode(
            data,
            np.array(routes, np.int32),
            np.arange(len(routes)) if hashes is None else hashes,
            compression=compression,
            max_batch_bytes=cap,
            timestamp_ms=NOW,
            **options,
        )
    )


def without_producer(batch: EncodedBatch) -> bytes:
    return stamp(batch.payload, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False)


def read(batch: EncodedBatch) -> list[Row]:
    """The batch as kafka-python reads it, with its CRC checked and its offsets and header consistent."""
    payload = _inflated(without_producer(batch))
    reader = MemoryRecords(payload).next_batch()
    assert reader.validate_crc()
    records = list(reader)
    assert [record.offset for record in records] == list(range(batch.count))
    header = BatchHeader.of(payload)
    assert (header.record_count, header.last_offset_delta) == (batch.count, batch.count - 1)
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)
    return [Row(record.key, record.value, tuple(record.headers), record.timestamp) for record in records]


def read_by_route(batches: list[EncodedBatch]) -> dict[int, list[Row]]:
    rows = defaultdict(list)
    for batch in batches:
        rows[batch.route] += read(batch)
    return dict(rows)


def by_route(rows: list[Row], routes: list[int]) -> dict[int, list[Row]]:
    expected = defaultdict(list)
    for row, route in zip(rows, routes, strict=True):
        expected[route].append(row)
    return dict(expected)


def random_rows(random: Random, count: int, longest: int = 300) -> list[Row]:
    def some_bytes() -> bytes | None:
        return random.choice([None, b"", random.randbytes(random.randrange(longest)), b"abc" * random.randrange(60)])

    def headers() -> tuple[tuple[str, bytes | None], ...]:
        names = ["", "trace", "Grüße", "h" * 70]
        return tuple((random.choice(names), some_bytes()) for _ in range(random.choice([0, 0, 0, 1, 2, 70])))

    spread = random.choice([0, 10, 10_000, 10**12])
    return [Row(some_bytes(), some_bytes(), headers(), NOW + random.randint(-spread, spread)) for _ in range(count)]


def _inflated(payload: bytes) -> bytes:
    """kafka-python needs further packages for lz4, snappy and zstd: here Arrow's codecs stand in for them.

    The frames are taken apart by hand, apart from the encoder; Kafka's own readers judge them on the broker.
    """
    header, body = BatchHeader.of(payload), payload[HEADER_BYTES:]
    codec = list(Compression)[header.attributes & 7]
    if codec in {Compression.NONE, Compression.GZIP}:
        return payload
    plain = {Compression.SNAPPY: _snappy, Compression.LZ4: _lz4, Compression.ZSTD: _zstd}[codec](body)
    bare = header._replace(length=header.length - len(body) + len(plain), attributes=header.attributes & ~7)
    return stamp(bare.packed() + plain, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False)


def _snappy(body: bytes) -> bytes:
    magic, version, oldest, size = struct.unpack_from(">8siii", body)
    assert (magic, version, oldest, size) == (b"\x82SNAPPY\0", 1, 1, len(body) - 20)
    return pa.Codec("snappy").decompress(body[20:], _uvarint(body[20:]), asbytes=True)


def _uvarint(data: bytes) -> int:
    number = 0
    for place, byte in enumerate(data):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return number


def _lz4(body: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(body), compression="lz4") as stream:
        return stream.read()


def _zstd(body: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(body), compression="zstd") as stream:
        return stream.read()


def values(*rows: bytes | None) -> Columns:
    return Columns(value=pa.array(rows, BINARY))


# What a record keeps


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(6))
def test_random_tables_come_back_as_they_went_in(codec: Compression, seed: int) -> None:
    """C1: the order within a partition is kept."""
    random = Random(seed)
    rows = random_rows(random, 400)
    routes = [random.randrange(random.choice([1, 5, 100])) for _ in rows]
    batches = encoded(columns(rows), routes, codec, target_batch_bytes=random.choice([500, 20_000, 10**6]))
    assert read_by_route(batches) == by_route(rows, routes)


@pytest.mark.parametrize("codec", CODECS)
def test_a_codec_is_named_in_the_batch_and_makes_it_smaller(codec: Compression) -> None:
    (batch,) = encoded(values(*[b"the same again " * 8] * 5000), [0] * 5000, codec)
    assert BatchHeader.of(batch.payload).attributes == CODECS.index(codec)
    assert codec is Compression.NONE or len(batch.payload) < 200_000
    assert [row.value for row in read(batch)] == [b"the same again " * 8] * 5000


@pytest.mark.parametrize("codec", CODECS)
def test_what_does_not_shrink_is_sent_uncompressed(codec: Compression) -> None:
    rows = [Row(value=Random(4).randbytes(500_000))]
    (batch,) = encoded(columns(rows), [0], codec)
    assert BatchHeader.of(batch.payload).attributes == 0
    assert read(batch) == rows


def test_null_and_empty_stay_apart() -> None:
    rows = [Row(None, None), Row(b"", b""), Row(None, b""), Row(b"", None), Row(b"k", b"v")]
    (batch,) = encoded(columns(rows), [0] * 5)
    assert read(batch) == rows


@pytest.mark.parametrize("absent", [None, pa.nulls(3), pa.nulls(3, BINARY), pa.nulls(3, pa.large_string())])
def test_a_missing_column_is_a_column_of_nulls(absent: pa.Array | None) -> None:
    (batch,) = encoded(Columns(key=absent, value=absent), [0] * 3)
    assert read(batch) == [Row()] * 3


def test_headers_keep_order_repeats_and_null_values() -> None:
    rows = [
        Row(headers=(("b", b"1"), ("a", None), ("b", b""))),
        Row(),
        Row(headers=(("Grüße", b"\xff\0"),)),
        Row(headers=tuple((f"h{number}", b"%d" % number) for number in range(200))),
    ]
    (batch,) = encoded(columns(rows), [0] * 4)
    assert read(batch) == rows


def test_a_null_list_of_headers_is_no_headers() -> None:
    entry = {"key": "k", "value": b"v"}
    headers = pa.array([None, [], [entry], None], HEADERS)
    (batch,) = encoded(Columns(headers=headers), [0] * 4)
    assert [row.headers for row in read(batch)] == [(), (), (("k", b"v"),), ()]
    (batch,) = encoded(Columns(headers=headers.slice(2)), [0] * 2)
    assert [row.headers for row in read(batch)] == [(("k", b"v"),), ()]
    (batch,) = encoded(Columns(headers=headers.slice(0, 2)), [0] * 2)
    assert [row.headers for row in read(batch)] == [(), ()]


def test_the_entries_of_a_null_list_are_not_sent() -> None:
    """Arrow allows a null list to cover entries."""
    entries = pa.array([{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], HEADERS.value_type)
    mask = pa.array([True, False])
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries, mask=mask)
    (batch,) = encoded(Columns(headers=headers), [0, 0])
    assert [row.headers for row in read(batch)] == [(), (("b", b"2"),)]


def test_a_null_among_bytes_hides_what_lies_under_it() -> None:
    """Arrow allows a null slot to cover bytes."""
    bits, offsets = pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 3, 6], np.int32))
    hidden = pa.Array.from_buffers(BINARY, 2, [bits, offsets, pa.py_buffer(b"oldnew")])
    (batch,) = encoded(Columns(key=hidden, value=hidden), [0, 0])
    assert read(batch) == [Row(), Row(b"new", b"new")]


@pytest.mark.parametrize("entry", [{"key": None, "value": b"v"}, None])
def test_a_header_without_a_key_is_refused(entry: dict[str, bytes] | None) -> None:
    with pytest.raises(InvalidRows, match="null key"):
        encoded(Columns(headers=pa.array([[entry]], HEADERS)), [0])


# Types and layouts


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), BINARY, pa.large_binary()], ids=str)
def test_text_and_bytes_of_either_width_are_the_same(kind: pa.DataType) -> None:
    texts = ["Grüße", "", None, "x" * 70_000]
    column = pa.array(texts, kind) if pa.types.is_string(kind) else pa.array(texts, pa.string()).cast(kind)
    (batch,) = encoded(Columns(key=column, value=column), [0] * 4)
    expected = [None if text is None else text.encode() for text in texts]
    assert [(row.key, row.value) for row in read(batch)] == [(data, data) for data in expected]


def test_chunks_and_slices_change_nothing() -> None:
    random = Random(8)
    rows = random_rows(random, 300)
    routes = [random.randrange(3) for _ in rows]
    whole = columns([Row(b"before", b"it"), *rows, Row(b"after", b"it")])
    sliced = Columns(
        key=whole.key.slice(1, 300),
        value=pa.chunked_array([whole.value.slice(1, 100), whole.value.slice(101, 0), whole.value.slice(101, 200)]),
        headers=pa.chunked_array([whole.headers.slice(1, 7), whole.headers.slice(8, 293)]),
        timestamp=pa.chunked_array([whole.timestamp.slice(1, 299), whole.timestamp.slice(300, 1)]),
    )
    assert encoded(sliced, routes) == encoded(columns(rows), routes)
    assert read_by_route(encoded(sliced, routes)) == by_route(rows, routes)


def test_an_input_too_large_for_one_array_is_taken_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1: the order is kept over the seams."""
    random = Random(9)
    rows = [*random_rows(random, 200), Row(value=SHORT * 500), *random_rows(random, 200)]
    routes = [random.randrange(3) for _ in rows]
    chunks = pa.chunked_array([columns(rows[:250]).value, columns(rows[250:]).value])
    whole = columns(rows)
    monkeypatch.setattr(columns_module, "RUN_BYTES", 10_000)
    data = Columns(key=whole.key, value=chunks, headers=whole.headers, timestamp=whole.timestamp)
    batches = encoded(data, routes)
    assert len(batches) > 10
    assert read_by_route(batches) == by_route(rows, routes)


def test_rows_of_a_route_keep_their_order() -> None:
    """C1"""
    numbers = [b"%d" % number for number in range(50_000)]
    routes = np.random.default_rng(1).integers(0, 7, 50_000).tolist()
    for shift in (0, 70_000):  # routes beyond 16 bits are sorted another way
        batches = encoded(values(*numbers), [route + shift for route in routes])
        seen = {route: [int(row.value or b"") for row in rows] for route, rows in read_by_route(batches).items()}
        assert all(order == sorted(order) for order in seen.values())
        assert sorted(chain.from_iterable(seen.values())) == list(range(50_000))


def test_no_rows_make_no_batches() -> None:
    assert encoded(values(), []) == []
    assert encoded(Columns(), []) == []
    empty = pa.chunked_array([], BINARY)
    assert encoded(Columns(value=empty, headers=pa.chunked_array([], HEADERS)), []) == []


def test_one_row_makes_one_batch() -> None:
    (batch,) = encoded(values(b"v"), [12])
    assert (batch.route, batch.count, read(batch)) == (12, 1, [Row(value=b"v")])


def test_columns_without_a_type_say_nothing() -> None:
    """What Spark makes of `lit(None)`."""
    data = Columns(value=pa.array([b"v"]), key=pa.nulls(1), headers=pa.nulls(1), timestamp=pa.nulls(1))
    assert encoded(data, [0]) == encoded(values(b"v"), [0])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (Columns(value=pa.array([1])), "'value' has type int64"),
        (Columns(key=pa.array([1.5])), "'key' has type double"),
        (Columns(headers=pa.array(["a"])), "'headers' has type string"),
        (Columns(headers=pa.array([["a"]])), "'headers' has type list"),
        (Columns(headers=pa.array([[{"k": "a", "v": b"b"}]])), "struct<key string, value binary>"),
        (Columns(timestamp=pa.array(["now"])), "'timestamp' has type string"),
        (Columns(timestamp=pa.array([-1])), "before 1970"),
    ],
)
def test_columns_kafka_cannot_take_are_refused_by_name(data: Columns, said: str) -> None:
    with pytest.raises(InvalidRows, match=said):
        encoded(data, [0])


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        encoded(values(b"a", b"b"), [0])


# Timestamps


def test_timestamps_may_fall_and_jump() -> None:
    times = [NOW, NOW - 1, NOW + 70_000, NOW - 10**12, 0, NOW + 2**40, NOW]
    rows = [Row(value=b"v", timestamp=time) for time in times]
    (batch,) = encoded(columns(rows), [0] * 7)
    assert read(batch) == rows


def test_without_a_column_the_time_given_stands_everywhere() -> None:
    (batch,) = encoded(values(b"a", b"b"), [0, 0])
    header = BatchHeader.of(batch.payload)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW)
    assert [row.timestamp for row in read(batch)] == [NOW, NOW]


def test_a_null_timestamp_is_the_time_given() -> None:
    (batch,) = encoded(Columns(timestamp=pa.array([5, None, 7])), [0] * 3)
    assert [row.timestamp for row in read(batch)] == [5, NOW, 7]
    (batch,) = encoded(Columns(timestamp=pa.nulls(2)), [0] * 2)
    assert [row.timestamp for row in read(batch)] == [NOW, NOW]


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_arrow_timestamps_of_any_unit_become_milliseconds(unit: str, per_second: int, zone: str | None) -> None:
    times = pa.array([1_700_000_000 * per_second, per_second + per_second // 2, None], pa.timestamp(unit, zone))
    (batch,) = encoded(Columns(timestamp=times), [0] * 3)
    half = 500 if per_second > 1 else 0
    assert [row.timestamp for row in read(batch)] == [NOW, 1000 + half, NOW]


# Sizes


def exact_value(cap: int) -> bytes:
    """A value whose batch, with nothing but the value in it, is `cap` bytes long."""
    for size in range(cap - HEADER_BYTES - 20, cap - HEADER_BYTES):
        (batch,) = encoded(values(bytes(size)), [0])
        if len(batch.payload) == cap:
            return bytes(size)
    raise AssertionError(cap)


@pytest.mark.parametrize("cap", [200, 10_000, CAP])
def test_a_record_exactly_at_the_cap_goes_and_one_byte_more_does_not(cap: int) -> None:
    value = exact_value(cap)
    (batch,) = encoded(values(value), [0], cap=cap)
    assert len(batch.payload) == cap
    with pytest.raises(RecordTooLarge):
        encoded(values(value + b"x"), [0], cap=cap)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_too_large_is_named_with_size_limit_and_setting(codec: Compression) -> None:
    data = values(b"small", Random(1).randbytes(3000), b"small")
    with pytest.raises(RecordTooLarge) as caught:
        encoded(data, [7] * 3, codec, cap=2000, name_of=lambda route: f"topic 'clicks', partition {route}")
    message = str(caught.value)
    for part in (
        "topic 'clicks', partition 7",
        "one record takes 3070 bytes",
        "allows 2000",
        "max.message.bytes",
    ):
        assert part in message


def test_a_record_beyond_32_bits_is_too_large_for_any_topic() -> None:
    """Its bytes are never touched, so these 3 GiB take no memory."""
    offsets = pa.py_buffer(np.array([0, 3 << 30], np.int64))
    value = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(np.empty(3 << 30, np.uint8))])
    with pytest.raises(RecordTooLarge, match="takes 32212254"):
        encoded(Columns(value=value), [0], Compression.ZSTD, cap=2**31 - 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cap", [600, 5000, 100_000])
def test_no_batch_is_over_the_cap(codec: Compression, cap: int) -> None:
    random = Random(cap)
    rows = random_rows(random, 1500, longest=400 if cap > 600 else 100)
    rows = [Row(row.key, row.value, row.headers[: cap // 2500], row.timestamp) for row in rows]
    routes = [random.randrange(4) for _ in rows]
    batches = encoded(columns(rows), routes, codec, cap=cap)
    assert max(len(batch.payload) for batch in batches) <= cap
    assert read_by_route(batches) == by_route(rows, routes)


def test_batches_are_filled_close_to_the_target() -> None:
    batches = encoded(values(*[SHORT] * 50_000), [0] * 50_000)
    assert all(950_000 < len(batch.payload) <= 1_000_000 for batch in batches[:-1])


def test_each_route_has_its_own_cap() -> None:
    batches = encoded(values(*[SHORT] * 100), [0, 1] * 50, cap={0: 1000, 1: 100_000})
    assert [batch.route for batch in batches].count(1) == 1
    assert all(len(batch.payload) <= 1000 for batch in batches if batch.route == 0)


def test_a_compressed_batch_may_hold_more_than_the_cap_uncompressed() -> None:
    (batch,) = encoded(values(bytes(3_000_000)), [0], Compression.ZSTD)
    assert len(read(batch)[0].value or b"") == 3_000_000


def test_a_batch_that_does_not_shrink_enough_is_split() -> None:
    rows = [Row(value=Random(seed).randbytes(1000).hex().encode()) for seed in range(400)]
    batches = encoded(columns(rows), [0] * 400, Compression.ZSTD, cap=100_000)
    assert max(len(batch.payload) for batch in batches) <= 100_000
    assert min(len(batch.payload) for batch in batches) > 40_000
    assert read_by_route(batches) == {0: rows}


@pytest.mark.parametrize("codec", CODECS)
def test_huge_records_go_where_the_topic_allows_them(codec: Compression) -> None:
    huge = Random(1).randbytes(5 << 20)
    rows = [Row(b"k", b"small"), Row(huge[:100_000], huge), Row(b"k", b"small"), Row(None, huge[1:])]
    batches = encoded(columns(rows, timestamps=False), [0, 0, 1, 0], codec, cap=10 << 20)
    assert read_by_route(batches) == by_route(rows, [0, 0, 1, 0])


def test_tiny_records_are_bounded_by_number() -> None:
    count = TABLE_SIZE * 2 + 5
    batches = encoded(Columns(), [0] * count)
    assert [batch.count for batch in batches] == [TABLE_SIZE, TABLE_SIZE, 5]
    assert read(batches[1]) == [Row()] * TABLE_SIZE


# Digests


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_a_digest_is_the_sum_of_the_rows_hashes(kind: type) -> None:
    """G4: replays are compared by digest."""
    hashes = np.random.default_rng(6).integers(-(2**63), 2**63, 1000).view(kind)
    routes = (np.arange(1000) % 3).tolist()
    batches = encoded(values(*[SHORT] * 1000), routes, cap=2000, hashes=hashes)
    assert len(batches) > 50
    for route in range(3):
        digests = [batch.digest for batch in batches if batch.route == route]
        assert all(0 <= digest < 2**64 for digest in digests)
        assert sum(digests) % 2**64 == sum(int(number) for number in hashes[route::3]) % 2**64


# The stamp


def test_before_the_stamp_the_producer_is_unknown() -> None:
    (batch,) = encoded(values(b"v"), [0])
    header = BatchHeader.of(batch.payload)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.magic, header.leader_epoch, header.base_offset) == (2, -1, 0)
    assert header.length == len(batch.payload) - 12


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("transactional", [True, False])
def test_a_stamp_sets_identity_and_checksum_and_nothing_else(codec: Compression, transactional: bool) -> None:
    (batch,) = encoded(values(*[b"abc" * 50] * 100), [0] * 100, codec)
    sent = stamp(batch.payload, producer_id=2**40, producer_epoch=32_766, base_sequence=77, transactional=transactional)
    reader = MemoryRecords(sent).next_batch()
    assert (reader.producer_id, reader.producer_epoch, reader.base_sequence) == (2**40, 32_766, 77)
    assert reader.is_transactional is transactional
    assert reader.crc == google_crc32c.value(sent[21:])
    header = BatchHeader.of(sent)
    assert header.attributes & 7 == CODECS.index(codec)
    assert sent[HEADER_BYTES:] == batch.payload[HEADER_BYTES:]
    assert without_producer(batch)[:17] == sent[:17] == batch.payload[:17]


def test_a_stamp_can_be_replaced() -> None:
    (batch,) = encoded(values(b"v"), [0])
    first = stamp(batch.payload, producer_id=1, producer_epoch=2, base_sequence=3, transactional=True)
    assert stamp(first, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False) == (
        without_producer(batch)
    )


# Varints


def test_varints_are_kafkas_over_the_whole_range() -> None:
    edges = {sign * (1 << bits) + near for bits in range(63) for near in (-1, 0, 1) for sign in (1, -1)}
    numbers = np.array(sorted(edges | {2**63 - 1, -(2**63)}), np.int64)
    expected = [one_varint(int(number)) for number in numbers]
    assert varints(numbers).to_pylist() == expected
    assert varints(numbers, after_zero=True).to_pylist() == [b"\0" + number for number in expected]
    assert widths(numbers).tolist() == [len(number) for number in expected]


def test_small_varints_come_from_the_table() -> None:
    numbers = np.arange(-1, TABLE_SIZE, dtype=np.int32)
    expected = [one_varint(int(number)) for number in numbers]
    assert varints(numbers).to_pylist() == expected
    assert widths(numbers).tolist() == [len(number) for number in expected]


def one_varint(number: int) -> bytes:
    """As Kafka's ByteUtils.writeVarlong does it."""
    rest, data = (number << 1 ^ number >> 63) & 0xFFFF_FFFF_FFFF_FFFF, bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*data, rest])
