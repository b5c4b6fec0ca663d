"""A home in the overview: what was seen of it, as the page is told. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from onceward.dashboard import life
from onceward.dashboard.home_reader import Look
from onceward.dashboard.model import Percentiles, PipelineFacts
from onceward.dashboard.places import Target, sinks_of, sources_of, targets_of
from onceward.dashboard.summaries import Summary, percentile
from onceward.epoch.ledger import DONE
from onceward.secret import without_secrets

SHOWN: Final = 60  # epochs in the overview's small charts
WINDOW_S: Final = 15.0  # rates are over this long, or over the last epoch if that took longer
QUIET: Final = 4.0  # times its usual gap without an epoch, and a pipeline's rates are 0


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Rows per second, lately."""

    rows_in: float = 0.0
    by_sink: dict[str, float] = {}
    by_topic: dict[str, float] = {}


def facts_of(id_: str, location: str, look: Look) -> PipelineFacts:
    """Of a home that cannot be read: what was known of it last."""
    deed, said = look.deed, look.sign.said
    state = _state(look)
    living = state.word in life.LIVING
    done = [it for it in look.recent if it.phase == DONE]
    took = [it.total_ms for it in done if it.total_ms]  # of a replay, and at most once, nothing is measured
    rates = rates_of(done, look.at) if living else Rates()
    topics = topics_of(look)
    last = moment(done[-1].at) if done else None
    running = said.epoch if living and said is not None else None
    return PipelineFacts(
        id=id_,
        name=deed.pipeline if deed is not None else location.rstrip("/").rpartition("/")[2],
        home=location,
        guarantee=deed.guarantee if deed is not None else "",
        state=state.word,
        reason=_shown(state.reason),
        epoch=running if running is not None else (done[-1].epoch if done else None),
        last_commit_at=last.isoformat(timespec="milliseconds") if last is not None else None,
        last_commit_age_s=max(0.0, round((look.at - last).total_seconds(), 1)) if last is not None else None,
        rows_in_per_s=rates.rows_in,
        rows_out_per_s=rates.by_sink,
        latency_ms=Percentiles(p50=percentile(took, 0.5), p95=percentile(took, 0.95)),
        lag=said.lag if said is not None and state.word == life.RUNNING else {},  # else it is of an earlier moment
        in_doubt=_in_doubt(look, living=living),
        waits_for=_shown(said.waits_for) if living and said is not None else "",
        last_error=_shown(said.last_error) if said is not None else "",
        last_error_at=said.last_error_at if said is not None else None,
        sinks=sinks_of(look.newest, said, topics),
        sources=sources_of(look.newest),
        targets=[it.label for it in targets(look) if it.kind == "topic"],
        term=look.sign.holder.term if look.sign.holder is not None else None,
        lineage=deed.lineage if deed is not None else "",
        recent=[(it.epoch, it.total_ms, it.rows_in, it.attempts) for it in done[-SHOWN:]],
    )


def topics_of(look: Look) -> frozenset[str]:
    """Written to in the last epochs: an epoch may have nothing for some of them."""
    return frozenset(topic for it in look.recent for topic, _ in it.by_topic)


def targets(look: Look) -> list[Target]:
    """Everything that it writes to."""
    return targets_of(look.newest, topics_of(look))


def rates_of(done: Sequence[Summary], now: datetime) -> Rates:
    """From the last commits: what was committed since the one before them, by the time since then."""
    known = [(at, it) for it in done[-SHOWN:] if (at := moment(it.at)) is not None]
    if len(known) < 2:
        return Rates()
    newest, before = known[-1][0], known[-2][0]
    if (now - newest).total_seconds() > max(WINDOW_S, QUIET * (newest - before).total_seconds()):
        return Rates()
    base = max((n for n, (at, _) in enumerate(known[:-1]) if (now - at).total_seconds() >= WINDOW_S), default=0)
    span = max((now - known[base][0]).total_seconds(), 1e-3)
    counted = [it for _, it in known[base + 1 :]]
    by_sink: dict[str, float] = {}
    by_topic: dict[str, float] = {}
    for it in counted:
        for found, rows in ((by_sink, it.rows_out), (by_topic, it.by_topic)):
            for name, count in rows:
                found[name] = found.get(name, 0.0) + count
    return Rates(
        rows_in=round(sum(it.rows_in or 0 for it in counted) / span, 1),
        by_sink={name: round(count / span, 1) for name, count in by_sink.items()},
        by_topic={name: round(count / span, 1) for name, count in by_topic.items()},
    )


def moment(text: str | None) -> datetime | None:
    """A time of day in a home; one without a zone is UTC. None: it is no time."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _state(look: Look) -> life.State:
    if look.gone:
        return life.State(life.GONE, look.problem)
    if look.problem:
        return life.State(life.DAMAGED, look.problem)
    return life.state_of(look.sign, in_doubt=look.doubt.entry.epoch if look.doubt is not None else None)


def _in_doubt(look: Look, *, living: bool) -> int | None:
    said = look.sign.said
    if living and said is not None:
        return said.in_doubt
    return look.doubt.entry.epoch if look.doubt is not None else None


def _shown(text: str) -> str:
    return str(without_secrets(text))
