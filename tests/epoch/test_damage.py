"""Thousands of damaged homes: every read gives what was written, or names the file; never anything else.

E9, over the ledger (both formats), the decisions and the starts that say which entries count.
"""

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random

import msgspec
import pytest

from epoch.memory import Memory
from epoch.samples import DECISION, ENTRY, LINEAGE
from onceward.epoch.decisions import Decisions, Slot
from onceward.epoch.ledger import DONE, FORMAT, PREPARED, Entry, Ledger
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import LocalStorage, Storage
from onceward.epoch.term import Start, boundaries
from onceward.errors import HomeMismatch, LedgerCorrupt

Found = dict[str, object]  # what each way of asking gave: a value, or the error
Ask = Callable[[], object]
BOUNDARIES = {1: -1, 2: 3, 3: 5}
FOLDERS = ("ledger", "decisions", "terms")
ENTRIES = [(2, 1), (3, 1), (4, 1), (4, 2), (5, 2), (6, 3)]


def a_home() -> dict[str, bytes]:
    """Three terms: an entry of format 1, one that does not count, votes, voids and decisions."""
    replace = msgspec.structs.replace
    phases = {(4, 1): PREPARED, (6, 3): PREPARED}  # the first of a driver that was replaced
    entries = [replace(ENTRY, epoch=epoch, term=term, phase=phases.get((epoch, term), DONE)) for epoch, term in ENTRIES]
    assert DECISION.decided is not None
    slots = [
        Slot(lineage=LINEAGE, epoch=5, slot=0, term=2),
        replace(DECISION, epoch=5, slot=1, term=2, decided=replace(DECISION.decided, epoch=5, term=2)),
        Slot(lineage=LINEAGE, epoch=6, slot=0, term=3),
        Slot(lineage=LINEAGE, epoch=6, slot=1, term=4),
        replace(DECISION, epoch=6, slot=2, term=4, decided=replace(DECISION.decided, epoch=6, term=4)),
    ]
    starts = [Start(term=term, after_epoch=epoch) for term, epoch in BOUNDARIES.items()]
    return {
        **{f"ledger/{entry.epoch:012d}-{entry.term:06d}.json": seal(entry) for entry in entries},
        **{f"decisions/{slot.epoch:012d}-{slot.slot:06d}.json": seal(slot) for slot in slots},
        **{f"terms/{start.term:06d}.start": seal(start) for start in starts},
    }


def everything(storage: Storage, folders: Collection[str] = FOLDERS) -> Found:
    """Ask for what is in these folders in every way there is; between them, every file is read."""
    ledger, decisions = Ledger(storage, BOUNDARIES, LINEAGE), Decisions(storage, LINEAGE, 9)
    asked: dict[str, Ask] = {
        "terms: boundaries": lambda: boundaries(storage),
        "ledger: last": ledger.last,
        "ledger: last prepared": lambda: ledger.last(PREPARED),
        "ledger: newest": lambda: ledger.newest(3),
        "decisions: last": decisions.last,
        "decisions: 5": lambda: decisions.of(5),
        "decisions: 6": lambda: decisions.of(6),
    }
    for epoch, term in ENTRIES:
        asked[f"ledger: {epoch}"] = lambda epoch=epoch: ledger.read(epoch)
        asked[f"ledger: {epoch} of {term}"] = lambda epoch=epoch, term=term: ledger.read_of(epoch, term)
    found: Found = {}
    for question, ask in asked.items():
        if question.split(":")[0] not in folders:
            continue
        try:
            found[question] = ask()
        except (LedgerCorrupt, HomeMismatch) as error:
            found[question] = error
    return found


def damaged(whole: bytes, random: Random) -> bytes:
    """One of the ways in which a file goes wrong."""
    data, place = bytearray(whole), random.randrange(len(whole))
    match random.randrange(7):
        case 0:
            data[place] ^= 1 << random.randrange(8)
        case 1:
            del data[place:]
        case 2:
            del data[place : place + random.randrange(1, 40)]
        case 3:
            data[place:place] = random.randbytes(random.randrange(1, 20))
        case 4:  # may well write what stood there
            data[place] = random.randrange(256)
        case 5:  # two characters change places; may be equal ones
            other = random.randrange(len(whole))
            data[place], data[other] = data[other], data[place]
        case 6:  # a block reads as zeros
            data[place : place + 64] = bytes(len(data[place : place + 64]))
    return bytes(data)


class Damage:
    """What happened to a home: `changes` to apply; None is a file that is gone."""

    def __init__(self, home: dict[str, bytes], random: Random) -> None:
        names = sorted(home)
        one, other = random.sample(names, 2)
        self.kind = random.choices(["bytes", "gone", "copied", "swapped"], [5, 1, 2, 2])[0]
        ways: dict[str, Callable[[], dict[str, bytes | None]]] = {
            "bytes": lambda: {one: damaged(home[one], random)},
            "gone": lambda: {one: None},
            "copied": lambda: {one: home[other]},
            "swapped": lambda: {one: home[other], other: home[one]},
        }
        self.changes = ways[self.kind]()
        self.changed = {name for name, data in self.changes.items() if data != home[name]}
        self.folders = {name.split("/")[0] for name in self.changes}
        # A file of another kind may have a higher format number than this kind has reached yet.
        self.crossed = self.kind in {"copied", "swapped"} and one.split("/")[0] != other.split("/")[0]


def put(storage: Storage, files: dict[str, bytes | None]) -> None:
    for name, data in files.items():
        if data is None:
            storage.remove(name)
        else:
            storage.replace(name, data, sync=False)


@pytest.mark.parametrize("count", [10_000, 300], ids=["in-memory", "on-disk"])
def test_every_read_of_a_damaged_home_is_right_or_names_the_file(count: int, tmp_path: Path) -> None:
    """E9: flipped, cut short, overwritten, gone, copied over another, swapped."""
    storage: Storage = Memory() if count == 10_000 else LocalStorage(tmp_path)
    home, random = a_home(), Random(2024)
    put(storage, {**home})
    right = everything(storage)
    assert not [answer for answer in right.values() if isinstance(answer, Exception)]
    without = {name: everything_without(name, home) for name in home}
    noticed = 0
    for number in range(count):
        damage = Damage(home, random)
        put(storage, damage.changes)
        wanted = without[next(iter(damage.changes))] if damage.kind == "gone" else right
        noticed += judge(damage, everything(storage, damage.folders), wanted, f"damage {number}")
        put(storage, {name: home[name] for name in damage.changes})
    assert noticed > 0.8 * count


def everything_without(name: str, home: dict[str, bytes]) -> Found:
    """A file that is gone is missing: whoever asks for it hears so, and nothing else changes."""
    storage = Memory()
    put(storage, {other: data for other, data in home.items() if other != name})
    return everything(storage)


def judge(damage: Damage, found: Found, wanted: Found, which: str) -> bool:
    """Whether it was noticed; an assertion if something else than the truth or an error came out."""
    errors = [answer for answer in found.values() if isinstance(answer, Exception)]
    for question, answer in found.items():
        if not isinstance(answer, Exception):
            assert answer == wanted[question], f"{which}, {damage.kind}: {question}"
    for error in errors:
        assert any(name in str(error) for name in damage.changed), f"{which}: {error} does not name the file"
        assert damage.crossed or isinstance(error, LedgerCorrupt)
    assert errors or damage.kind == "gone" or not damage.changed, f"{which}: {damage.changed}, and nobody noticed"
    return bool(errors)


def test_what_is_gone_is_said_to_be_missing() -> None:
    home = a_home()
    gone = everything_without("ledger/000000000005-000002.json", home)
    assert gone["ledger: 5"] is gone["ledger: 5 of 2"] is None
    assert isinstance(gone["ledger: last"], Entry)
    assert gone["ledger: last"].epoch == 4
    assert everything_without("decisions/000000000006-000002.json", home)["decisions: 6"] is None
    assert everything_without("terms/000002.start", home)["terms: boundaries"] == {1: -1, 3: 5}


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("value", [ENTRY, DECISION], ids=["entry", "decision"])
def test_one_flipped_bit_anywhere_is_noticed(value: msgspec.Struct, bit: int) -> None:
    whole = seal(value)
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        with pytest.raises(LedgerCorrupt, match="folder/x is damaged"):
            unseal(bytes(flipped), type(value), "folder/x", FORMAT)


@pytest.mark.parametrize("value", [ENTRY, DECISION], ids=["entry", "decision"])
def test_a_file_cut_short_anywhere_is_noticed(value: msgspec.Struct) -> None:
    whole = seal(value)
    for length in range(len(whole)):
        with pytest.raises(LedgerCorrupt, match=rf"folder/x is damaged.*\({length} bytes\).*do not delete"):
            unseal(whole[:length], type(value), "folder/x", FORMAT)


def test_anything_after_the_checksum_is_noticed() -> None:
    """Two writers of one file, or a block of an older and longer one."""
    for more in (b"\n", b" ", b"\0", seal(ENTRY)):
        with pytest.raises(LedgerCorrupt, match="damaged"):
            unseal(seal(ENTRY) + more, Entry, "folder/x", FORMAT)


@pytest.mark.parametrize("body", [b"no json", b"[]", b"null", b'{"format":"x"}', b'{"format":1}', b"\xff"])
def test_a_file_that_is_whole_and_says_nothing_is_named(body: bytes) -> None:
    """E9, J5: a checksum has no key, so anybody may have made it."""
    data = body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"
    with pytest.raises(LedgerCorrupt, match="the file is whole, but holds no Entry"):
        unseal(data, Entry, "the file", FORMAT)
