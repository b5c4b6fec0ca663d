"""The hashes of rows that never pass through Spark are those that Spark computes."""

import random

import numpy as np
import pyarrow as pa
import pytest

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


def test_a_row_longer_than_the_short_numbers_that_rows_are_ordered_by() -> None:
    values = [b"short", bytes(70_000), b""]
    assert hashed_bytes(pa.array(values, pa.binary()), seeds(3)).tolist() == [slow(it, SEED) for it in values]
