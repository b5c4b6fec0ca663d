"""One pipeline: its starts, what happened to it, the epoch under way, what is in doubt, savepoints and snapshots."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from onceward.dashboard import life
from onceward.dashboard.facts import facts_of
from onceward.dashboard.home_reader import HomeReader, Look
from onceward.dashboard.life import Sign
from onceward.dashboard.model import (
    EpochRange,
    InDoubt,
    Mark,
    PipelineDetail,
    SavepointFacts,
    SnapshotFacts,
    StartFacts,
)
from onceward.dashboard.two_phases import current_of
from onceward.epoch import inspection
from onceward.epoch import term as terms
from onceward.errors import OncewardError
from onceward.savepoint import keeping
from onceward.secret import without_secrets
from onceward.snapshot import manifest as snapshots
from onceward.telemetry.activity import Event

STARTS: Final = 20  # terms that are shown: of older ones neither lease nor activity is kept
MARKS: Final = 500
BESIDE: Final = 200  # directories beside a home that are looked at for snapshots
TEXTS: Final = {"paused": "paused", "failed": "failed", "fenced": "failed", "aborted": "aborted"}


def detail_of(id_: str, reader: HomeReader, look: Look) -> PipelineDetail:
    """Of a home that is damaged or gone: what the overview has of it."""
    facts = facts_of(id_, str(reader.path), look)
    plain = {name: getattr(facts, name) for name in facts.__struct_fields__}
    if look.gone or look.deed is None or reader.index is None:
        return PipelineDetail(**plain)
    said, keys = look.sign.said, reader.index.keys
    signs = dict(_signs(reader, look.at))
    starts = starts_of(signs, look, facts.state)
    return PipelineDetail(
        **plain,
        starts=starts,
        state_rows=said.state_rows if said is not None else None,
        state_bytes=said.state_bytes if said is not None else None,
        epochs=EpochRange(first=keys[0][0] if keys else None, last=keys[-1][0] if keys else None, count=len(keys)),
        current=current_of(said) if said is not None and facts.state in life.LIVING else None,
        in_doubt_epochs=_in_doubt(look) if facts.state not in life.LIVING else [],
        marks=marks_of(reader, look, starts),
        savepoints=savepoints_of(reader),
        snapshots=snapshots_of(reader.path, look.deed.lineage),
    )


def starts_of(signs: dict[int, Sign], look: Look, state: str) -> list[StartFacts]:
    """Oldest first. A term that is not the newest is over, whether or not its driver has noticed."""
    found = []
    for term, sign in sorted(signs.items()):
        if sign.holder is None:
            continue
        newest = look.sign.holder is not None and term == look.sign.holder.term
        lives = newest and state in life.LIVING
        start = look.starts.get(term)
        found.append(
            StartFacts(
                term=term,
                at=sign.holder.since,
                boundary=start.after_epoch if start is not None else None,
                ended_at=None if lives else _ended_at(sign, look.at),
                how=(life.PAUSED if state == life.PAUSED else life.RUNNING) if lives else life.how_ended(sign),
                by=f"process {sign.holder.pid} on {sign.holder.host}",
            )
        )
    return found


def marks_of(reader: HomeReader, look: Look, starts: Iterable[StartFacts]) -> list[Mark]:
    """What the timeline shows besides epochs, oldest first, the newest ones."""
    found = [*_of_starts(starts, look), *_of_lineages(reader, look)]
    for start in starts:
        found += _of_events(reader.events(start.term))
    for it in look.recent:
        if it.skipped:
            found.append(Mark(at=it.at, epoch=it.epoch, kind="skipped", text=f"passed over {', '.join(it.skipped)}"))
    return sorted(found, key=lambda mark: mark.at)[-MARKS:]


def savepoints_of(reader: HomeReader) -> list[SavepointFacts]:
    """Those in the home itself."""
    return [
        SavepointFacts(
            name=it.place.name, epoch=it.savepoint.epoch, at=it.savepoint.created_at, bytes=it.savepoint.bytes
        )
        if it.savepoint is not None
        else SavepointFacts(name=it.place.name, problem=it.problem)
        for it in keeping.find(reader.home)
    ]


def snapshots_of(home: Path, lineage: str) -> list[SnapshotFacts]:
    """Those beside the home, where `onceward snapshot create` puts them, that this lineage is part of."""
    found = []
    try:
        beside = sorted(home.parent.iterdir())[:BESIDE]
    except OSError:
        return []
    for folder in beside:
        if not (folder / snapshots.FILE).is_file():
            continue
        try:
            _, snapshot = snapshots.load(folder)
        except (OncewardError, OSError):
            continue  # `onceward snapshot verify` says what is wrong with it
        for member in snapshot.members:
            if member.lineage == lineage:
                names = [it.pipeline for it in snapshot.members]
                found.append(
                    SnapshotFacts(name=folder.name, epoch=member.epoch, at=snapshot.created_at, pipelines=names)
                )
    return found


def _signs(reader: HomeReader, now: datetime) -> Iterator[tuple[int, Sign]]:
    """Of the last terms; one whose file is damaged is left out: whether it matters is for the next start to say."""
    names = [name[:6] for name in reader.files.names(terms.FOLDER) if name.endswith(".json") and name[:6].isdecimal()]
    for term in map(int, names[-STARTS:]):
        with suppress(OncewardError, OSError):
            yield term, reader.signs(term, now)


def _ended_at(sign: Sign, now: datetime) -> str | None:
    """As its driver said; else when it gave its last sign of life."""
    if sign.said is not None and sign.said.ended_at is not None:
        return sign.said.ended_at
    if sign.beat_age_s is None:
        return None
    return datetime.fromtimestamp(now.timestamp() - sign.beat_age_s, now.tzinfo).isoformat(timespec="milliseconds")


def _in_doubt(look: Look) -> list[InDoubt]:
    if look.doubt is None:
        return []
    entry = look.doubt.entry
    return [
        InDoubt(
            epoch=entry.epoch,
            phase=entry.phase,
            votes=dict.fromkeys(entry.sinks, True),  # it is written down once all have voted yes
            next_start=inspection.next_start(entry, look.doubt.decided),
        )
    ]


def _of_starts(starts: Iterable[StartFacts], look: Look) -> Iterator[Mark]:
    for start in starts:
        begun = look.starts.get(start.term)
        resolved = "; ".join(begun.resolved) if begun is not None else ""
        committed = start.boundary is not None and start.boundary >= 0
        after = f"after epoch {start.boundary}" if committed else "before any epoch"
        text = f"term {start.term} begins {after}: {start.by}{f' ({resolved})' if resolved else ''}"
        if start.term > 1:  # the first one took over from nobody
            yield Mark(at=start.at, epoch=start.boundary, kind="takeover", text=text)
        if start.how == "killed" and start.ended_at is not None:
            yield Mark(at=start.ended_at, epoch=None, kind="killed", text=f"term {start.term}: {start.by} was killed")


def _of_events(events: Iterable[Event]) -> Iterator[Mark]:
    for event in events:
        if event.kind in TEXTS:
            which = f"try {event.attempt}: " if event.attempt is not None else ""
            text = str(without_secrets(f"{which}{event.reason or event.cause}"))
            yield Mark(at=event.at, epoch=event.epoch, kind=TEXTS[event.kind], text=text)


def _of_lineages(reader: HomeReader, look: Look) -> Iterator[Mark]:
    """The lineage in force, if it began with a savepoint or a reset."""
    origin = look.deed.origin if look.deed is not None else None
    if origin is None:
        return
    at = reader.signs(origin.first_term, look.at).holder
    if origin.savepoint:
        text = f"restored from savepoint {origin.savepoint[:8]}: epoch {origin.epoch} of {origin.pipeline}"
        kind = "restored"
    else:
        text, kind = f"reset: the lineage {origin.lineage[:8]} ended at epoch {origin.epoch}", "reset"
    if at is not None:
        yield Mark(at=at.since, epoch=origin.begins_after, kind=kind, text=text)
