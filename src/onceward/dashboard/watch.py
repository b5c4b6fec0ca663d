"""All homes that are shown: found, looked at about once a second however many people look, and bounded in memory."""

import hashlib
import re
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

import onceward
from onceward.dashboard import life
from onceward.dashboard.detail import detail_of
from onceward.dashboard.epoch_detail import epoch_of
from onceward.dashboard.facts import Rates, facts_of, rates_of, targets
from onceward.dashboard.graph import Member, graph_of
from onceward.dashboard.home_reader import HomeReader, Look
from onceward.dashboard.lag import Lag, ReadUpTo
from onceward.dashboard.ledger_index import RECENT
from onceward.dashboard.model import (
    EpochColumns,
    EpochDetail,
    KafkaBrief,
    KafkaFacts,
    Overview,
    PipelineDetail,
    PipelineFacts,
)
from onceward.dashboard.summaries import columns
from onceward.epoch.deeds import FILE
from onceward.epoch.ledger import DONE
from onceward.secret import without_secrets

FRESH_S: Final = 0.8  # a look that is younger is shown again
SUMMARIES: Final = 20_000  # epochs in memory, over all homes
MOST_HOMES: Final = 500
MOST_EPOCHS: Final = 2000  # in one answer

F = TypeVar("F", bound=PipelineFacts)


class KafkaSight(Protocol):
    """Kafka, if somebody has named one."""

    def facts(self) -> KafkaFacts:
        """As of the last look; never waits for a broker."""

    def follow(self, topics: Iterable[str], pipelines: dict[str, str], readers: dict[str, ReadUpTo]) -> None:
        """The topics whose partitions are shown, the ids of pipelines by name, and by id those whose lag is asked."""

    def lag(self, pipeline: str) -> Lag:
        """Of one of these; empty where it is not known."""


class Watched:
    """One home: its id on the page, its reader, and the lock that a reader needs."""

    def __init__(self, id_: str, path: Path, kafka: KafkaSight | None = None) -> None:
        self.id = id_
        self.read_up_to = ReadUpTo()  # where no driver says what it has not read yet
        self._kafka = kafka
        self.reader = HomeReader(path)
        self.lock = threading.Lock()
        self.asked_at = 0.0

    def member(self, now: datetime) -> Member:
        """For the overview."""
        with self.lock:
            look = self.reader.look(now)
            try:
                facts = facts_of(self.id, str(self.reader.path), look)
                rates = _rates(look, facts)
                self.read_up_to = self.reader.read_up_to(look) if facts.state != life.RUNNING else ReadUpTo()
                return Member(self._measured(facts), targets(look), rates)
            except Exception as error:  # noqa: BLE001 - a forged home that passes its checksums must not hide the others
                return Member(self._damaged(look, error), [], Rates())

    def detail(self, now: datetime) -> PipelineDetail:
        with self.lock:
            self.asked_at = time.monotonic()
            look = self.reader.look(now)
            try:
                return self._measured(detail_of(self.id, self.reader, look))
            except Exception as error:  # noqa: BLE001 - as above
                return PipelineDetail(**msgspec.structs.asdict(self._damaged(look, error)))

    def epochs(self, now: datetime, first: int | None, last: int | None, limit: int) -> EpochColumns:
        with self.lock:
            self.asked_at = time.monotonic()
            self.reader.look(now)
            found = self.reader.index.between(first, last, min(limit, MOST_EPOCHS)) if self.reader.index else []
            return columns([it for it in found if it.phase == DONE])

    def epoch(self, now: datetime, number: int) -> EpochDetail | None:
        with self.lock:
            return epoch_of(self.reader, self.reader.look(now), number)

    def _measured(self, facts: F) -> F:
        """A driver that does not run says nothing of what has come since."""
        if self._kafka is None or facts.state == life.RUNNING:
            return facts
        return msgspec.structs.replace(facts, lag=self._kafka.lag(self.id))

    def _damaged(self, look: Look, error: Exception) -> PipelineFacts:
        name = look.deed.pipeline if look.deed is not None else self.reader.path.name
        reason = look.problem or f"it cannot be shown: {type(error).__name__}: {error}"
        return PipelineFacts(
            id=self.id, name=name, home=str(self.reader.path), state=life.DAMAGED, reason=str(without_secrets(reason))
        )

    @property
    def kept(self) -> int:
        return self.reader.index.kept if self.reader.index is not None else 0

    def forget(self) -> None:
        with self.lock:
            if self.reader.index is not None:
                self.reader.index.forget(RECENT)


class Watch:
    """`places`: homes, or directories with homes in them, which may come and go.

    `folders`: directories that are no homes themselves, though they may still be empty.
    """

    def __init__(
        self, places: Sequence[Path] = (), kafka: KafkaSight | None = None, *, folders: Sequence[Path] = ()
    ) -> None:
        self._places = [*places, *folders]
        self._folders = frozenset(folders)
        self._kafka = kafka
        self._found: dict[Path, dict[Path, None]] = {}  # by place; a home that was seen stays, and is gone then
        self._watched: dict[Path, Watched] = {}
        self._lock = threading.Lock()
        self._shown: tuple[float, Overview] | None = None

    def overview(self) -> Overview:
        """Not older than a second."""
        with self._lock:
            if self._shown is None or time.monotonic() - self._shown[0] > FRESH_S:
                self._shown = time.monotonic(), self._look()
            return self._shown[1]

    def kafka(self) -> KafkaFacts | None:
        """None: nobody has named one."""
        self.overview()
        return self._kafka.facts() if self._kafka is not None else None

    def find(self, id_: str) -> Watched | None:
        """A home by its id. The others are looked at only if it is not among those that are known."""
        self._forget()
        found = self._known(id_)
        if found is None:
            self.overview()
            found = self._known(id_)
        return found

    def _known(self, id_: str) -> Watched | None:
        return next((it for it in self._watched.values() if it.id == id_), None)

    def _look(self) -> Overview:
        now = datetime.now(UTC)
        self._discover()
        members = [it.member(now) for it in self._watched.values()]
        self._forget()
        if self._kafka is not None:
            topics = {topic for it in members for topic in it.facts.targets}
            readers = {it.id: it.read_up_to for it in self._watched.values() if it.read_up_to.positions}
            self._kafka.follow(topics, {it.facts.name: it.facts.id for it in members}, readers)
        return Overview(
            at=now.isoformat(timespec="milliseconds"),
            version=onceward.__version__,
            pipelines=[it.facts for it in members],
            graph=graph_of(members),
            kafka=_brief(self._kafka.facts()) if self._kafka is not None else None,
        )

    def _discover(self) -> None:
        for place in self._places:
            known = self._found.setdefault(place, {})
            found = [it for it in homes_in(place) if it not in self._folders]
            if found != [place]:
                known.pop(place, None)
            known.update(dict.fromkeys(found))
        paths = list(dict.fromkeys(path for known in self._found.values() for path in known))[:MOST_HOMES]
        if paths != list(self._watched):
            ids = ids_of(paths)
            self._watched = {path: self._watched.get(path) or Watched(ids[path], path, self._kafka) for path in paths}

    def _forget(self) -> None:
        kept = sum(it.kept for it in self._watched.values())
        for watched in sorted(self._watched.values(), key=lambda it: it.asked_at):
            if kept <= SUMMARIES:
                return
            before = watched.kept
            watched.forget()
            kept -= before - watched.kept


def homes_in(place: Path) -> list[Path]:
    """The place itself, unless it is a directory with homes in it."""
    if is_home(place) or not place.is_dir():
        return [place]
    try:
        return [it for it in sorted(place.iterdir()) if is_home(it)] or [place]
    except OSError:
        return [place]


def is_home(path: Path) -> bool:
    """By its deed, or by the folder that has one where it began with a savepoint."""
    return (path / FILE).is_file() or (path / "terms").is_dir()


def ids_of(paths: Iterable[Path]) -> dict[Path, str]:
    """By the directory's name, so that an id stays whatever becomes of the home; equal names are told apart by path."""
    slugs = {path: re.sub(r"[^a-z0-9]+", "-", path.name.lower()).strip("-") or "home" for path in paths}
    names = list(slugs.values())
    return {
        path: slug if names.count(slug) == 1 else f"{slug}-{hashlib.sha256(str(path).encode()).hexdigest()[:6]}"
        for path, slug in slugs.items()
    }


def _rates(look: Look, facts: PipelineFacts) -> Rates:
    if facts.state not in life.LIVING:
        return Rates()
    return rates_of([it for it in look.recent if it.phase == DONE], look.at)


def _brief(facts: KafkaFacts) -> KafkaBrief:
    return KafkaBrief(
        bootstrap=facts.bootstrap,
        reachable=facts.reachable,
        error=facts.error,
        open_transactions=len(facts.transactions),
        held_back_partitions=sum(it.held_back > 0 for it in facts.partitions),
    )
