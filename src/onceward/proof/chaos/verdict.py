"""From what was seen to a judgement: the history is put together, and the checkers of the simulation read it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from onceward.epoch.ledger import DONE
from onceward.proof import checkers
from onceward.proof.chaos import builtin, rawlog
from onceward.proof.chaos.books import Books
from onceward.proof.chaos.campaign import Campaign
from onceward.proof.chaos.driver import AWAY
from onceward.proof.chaos.outputs import OUTPUTS, Found, open_transactions
from onceward.proof.chaos.places import Places, read_topic
from onceward.proof.history import Began, Ended, Event, History, LedgerLine, Observed, Part, Place, Row
from onceward.snapshot.histories import boundaries_of

SHOWN: Final = 5
# Without our transactions there is nothing to say about logs, ledgers and markers: only rows are judged.
PLAIN: Final = ("no-loss", "no-duplicate", "state")
WATCHED: Final = "no-uncommitted-read"
# A driver that gave up for now, and said that nothing is lost: real brokers can be away for longer than it waits.
GAVE_UP: Final = frozenset({"EpochFailed", AWAY})
Broken = dict[str, list[str]]


def judge(campaign: Campaign) -> tuple[tuple[str, ...], Broken, dict[str, int]]:
    """The checkers that judged, what they found, and how many records each output shows."""
    if campaign.subject.file is not None:
        return _users(campaign)
    history, counts = _history(campaign)
    names = tuple(checkers.CHECKERS) if campaign.plan.guarantee == "exactly-once" else PLAIN
    broken = {name: found for name in names if (found := checkers.CHECKERS[name](history))}
    if campaign.plan.guarantee == "exactly-once":
        _add(broken, WATCHED, _watched(campaign))
        _add(broken, "progress", campaign.seen.stuck)
        _add(broken, "one-attempt", campaign.seen.books[campaign.direct.folder / "home"].changed)
    return names, broken, counts


def _users(campaign: Campaign) -> tuple[tuple[str, ...], Broken, dict[str, int]]:
    """A user's job: its own truth, and what can be asked of any pipeline."""
    subject = campaign.subject
    assert subject.truth is not None
    assert subject.visible is not None
    wanted, found = subject.truth(campaign.feeder.fed), subject.visible(campaign.direct)
    broken: Broken = {}
    for output in sorted({*wanted, *found}):
        right, shown = Counter(map(_frozen, wanted.get(output, []))), Counter(map(_frozen, found.get(output, [])))
        _add(broken, "no-loss", _some(output, "lacks", right - shown))
        _add(broken, "no-duplicate", _some(output, "has too much:", shown - right))
    _add(broken, WATCHED, _watched(campaign))
    _add(broken, "progress", campaign.seen.stuck)
    left = [line for topic in subject.topics for line in open_transactions(campaign.direct.bootstrap, topic)]
    _add(broken, "nothing-left-behind", left)
    history = History(events=tuple(_ended(campaign)), input={}, planned={}, sinks={})
    _add(broken, "no-false-alarm", checkers.CHECKERS["no-false-alarm"](history))
    names = ("no-loss", "no-duplicate", WATCHED, "nothing-left-behind", "progress", "no-false-alarm")
    return names, broken, {output: len(rows) for output, rows in found.items()}


def _history(campaign: Campaign) -> tuple[History, dict[str, int]]:
    direct, plan = campaign.direct, campaign.plan
    books = campaign.seen.books[direct.folder / "home"]
    given = _input(direct)
    epoch_of = _epochs_of(given, books.planned)
    terms = {epoch: entry.term for epoch, entry in books.ledger.items()}
    kinds = plan.sinks if plan.guarantee != "spark" else ("kafka",)
    outputs = {kind: OUTPUTS[kind](direct) for kind in kinds}
    found = {kind: output.rows() for kind, output in outputs.items()}

    def row(it: Found) -> Row:
        epoch = epoch_of.get(it[0], -1)
        return Row(*it, epoch, terms.get(epoch, 0), 0)

    sinks = {
        kind: {place: tuple(row(it) for _, it in rows) for place, rows in places.items()}
        for kind, places in found.items()
    }
    counts = {kind: sum(map(len, places.values())) for kind, places in found.items()}
    stood = boundaries_of([it for _, it in sorted(books.ledger.items()) if it.phase == DONE])
    history = History(
        events=(*_ended(campaign), *_began(books), *_observed(campaign, books, epoch_of, terms)),
        input=given,
        planned=books.planned,
        sinks=sinks,
        log=_logs(campaign, found.get("kafka", {}), epoch_of) if plan.guarantee == "exactly-once" else {},
        group=_group(campaign),
        ledger=tuple(
            LedgerLine(
                it.epoch,
                it.term,
                it.phase,
                {name: part.rows for name, part in it.sinks.items()},
                {(*place,): offsets for place, offsets in stood.get(it.epoch, {}).items()},
            )
            for it in books.ledger.values()
        ),
        left_behind=tuple(line for output in outputs.values() for line in output.left_behind()),
    )
    return history, counts


def _ended(campaign: Campaign) -> list[Ended]:
    return [it for it in campaign.seen.ended if it.how not in GAVE_UP]


def _input(places: Places) -> dict[Place, tuple[tuple[int, int], ...]]:
    """What the source holds, by offset."""
    found: dict[Place, list[tuple[int, int]]] = {}
    for message in read_topic(places.bootstrap, builtin.IN):
        rows = found.setdefault((builtin.IN, message.partition()), [])
        assert message.offset() == len(rows), "the feeder writes no transactions: offsets have no gaps"
        rows.append((int(message.value()), int(message.key())))
    return {place: tuple(rows) for place, rows in found.items()}


def _epochs_of(
    given: Mapping[Place, tuple[tuple[int, int], ...]], planned: Mapping[int, Mapping[Place, int]]
) -> dict[int, int]:
    found: dict[int, int] = {}
    begins: dict[Place, int] = {}
    for epoch in sorted(planned):
        for place, end in planned[epoch].items():
            found |= {identifier: epoch for identifier, _ in given.get(place, ())[begins.get(place, 0) : end]}
            begins[place] = end
    return found


def _began(books: Books) -> list[Event]:
    return [Began(number, start.term, start.after_epoch) for number, start in enumerate(books.starts.values())]


def _observed(campaign: Campaign, books: Books, epoch_of: Mapping[int, int], terms: Mapping[int, int]) -> list[Event]:
    """Looks that had news, in the checkers' words."""
    ends = {frozenset(places.items()): epoch for epoch, places in books.planned.items()}
    found: list[Event] = []
    for at, look in enumerate(campaign.poller.looks if campaign.poller is not None else ()):
        counts = {kind: Counter(epoch_of.get(identifier, -1) for identifier in ids) for kind, ids in look.news.items()}
        # An epoch may leave partitions as they were, so that several end at the same offsets: the last one counts.
        marker = ends.get(frozenset(look.group.items()), -1) if look.group else None
        decided = marker if look.group is not None else look.decided
        visible = {
            kind: {_place(kind): tuple(Part(epoch, terms.get(epoch, 0), 0, rows) for epoch, rows in news.items())}
            for kind, news in counts.items()
        }
        out = {epoch for news in counts.values() for epoch in news}
        so_far = frozenset(epoch for epoch in out if decided is not None and epoch <= decided)
        found.append(Observed(at, settled=True, decided=so_far, visible=visible, group=look.group, marker=marker))
    return found


def _place(kind: str) -> Place:
    return (builtin.TABLE, 0) if kind == "postgres" else (kind, 0)


def _logs(
    campaign: Campaign, found: Mapping[Place, list[tuple[int, Found]]], epoch_of: Mapping[int, int]
) -> dict[Place, tuple[Any, ...]]:
    """Each partition's log, from a node that has it."""
    made = {}
    for number in range(builtin.TOPICS[builtin.OUT] if "kafka" in campaign.plan.sinks else 0):
        place = (builtin.OUT, number)
        offsets = {offset: epoch_of.get(row[0], -1) for offset, row in found.get(place, ())}
        made[place] = rawlog.read(campaign.stack.broker.log_dir(1), place, offsets)
    return made


def _group(campaign: Campaign) -> Mapping[Place, int] | None:
    looks = campaign.poller.looks if campaign.poller is not None else []
    return next((look.group for look in reversed(looks) if look.group), None)


def _watched(campaign: Campaign) -> list[str]:
    """What the read_committed watcher saw and the log does not hold as committed, or no longer."""
    watcher = campaign.watchers["read_committed"]
    found = list(watcher.twice)
    for topic in campaign.subject.watch:
        final = {(it.partition(), it.offset()): hash(it.value()) for it in read_topic(campaign.direct.bootstrap, topic)}
        for (name, number), offsets in watcher.seen.items():
            gone = [at for at, value in offsets.items() if name == topic and final.get((number, at)) != value]
            found += [
                f"{topic}-{number}@{at} was seen as committed, and is not there at the end" for at in gone[:SHOWN]
            ]
    return found


def _add(broken: Broken, name: str, lines: list[str]) -> None:
    if lines:
        broken[name] = [*broken.get(name, []), *lines]


def _some(output: str, verb: str, rows: "Counter[Any]") -> list[str]:
    if not rows:
        return []
    some = ", ".join(repr(row) for row in list(rows)[:SHOWN])
    return [f"{output} {verb} {sum(rows.values())} rows: {some}"]


def _frozen(row: Any) -> Any:
    if isinstance(row, dict):
        return tuple(sorted((name, _frozen(value)) for name, value in row.items()))
    return tuple(map(_frozen, row)) if isinstance(row, list | tuple) else row
