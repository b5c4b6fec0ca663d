"""Names of topics while a file's pipelines are built as a copy of others."""

import pytest

from onceward.kafka.copies import Copy, building, copy_prefix, current, topic

COPY = Copy("lab", frozenset({"clicks", "bills"}))


def test_a_copy_writes_to_topics_of_its_own_and_reads_what_it_writes_from_there() -> None:
    """D5: what nobody among its pipelines writes, it reads where the originals do."""
    assert COPY.name("clicks") == "lab-clicks"
    assert COPY.source("clicks") == "lab-clicks"
    assert COPY.source("events") == "events"


def test_names_change_only_while_a_copy_is_built() -> None:
    """D5."""
    assert (current(), topic("clicks"), copy_prefix()) == (None, "clicks", "")
    with building(COPY):
        assert (current(), topic("clicks"), topic("events"), copy_prefix()) == (COPY, "lab-clicks", "events", "lab-")
        with building(None):
            assert (topic("clicks"), copy_prefix()) == ("clicks", "")
        assert topic("clicks") == "lab-clicks"
    assert (current(), topic("clicks"), copy_prefix()) == (None, "clicks", "")


def test_an_error_while_it_is_built_ends_the_copy_too() -> None:
    with pytest.raises(ValueError, match="by the test"), building(COPY):
        raise ValueError("by the test")
    assert current() is None
