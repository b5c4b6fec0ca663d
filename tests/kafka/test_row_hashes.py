"""The hashes of rows that never pass through Spark are those that Spark computes."""

import random

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from onceward.kafka.row_hashes import SEED, first_flags, hashed_bytes, hashed_flags, hashed_ints, seeds


def slow(data: bytes, seed: int) -> int:
    """XXH64 as its specification says it, one number after the other."""
    p1, p2, p3, p4, p5 = (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
    )  # fmt: skip
    mask = (1 << 64) - 1

    def turned(number: int, bits: int) -> int:
        return (number << bits | number >> 64 - bits) & mask

    def step(lane: int, word: int) -> int:
        return turned((lane + word * p2) & mask, 31) * p1 & mask

    at = 0
    if len(data) >= 32:
        lanes = [(seed + p1 + p2) & mask, (seed + p2) & mask, seed, (seed - p1) & mask]
        while at + 32 <= len(data):
            lanes = [
                step(it, int.from_bytes(data[at + 8 * n : at + 8 * n + 8], "little")) for n, it in enumerate(lanes)
            ]
            at += 32
        found = sum(turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
        for lane in lanes:
            found = ((found ^ step(0, lane)) * p1 + p4) & mask
    else:
        found = (seed + p5) & mask
    found = (found + len(data)) & mask
    while at + 8 <= len(data):
        found = (turned(found ^ step(0, int.from_bytes(data[at : at + 8], "little")), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        found = (turned(found ^ (int.from_bytes(data[at : at + 4], "little") * p1 & mask), 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        found = turned(found ^ (byte * p5 & mask), 11) * p1 & mask
    found = (found ^ found >> 33) * p2 & mask
    found = (found ^ found >> 29) * p3 & mask
    return found ^ found >> 32


LENGTHS = range(161)  # of no stripe to five, with every rest
VALUES = [random.Random(length).randbytes(length) for length in LENGTHS]


def hashed(values: list[bytes | None], before: NDArray[np.uint64] | None = None) -> list[int]:
    return hashed_bytes(pa.array(values, pa.binary()), seeds(len(values)) if before is None else before).tolist()


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_one_length_alone(length: int) -> None:
    """Alone they take other ways than among rows of other lengths."""
    assert hashed([VALUES[length]]) == [slow(VALUES[length], SEED)]
    assert hashed([VALUES[length], b"\xff" * length]) == [slow(VALUES[length], SEED), slow(b"\xff" * length, SEED)]


@pytest.mark.parametrize("longer", [1, 3, 4, 5, 7, 8, 9, 31, 32, 33, 64])
def test_rows_beside_longer_ones(longer: int) -> None:
    for values in ([VALUES[0], VALUES[longer]], [VALUES[longer], VALUES[0]], [VALUES[longer - 1], VALUES[longer]]):
        assert hashed([*values]) == [slow(it, SEED) for it in values]


def test_rows_of_every_length_in_any_order() -> None:
    mixed = random.Random(7).sample(VALUES, len(VALUES))
    for values in (VALUES, VALUES[::-1], mixed):
        assert hashed([*values]) == [slow(it, SEED) for it in values]


def test_spark_gives_rows_of_every_length_the_same_hashes(spark: SparkSession) -> None:
    """G4: a first column, one behind it, numbers and flags; nulls among them."""
    numbers = [length - 80 for length in LENGTHS]
    before: list[bytes | None] = [None if length % 7 == 3 else VALUES[length] for length in LENGTHS]
    rows = [(at, VALUES[at], before[at], numbers[at], at % 3 == 0) for at in LENGTHS]
    frame = spark.createDataFrame(rows, "at int, value binary, before binary, number int, flag boolean")
    asked = frame.selectExpr(
        "at", "xxhash64(value)", "xxhash64(before, value)", "xxhash64(number, value)", "xxhash64(flag, value)"
    )
    spoken = np.array([row[1:] for row in sorted(asked.collect())], np.int64).view(np.uint64).T.tolist()
    first = hashed_bytes(pa.array(before, pa.binary()), seeds(len(LENGTHS)))
    assert spoken == [
        hashed([*VALUES]),
        hashed([*VALUES], first),
        hashed([*VALUES], hashed_ints(np.array(numbers, np.int32), seeds(len(LENGTHS)))),
        hashed([*VALUES], first_flags(np.array([at % 3 == 0 for at in LENGTHS]))),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_bytes_of_any_length(seed: int) -> None:
    dice = random.Random(seed)
    values = [dice.randbytes(dice.randrange(200)) if dice.random() < 0.9 else None for _ in range(dice.randrange(40))]
    found = hashed_bytes(pa.array(values, pa.binary()), seeds(len(values))).tolist()
    assert found == [SEED if it is None else slow(it, SEED) for it in values]


def test_the_column_before_is_the_seed() -> None:
    before = hashed_bytes(pa.array([b"a", b"b", None], pa.binary()), seeds(3))
    found = hashed_bytes(pa.array([b"x" * 50, None, b"y"], pa.binary()), before).tolist()
    assert found == [slow(b"x" * 50, slow(b"a", SEED)), slow(b"b", SEED), slow(b"y", SEED)]


def test_numbers_and_flags_are_four_bytes() -> None:
    found = hashed_ints(np.array([0, 1, -1, 1 << 30], np.int32), seeds(4)).tolist()
    assert found == [slow(it.to_bytes(4, "little", signed=True), SEED) for it in (0, 1, -1, 1 << 30)]
    assert hashed_flags(np.array([False, True]), seeds(2)).tolist() == found[:2]


def test_flags_of_a_first_column_are_the_same() -> None:
    flags = np.array([True, False, False, True])
    assert first_flags(flags).tolist() == hashed_flags(flags, seeds(4)).tolist()


def test_a_slice_of_a_column() -> None:
    whole = pa.array([b"one", b"two", b"three", None, b"five"], pa.binary())
    assert hashed_bytes(whole.slice(1, 3), seeds(3)).tolist() == hashed_bytes(whole, seeds(5)).tolist()[1:4]


def test_many_rows_are_hashed_block_by_block() -> None:
    values = [str(it).encode() * (it % 9) for it in range(20_000)]
    found = hashed_bytes(pa.array(values, pa.binary()), seeds(len(values))).tolist()
    assert [found[it] for it in (0, 8191, 8192, 19_999)] == [slow(values[it], SEED) for it in (0, 8191, 8192, 19_999)]


@pytest.mark.parametrize("length", [65_535, 65_536, 70_000])
def test_a_row_longer_than_the_short_numbers_that_rows_are_ordered_by(length: int) -> None:
    values = [b"short", bytes(length), b""]
    assert hashed([*values]) == [slow(it, SEED) for it in values]
