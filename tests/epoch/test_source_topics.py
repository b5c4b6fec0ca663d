"""The file that says which topics a home's positions are about."""

import pytest

from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import SourceTopics, ids_in, of_sources
from onceward.errors import LedgerCorrupt


def test_ids_are_those_of_the_file_and_none_without_one() -> None:
    """A topic that was deleted and made again is another one."""
    data = seal(SourceTopics(ids=[{"in": "number"}, {}, {"in": "number", "more": "another"}]))
    assert of_sources(data) == [{"in": "number"}, {}, {"in": "number", "more": "another"}]
    assert ids_in(data) == {"in": "number", "more": "another"}
    assert ids_in(None) == {}
    assert of_sources(None) == []
    with pytest.raises(LedgerCorrupt, match=r"sources\.json is damaged"):
        ids_in(data[:-3])
