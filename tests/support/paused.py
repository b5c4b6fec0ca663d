"""A driver that stands still inside of its commit to a lake table, while its successor commits and goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from onceward.errors import SinkUnreachable
from onceward.sinks.parquet import staging
from onceward.sinks.parquet.staging import Staging
from support.lake import Lake, reading_of

Seen = Callable[[], list[int]]  # what readers of the table see, in order


def once(original: Callable[..., Any], meanwhile: Callable[[], object]) -> Callable[..., Any]:
    """The very call, and before its first time something else happens: as if its process had stood still there."""
    waiting = [meanwhile]

    def call(*arguments: Any) -> Any:
        if waiting:
            waiting.pop()()
        return original(*arguments)

    return call


class PausedCommits:
    """For each format; it gives the fixture `seen`."""

    @pytest.mark.parametrize("inline", [staging.INLINE_BYTES, 0], ids=["files named", "files listed apart"])
    @pytest.mark.parametrize("step", ["files_of", "attempt"])
    def test_a_driver_that_stood_still_in_its_commit_adds_nothing(
        self, lake: Lake[Any], seen: Seen, monkeypatch: pytest.MonkeyPatch, step: str, inline: int
    ) -> None:
        """C6: it has read that the epoch is not there; when it wakes, it is, and the list of its files is cleared."""
        monkeypatch.setattr(staging, "INLINE_BYTES", inline)
        zombie = lake.driver(term=1)
        lake.run(zombie, 0, range(10))
        committable = lake.stage(zombie, 1, range(10, 20))

        def go_on() -> None:
            heir = lake.driver(term=2)
            lake.commit(heir, 1, committable)
            lake.run(heir, 2, range(20, 30))

        kind = Staging if step == "files_of" else type(reading_of(zombie))
        monkeypatch.setattr(kind, step, once(getattr(kind, step), go_on))
        lake.commit(zombie, 1, committable)
        assert seen() == list(range(30))
        last = lake.driver(term=3).last_commit()
        assert (last.epoch, last.term) == (2, 2)

    def test_a_commit_whose_answer_is_lost_went_in(
        self, lake: Lake[Any], seen: Seen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """B5: the marker tells, and nothing is added twice."""
        driver = lake.driver()
        lake.run(driver, 0, range(10))
        committable = lake.stage(driver, 1, range(10, 20))
        kind = type(reading_of(driver))
        attempt = kind.attempt

        def unheard(*arguments: Any) -> bool:
            attempt(*arguments)
            raise SinkUnreachable("no answer")

        monkeypatch.setattr(kind, "attempt", unheard)
        lake.commit(driver, 1, committable)
        assert seen() == list(range(20))

    def test_a_commit_that_did_not_go_in_is_said_so_and_asked_again(
        self, lake: Lake[Any], seen: Seen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = lake.driver()
        lake.run(driver, 0, range(10))
        committable = lake.stage(driver, 1, range(10, 20))
        kind = type(reading_of(driver))

        def refused() -> None:
            raise SinkUnreachable("no route")

        monkeypatch.setattr(kind, "attempt", once(kind.attempt, refused))
        with pytest.raises(SinkUnreachable, match="no route"):
            lake.commit(driver, 1, committable)
        assert seen() == list(range(10))
        lake.commit(driver, 1, committable)
        assert seen() == list(range(20))
