"""Topics by a pattern."""

import pytest

from onceward.errors import ConfigurationError
from onceward.kafka.patterns import matches, said, whole


def test_a_pattern_fits_whole_names() -> None:
    """I1: Spark itself looks for it anywhere in a name."""
    told = whole("clicks-.*|taps")
    assert [it for it in ("clicks-1", "taps", "old-clicks-1", "taps-2", "clicks") if matches(told, it)] == [
        "clicks-1",
        "taps",
    ]


@pytest.mark.parametrize("pattern", ["", "clicks-(", "*"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="regular expression"):
        whole(pattern)


def test_messages_have_the_pattern_as_it_was_given() -> None:
    assert [said(whole("clicks-.*")), said("clicks"), said("^(?:half")] == ["clicks-.*", "clicks", "^(?:half"]
