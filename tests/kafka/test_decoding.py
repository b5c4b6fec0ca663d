"""Records as columns: the same as another client's decoder finds, and an error where lengths do not add up."""

import random

import numpy as np
import pyarrow as pa
import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from onceward.kafka import decoding
from onceward.kafka.batch import HEADER
from onceward.kafka.columns import Columns
from onceward.kafka.compression import Compression
from onceward.kafka.decoding import Malformed, decode, decode_together
from onceward.kafka.records import encode

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
SEEDS = pytest.mark.parametrize("seed", range(40))


def some(seed: int) -> list[Record]:
    """A handful, of all kinds: nulls, empty, lengths of one and of two bytes, headers, timestamps far apart."""
    dice = random.Random(seed)

    def data() -> bytes | None:
        size = dice.choice([None, 0, dice.randrange(20), dice.randrange(55, 75), dice.randrange(120, 140)])
        return None if size is None else dice.randbytes(size)

    def headers() -> list[tuple[str, bytes | None]]:
        return [(f"h{it}", data()) for it in range(dice.choice([0, 0, 1, 2]))]

    return [
        (data(), data(), headers(), dice.randrange(1 << dice.choice([1, 20, 40]))) for _ in range(dice.randrange(30))
    ]


def built(records: list[Record]) -> bytes:
    """By kafka-python, without compression."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for offset, (key, value, headers, timestamp) in enumerate(records):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


@SEEDS
def test_columns_hold_what_another_decoder_finds(seed: int) -> None:
    records = some(seed)
    batch = built(records)
    found = decode(batch[HEADER.size :], len(records))
    theirs = list(DefaultRecordBatch(batch))
    assert found.key.to_pylist() == [it.key for it in theirs]
    assert found.value.to_pylist() == [it.value for it in theirs]
    assert found.deltas.tolist() == list(range(len(records)))
    assert len(found) == len(records)


@SEEDS
def test_a_body_is_key_and_value_as_they_stand_in_a_record(seed: int) -> None:
    """A copy is encoded from it, headers left out, and another decoder reads the same keys and values."""
    records = some(seed)
    found = decode(built(records)[HEADER.size :], len(records))
    rows = np.zeros(len(records), np.int32)
    copied = encode(
        Columns(body=found.body), rows, rows.astype(np.int64),
        compression=Compression.NONE, max_batch_bytes=1 << 20, timestamp_ms=5,
    ) if records else []  # fmt: skip
    theirs = [it for batch in copied for it in DefaultRecordBatch(batch.payload)]
    assert [(it.key, it.value, it.headers) for it in theirs] == [(key, value, []) for key, value, *_ in records]


def test_large_records() -> None:
    """Lengths of up to four bytes."""
    values = [bytes(size) for size in (63, 64, 8191, 8192, 1 << 20, (1 << 20) + 1)]
    found = decode(built([(b"k", value, [], 0) for value in values])[HEADER.size :], len(values))
    assert found.value.to_pylist() == values


def test_some_rows() -> None:
    found = decode(built([(b"a", b"1", [], 0), (None, b"2", [], 0), (b"c", None, [], 0)])[HEADER.size :], 3)
    some = found.taken(np.array([1, 2]))
    assert (some.key.to_pylist(), some.value.to_pylist(), some.deltas.tolist()) == ([None, b"c"], [b"2", None], [1, 2])


@SEEDS
def test_a_section_that_was_altered_is_refused_or_still_adds_up(seed: int) -> None:
    """E9: never an error of another kind, never columns of another length."""
    records, dice = [*some(seed), *some(seed + 1), (b"k", b"v", [], 0)], random.Random(seed)
    plain = built(records)[HEADER.size :]
    for _ in range(50):
        section = bytearray(plain)
        section[dice.randrange(len(section))] ^= dice.randrange(1, 256)
        try:
            found = decode(bytes(section), len(records))
        except Malformed:
            continue
        assert len(found.key) == len(found.value) == len(found.body) == len(records)


@pytest.mark.parametrize("change", [-1, 1], ids=["one-less", "one-more"])
def test_a_wrong_count_is_refused(change: int) -> None:
    section = built([(b"k", b"v", [], 0)] * 3)[HEADER.size :]
    with pytest.raises(Malformed):
        decode(section, 3 + change)


def test_a_record_that_reaches_into_the_next_is_refused() -> None:
    record = bytes([0, 0, 0, 2, ord("k"), 60, ord("v"), 0])  # a value of 30 bytes, in a record of 8
    section = bytes([len(record) << 1]) + record
    with pytest.raises(Malformed, match="longer than its own length"):
        decode(section + bytes([40 << 1]) + bytes(40), 2)


@SEEDS
def test_the_first_records_alone(seed: int) -> None:
    records = some(seed)
    section = built(records)[HEADER.size :]
    for most in range(len(records) + 2):
        assert decode(section, len(records), most).value.to_pylist() == [value for _, value, *_ in records][:most]


def test_the_first_records_of_a_batch_that_is_cut_off_are_refused_like_all() -> None:
    section = built([(b"k", b"v" * 50, [], 0)] * 3)[HEADER.size :]
    with pytest.raises(Malformed):
        decode(section[:70], 3, 2)


@SEEDS
def test_batches_together_are_what_they_are_alone(seed: int) -> None:
    parts = [it for it in (some(seed), some(seed + 100), some(seed + 200)) if it]
    sections = [built(it)[HEADER.size :] for it in parts]
    found = decode_together(sections, [len(it) for it in parts])
    assert found.value.to_pylist() == [value for part in parts for _, value, *_ in part]
    assert found.deltas.tolist() == [number for part in parts for number in range(len(part))]


def test_a_batch_that_reaches_into_the_next_is_refused() -> None:
    """Though together they add up."""
    section = built([(b"k", b"v", [], 0)] * 4)[HEADER.size :]
    cut = len(section) // 4
    assert len(decode_together([section[:cut], section[cut:]], [1, 3])) == 4
    with pytest.raises(Malformed, match="within a record"):
        decode_together([section[: cut + 1], section[cut + 1 :]], [1, 3])


def test_more_than_arrow_can_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", 7)
    with pytest.raises(Malformed, match="more than can be read at once"):
        decode(built([(b"k", b"v", [], 0)])[HEADER.size :], 1)


def test_nothing() -> None:
    found = decode(b"", 0)
    assert len(found) == 0
    assert found.key.type == pa.binary()
