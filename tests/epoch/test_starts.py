"""Where each term began and what it found in doubt: the files that say which entries of the ledger count."""

from collections.abc import Callable
from pathlib import Path

import pytest

from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import Holder, Start, Term, boundaries, newest_holder, starts
from onceward.errors import LedgerCorrupt


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def term(storage: LocalStorage) -> Callable[[int], Term]:
    def make(number: int) -> Term:
        holder = Holder(term=number, pipeline="p", host="h", machine="m", pid=1, process_start="1", since="noon")
        return Term(storage, number, holder)

    return make


def test_a_home_without_terms_has_no_starts_and_no_holder(storage: LocalStorage) -> None:
    assert starts(storage) == []
    assert boundaries(storage) == {}
    assert newest_holder(storage) is None


def test_starts_come_oldest_first_and_without_those_that_never_began(
    storage: LocalStorage, term: Callable[[int], Term]
) -> None:
    for number in (10, 2, 7, 1):
        term(number).renew()
        if number != 7:
            term(number).begin(number * 10, (), {})
    assert [(start.term, start.after_epoch) for start in starts(storage)] == [(1, 10), (2, 20), (10, 100)]
    assert boundaries(storage) == {1: 10, 2: 20, 10: 100}


def test_a_start_remembers_what_it_found_in_doubt_and_what_became_of_it(
    storage: LocalStorage, term: Callable[[int], Term]
) -> None:
    """B10: for a command that shows it afterwards."""
    term(1).begin(-1, (), {})
    resolved = ["epoch 5 was decided (ledger) in term 1: committed in 'größe'", "epoch 6 was aborted"]
    term(2).begin(5, resolved, {"größe": ("L", 5)})
    assert starts(storage) == [
        Start(term=1, after_epoch=-1, resolved=[]),
        Start(term=2, after_epoch=5, resolved=resolved, held={"größe": ("L", 5)}),
    ]


def test_a_start_that_is_repeated_says_what_it_said_last(storage: LocalStorage, term: Callable[[int], Term]) -> None:
    term(1).begin(4, (), {})
    term(1).begin(5, ["epoch 5 was decided"], {})
    assert starts(storage) == [Start(term=1, after_epoch=5, resolved=["epoch 5 was decided"])]


def test_a_damaged_start_is_named(storage: LocalStorage, term: Callable[[int], Term]) -> None:
    """E9: without it, entries of a replaced driver would count again."""
    term(1).begin(3, (), {})
    storage.replace("terms/000001.start", b"")
    for ask in (boundaries, starts):
        with pytest.raises(LedgerCorrupt, match=r"terms/000001.start is damaged"):
            ask(storage)


def test_a_start_of_another_term_under_this_name_is_named(storage: LocalStorage, term: Callable[[int], Term]) -> None:
    """E9: copied over another one, it would hide that one's boundary."""
    term(1).begin(3, (), {})
    term(2).begin(7, (), {})
    storage.replace("terms/000002.start", storage.read("terms/000001.start") or b"")
    with pytest.raises(LedgerCorrupt, match=r"terms/000002.start is of term 1: files were swapped"):
        boundaries(storage)


@pytest.mark.parametrize("file", ["terms/000001.json", "terms/000001.start"])
def test_a_file_of_a_term_that_vanishes_while_it_is_read_is_named(
    storage: LocalStorage, term: Callable[[int], Term], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """Nobody takes them away: a home without them would look like one that nobody holds."""
    storage.replace(file, b"listed")
    monkeypatch.setattr(storage, "read", lambda _: None)
    with pytest.raises(LedgerCorrupt, match=f"{file} is listed and cannot be read"):
        newest_holder(storage) if file.endswith("json") else starts(storage)
