"""Where rows go: Java's murmur2 on whole columns."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from onceward.errors import InvalidRows
from onceward.kafka import partitioning
from onceward.kafka.partitioning import murmur2, partitions

GOLDEN = Path(__file__).parents[1] / "golden" / "murmur2.bin"  # made by Murmur2Golden.java beside it
CHECKSUM_BYTES = 32
KEYS = 100_000


def golden_key(number: int) -> bytes:
    """As in Murmur2Golden.java."""
    length = 2000 + number // 10 if number % 1000 == 999 else number % 201
    blocks = range(-(-length // 64))
    return b"".join(hashlib.sha512(b"%d:%d" % (number, block)).digest() for block in blocks)[:length]


@pytest.fixture(scope="module")
def golden() -> tuple[list[bytes], np.ndarray]:
    keys = [golden_key(number) for number in range(KEYS)]
    stored = GOLDEN.read_bytes()
    checksum = hashlib.sha256(b"".join(part for key in keys for part in (len(key).to_bytes(4, "big"), key)))
    assert checksum.digest() == stored[:CHECKSUM_BYTES], "Java and Python made different keys"
    return keys, np.frombuffer(stored[CHECKSUM_BYTES:], ">i4").astype(np.int32)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_murmur2_equals_javas_on_100_000_keys(golden: tuple[list[bytes], np.ndarray], kind: pa.DataType) -> None:
    keys, hashes = golden
    ours = murmur2(pa.array(keys, kind))
    assert ours.dtype == np.int32
    assert np.array_equal(ours, hashes)


def test_murmur2_of_one_key_at_a_time_is_the_same(golden: tuple[list[bytes], np.ndarray]) -> None:
    keys, hashes = golden
    some = range(0, KEYS, 333)
    assert [murmur2(pa.array([keys[row]], pa.binary()))[0] for row in some] == [hashes[row] for row in some]


def test_a_slice_hashes_like_its_rows(golden: tuple[list[bytes], np.ndarray]) -> None:
    keys, hashes = golden
    for start, count in [(1, 15), (7, 16), (12_345, 40_000), (99_999, 1), (5, 0)]:
        assert np.array_equal(murmur2(pa.array(keys, pa.binary()).slice(start, count)), hashes[start : start + count])


def test_keys_of_one_length_are_no_special_case(golden: tuple[list[bytes], np.ndarray]) -> None:
    keys, hashes = golden
    for length in (0, 1, 3, 4, 10, 16):
        rows = [row for row in range(20_000) if len(keys[row]) == length]
        assert np.array_equal(murmur2(pa.array([keys[row] for row in rows], pa.binary())), hashes[rows])


@pytest.mark.parametrize("length", range(161))
def test_keys_of_each_length_alone_in_few_rows_and_in_many(golden: tuple[list[bytes], np.ndarray], length: int) -> None:
    """Few rows are hashed one by one, and more of them together."""
    keys, hashes = golden
    rows = range(length, 201 * 20, 201)
    assert {len(keys[row]) for row in rows if row % 1000 != 999} == {length}
    for count in (1, partitioning.FEW_ROWS - 1, partitioning.FEW_ROWS, len(rows)):
        chosen = [*rows][:count]
        assert np.array_equal(murmur2(pa.array([keys[row] for row in chosen], pa.binary())), hashes[chosen])


@pytest.mark.parametrize("rows", [15, 16, 17, 18])
def test_a_few_keys_that_are_much_longer_than_the_rest(golden: tuple[list[bytes], np.ndarray], rows: int) -> None:
    """The last steps are made one by one where they are few rows' alone."""
    keys, hashes = golden
    chosen = [*range(999, 1000 * rows, 1000), *range(40), *range(999, 1000 * rows, 1000)]
    assert np.array_equal(murmur2(pa.array([keys[row] for row in chosen], pa.binary())), hashes[chosen])


@pytest.mark.parametrize("words", [65_535, 65_536])
def test_a_key_longer_than_the_short_numbers_that_rows_are_ordered_by(words: int) -> None:
    keys = [b"k%d" % number for number in range(20)] + [bytes(partitioning.WORD * words)]
    alone = [murmur2(pa.array([key], pa.binary()))[0] for key in keys]
    assert murmur2(pa.array(keys[::-1], pa.binary())).tolist() == alone[::-1]


def test_blocks_cut_by_bytes_give_the_same_hashes(
    golden: tuple[list[bytes], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, hashes = golden
    monkeypatch.setattr(partitioning, "BLOCK_BYTES", 5000)
    assert np.array_equal(murmur2(pa.array(keys[:5000], pa.binary())), hashes[:5000])


def test_a_string_hashes_as_its_utf8_bytes() -> None:
    texts = ["", "a", "Grüße", "漢字", "🙂" * 5] * 5
    as_bytes = murmur2(pa.array([text.encode() for text in texts], pa.binary()))
    assert np.array_equal(murmur2(pa.array(texts, pa.string())), as_bytes)
    assert np.array_equal(murmur2(pa.array(texts, pa.large_string())), as_bytes)


def test_a_very_long_key_among_short_ones_hashes_right() -> None:
    long = golden_key(999) * 5000
    keys = [b"k%d" % number for number in range(100)]
    mixed = murmur2(pa.array([*keys, long], pa.binary()))
    assert mixed[-1] == murmur2(pa.array([long], pa.binary()))[0]
    assert np.array_equal(mixed[:-1], murmur2(pa.array(keys, pa.binary())))


def test_a_keyed_row_goes_where_javas_producer_sends_it(golden: tuple[list[bytes], np.ndarray]) -> None:
    keys, hashes = golden
    for count in (1, 3, 64, 1000):
        ours = partitions(pa.array(keys, pa.binary()), np.zeros(KEYS, np.int64), count)
        assert np.array_equal(ours, (hashes.astype(np.int64) & 0x7FFFFFFF) % count)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_rows_without_a_key_are_spread_by_their_hash(kind: type) -> None:
    hashes = np.random.default_rng(3).integers(-(2**63), 2**63, 40_000).view(kind)
    keys = pa.array([None, b"key"] * 20_000, pa.binary())
    ours = partitions(keys, hashes, 8)
    assert set(ours[1::2].tolist()) == {(int(murmur2(pa.array([b"key"]))[0]) & 0x7FFFFFFF) % 8}
    assert ours[::2].tolist() == [(int(number) % 2**64) % 8 for number in hashes[::2]]
    assert min(Counter(ours[::2].tolist()).values()) > 2000


def test_a_column_of_nulls_is_spread_whatever_its_type() -> None:
    hashes = np.arange(100)
    for keys in (pa.nulls(100), pa.nulls(100, pa.binary()), pa.nulls(100, pa.string())):
        assert partitions(keys, hashes, 7).tolist() == [number % 7 for number in range(100)]


def test_the_same_rows_go_to_the_same_places_in_another_order() -> None:
    """An epoch that runs again may see its rows in another order."""
    rng = np.random.default_rng(5)
    keys = [None if rng.random() < 0.5 else rng.bytes(int(rng.integers(0, 30))) for _ in range(1000)]
    hashes, order = rng.integers(0, 2**63, 1000), rng.permutation(1000)
    before = partitions(pa.array(keys, pa.binary()), hashes, 5)
    after = partitions(pa.array(keys, pa.binary()).take(pa.array(order)), hashes[order], 5)
    assert np.array_equal(before[order], after)


def test_no_rows_give_no_partitions() -> None:
    assert len(partitions(pa.array([], pa.binary()), np.array([], np.int64), 4)) == 0


def test_a_key_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(InvalidRows, match="'key' has type int64"):
        partitions(pa.array([1]), np.array([1]), 4)
