"""Figures: medians with their spread, ratios round by round, latencies from when records were due."""

import math

import pytest

from bench.figures import Figure, latencies_ms, longest_gap_ms, percentile, ratio, shown


def test_a_figure_is_the_median_with_the_spread_of_its_rounds() -> None:
    figure = Figure.of([300.0, 100.0, 900.0])
    assert (figure.median, figure.low, figure.high, figure.rounds) == (300.0, 100.0, 900.0, 3)
    assert figure.text() == "300 (100 to 900)"


def test_a_ratio_is_taken_round_by_round() -> None:
    """What slows a round down slows both systems down: the medians' ratio would be 1.5 here."""
    times = ratio([200.0, 20.0, 300.0], [100.0, 10.0, 150.0])
    assert times == Figure(2.0, 2.0, 2.0, 3)


def test_a_ratio_to_nothing_is_none() -> None:
    assert ratio([1.0], []) is None
    assert ratio([1.0], [0.0]) is None


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(it) for it in range(100, 0, -1)]
    assert [percentile(values, share) for share in (50, 99, 100)] == [50.0, 99.0, 100.0]
    assert percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_latency_counts_from_when_a_record_was_due() -> None:
    """A feeder that was held up for a second sends late: its records have waited all the same."""
    due_every_100_ms = [(10.0 + it / 10, 11.5) for it in range(10)]
    delays = latencies_ms(due_every_100_ms)
    assert delays[0] == pytest.approx(1500)
    assert delays[-1] == pytest.approx(600)


def test_records_of_the_warm_up_are_left_out() -> None:
    assert latencies_ms([(1.0, 9.0), (5.0, 5.2)], after=5.0) == [pytest.approx(200)]


def test_a_gap_begins_with_the_kill() -> None:
    """Before it, nothing came for three seconds; after it, for two."""
    assert longest_gap_ms([1.0, 4.0, 7.0], since=5.0) == pytest.approx(2000)
    assert longest_gap_ms([1.0, 4.0], since=5.0) == math.inf
    assert longest_gap_ms([9.0, 9.5], since=5.0) == pytest.approx(4000)


@pytest.mark.parametrize(
    ("value", "text"), [(463_712.3, "464,000"), (1234.5, "1,234"), (99.94, "99.9"), (1.234, "1.23"), (math.inf, "-")]
)
def test_figures_have_as_many_digits_as_mean_something(value: float, text: str) -> None:
    assert shown(value) == text
