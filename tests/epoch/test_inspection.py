"""What a home says to people who look: epochs, doubts and what became of them."""

from pathlib import Path

import msgspec
import pytest

from onceward.epoch.decisions import Decisions
from onceward.epoch.home import Home
from onceward.epoch.inspection import Doubt, deed_of, epochs, in_doubt, next_start, resolutions
from onceward.epoch.ledger import DECIDED, DONE, PREPARED, Entry, Ledger, SinkEntry
from onceward.epoch.sealed import seal
from onceward.epoch.term import Start
from onceward.errors import HomeMismatch, LedgerCorrupt


def entry(epoch: int, phase: str = DONE, decider: str | None = None, term: int = 1) -> Entry:
    return Entry(pipeline="p", lineage="L", term=term, epoch=epoch, phase=phase, positions=["7"], decider=decider)


class Filled:
    """A home as drivers have left it."""

    def __init__(self, root: Path) -> None:
        self.home = Home.at(root)
        self.home.open("p", "exactly-once", "L")

    def ledger(self, *entries: Entry) -> None:
        for one in entries:
            Ledger(self.home.storage, {}, "L").write(one)

    def decisions(self, *epochs: int) -> None:
        for epoch in epochs:
            Decisions(self.home.storage, "L", 1).decide(entry(epoch, DECIDED))

    def start(self, term: int, after_epoch: int, *resolved: str) -> None:
        start = Start(term=term, after_epoch=after_epoch, resolved=list(resolved))
        self.home.storage.replace(f"terms/{term:06d}.start", seal(start))

    def files(self) -> dict[str, bytes]:
        root = Path(self.home.location)
        return {str(file): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    return Filled(tmp_path / "home")


def test_a_directory_that_is_no_home_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HomeMismatch, match=r"not the home of a pipeline: it has no pipeline.json"):
        deed_of(Home.at(tmp_path))


def test_a_new_home_has_no_epochs_and_no_doubt(filled: Filled) -> None:
    assert epochs(filled.home, 10) == resolutions(filled.home) == []
    assert in_doubt(filled.home) is None


def test_the_last_epochs_are_shown_oldest_first(filled: Filled) -> None:
    filled.ledger(*(entry(epoch) for epoch in range(5)))
    assert [one.epoch for one in epochs(filled.home, 3)] == [2, 3, 4]


def test_a_decision_that_is_not_complete_is_shown_and_in_doubt(filled: Filled) -> None:
    """B10."""
    filled.ledger(entry(3), entry(4))
    filled.decisions(3, 4, 5)
    assert [(one.epoch, one.phase) for one in epochs(filled.home, 2)] == [(4, DONE), (5, DECIDED)]
    assert in_doubt(filled.home) == Doubt(entry(5, DECIDED), decided=True)


def test_the_first_epochs_decision_is_in_doubt_too(filled: Filled) -> None:
    filled.decisions(0)
    assert in_doubt(filled.home) == Doubt(entry(0, DECIDED), decided=True)


def test_a_complete_decision_is_not_in_doubt(filled: Filled) -> None:
    filled.ledger(entry(5))
    filled.decisions(5)
    assert in_doubt(filled.home) is None
    assert epochs(filled.home, 9) == [entry(5)]


def test_an_older_decision_does_not_stand_among_newer_epochs(filled: Filled) -> None:
    """The pipeline got a Kafka sink since, which decides."""
    filled.decisions(5)
    filled.ledger(*(entry(epoch, decider="kafka") for epoch in range(5, 30)))
    assert [one.epoch for one in epochs(filled.home, 3)] == [27, 28, 29]
    assert in_doubt(filled.home) is None


def test_votes_are_in_doubt_and_only_the_deciding_sink_knows(filled: Filled) -> None:
    """B10."""
    filled.ledger(entry(4, decider="kafka"), entry(5, PREPARED, decider="kafka"))
    assert in_doubt(filled.home) == Doubt(entry(5, PREPARED, decider="kafka"), decided=None)


@pytest.mark.parametrize(
    ("decided", "said"),
    [
        (None, "fence, ask sink 'kafka', then commit it in files, or abort and redo it"),
        (True, "commit it in files (those that have it already change nothing)"),
        (False, "abort what is staged and redo it"),
    ],
)
def test_what_the_next_start_will_do_is_told_in_words(decided: bool | None, said: str) -> None:
    """B10."""
    sinks = {"kafka": SinkEntry(kind="kafka"), "files": SinkEntry(kind="files")}
    voted = msgspec.structs.replace(entry(5, PREPARED, decider="kafka"), sinks=sinks)
    assert next_start(voted, decided) == said


def test_votes_of_a_driver_that_was_replaced_are_not_in_doubt(filled: Filled) -> None:
    filled.ledger(entry(4, decider="kafka"), entry(5, PREPARED, decider="kafka"))
    filled.start(2, after_epoch=4)
    assert in_doubt(filled.home) is None


def test_what_starts_found_in_doubt_is_told_oldest_first(filled: Filled) -> None:
    """B10: what was in doubt, and how it was resolved."""
    filled.start(1, -1)
    filled.start(2, 5, "epoch 5 was decided")
    filled.start(3, 7)
    filled.start(4, 9, "epoch 10 was voted for", "and more")
    assert [(start.term, start.resolved) for start in resolutions(filled.home)] == [
        (2, ["epoch 5 was decided"]),
        (4, ["epoch 10 was voted for", "and more"]),
    ]


def test_looking_changes_nothing(filled: Filled) -> None:
    filled.ledger(entry(4), entry(5, PREPARED))
    filled.decisions(4, 5)
    filled.start(1, 3, "something")
    before = filled.files()
    epochs(filled.home, 5)
    in_doubt(filled.home)
    resolutions(filled.home)
    assert filled.files() == before


def test_damage_is_named_rather_than_shown_as_no_doubt(filled: Filled) -> None:
    """E9."""
    filled.ledger(entry(4))
    filled.decisions(5)
    filled.home.storage.replace("decisions/000000000005-000000.json", b"ha")
    for look in (in_doubt, lambda home: epochs(home, 3)):
        with pytest.raises(LedgerCorrupt, match=r"000000000005-000000.json"):
            look(filled.home)
