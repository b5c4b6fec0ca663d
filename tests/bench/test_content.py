"""Whether an output is right: every record, once, whole, with its key, in order."""

import numpy as np
import pytest

from bench.content import UPPER, Verdict, keys_of, values_of
from bench.open_loop import Arrivals, value

COUNT, SIZE = 1000, 90
Records = list[tuple[int, bytes, bytes]]  # partition, key, value


def records(*, upper: bool = False) -> Records:
    numbers = np.arange(COUNT, dtype=np.int64)
    keys, values = keys_of(numbers), values_of(numbers, SIZE, UPPER) if upper else values_of(numbers, SIZE)
    return [(number % 4, keys[number].tobytes(), values[number].tobytes()) for number in range(COUNT)]


def judged(found: Records, verdict: Verdict) -> list[str]:
    for partition in range(4):
        mine = [it for it in found if it[0] == partition]
        for begin in range(0, len(mine), 100):
            part = mine[begin : begin + 100]
            verdict.take(partition, [it[1] for it in part], [it[2] for it in part])
    return verdict.wrong()


def test_what_went_in_is_right() -> None:
    assert judged(records(), Verdict(COUNT, SIZE)) == []
    assert judged(records(upper=True), Verdict(COUNT, SIZE, upper=True)) == []


def test_a_value_is_its_number_and_letters() -> None:
    (_, key, text) = records()[7]
    assert text[:10] == b"0000000007"
    assert text[10:].isalnum()
    assert len(key) == 10


def test_a_lost_record_is_noticed() -> None:
    found = records()
    del found[500]
    assert judged(found, Verdict(COUNT, SIZE)) == ["1 of 1,000 records are missing"]


def test_a_record_that_came_twice_is_noticed() -> None:
    found = records()
    wrong = judged([*found, found[999]], Verdict(COUNT, SIZE))
    assert wrong == ["1 records are there more than once", "partition 3 is not in the input's order"]


def test_one_lost_and_one_twice_are_noticed_though_the_count_is_right() -> None:
    found = records()
    found[500] = found[501]
    assert len(found) == COUNT
    assert "1 of 1,000 records are missing" in judged(found, Verdict(COUNT, SIZE))


def test_an_altered_value_is_noticed() -> None:
    found = records()
    partition, key, text = found[3]
    found[3] = (partition, key, text[:-1] + bytes([text[-1] ^ 1]))
    assert judged(found, Verdict(COUNT, SIZE)) == ["a value in partition 3 is altered"]


def test_an_altered_key_is_noticed() -> None:
    found = records()
    found[3] = (found[3][0], b"k999999999", found[3][2])
    assert judged(found, Verdict(COUNT, SIZE)) == ["a key in partition 3 is altered"]
    assert judged(found, Verdict(COUNT, SIZE, keyed=False)) == []


def test_another_order_is_noticed() -> None:
    found = records()
    found[0], found[4] = found[4], found[0]
    assert judged(found, Verdict(COUNT, SIZE)) == ["partition 0 is not in the input's order"]
    assert judged(found, Verdict(COUNT, SIZE, ordered=False)) == []


def test_a_value_that_was_cut_is_noticed() -> None:
    found = records()
    found[3] = (found[3][0], found[3][1], found[3][2][:50])
    assert any("not 90 bytes long" in it for it in judged(found, Verdict(COUNT, SIZE)))


def test_the_function_that_was_not_applied_is_noticed() -> None:
    assert judged(records(), Verdict(COUNT, SIZE, upper=True)) != []


def test_an_open_loop_is_judged_too() -> None:
    seen = Arrivals(4)
    for number in (0, 2, 1, 1):
        seen.take(b"k", value(number, 5.0 + number), 9.0)
    assert seen.wrong() == [
        "1 of 4 records are missing",
        "1 of 4 records came twice",
        "1 of 4 came out of order",
    ]
    assert seen.pairs[0] == (pytest.approx(5.0), 9.0)
