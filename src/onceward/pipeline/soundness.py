"""What a pipeline is refused for by looking at it alone: unknown options, a missing half of end to end."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from onceward.epoch.contract import DecidingSink, Guarantee, TwoPhaseCommitSink
from onceward.errors import ConfigurationError, SinkNotTransactional
from onceward.lookups import Lookup
from onceward.pipeline.session import require_usable
from onceward.pipeline.source import require_not_its_own_output, require_replayable
from onceward.pipeline.state import State
from onceward.pipeline.transforms import require_dead_letters_kept
from onceward.savepoint.retaining import POLICIES
from onceward.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from onceward.pipeline.pipeline import Pipeline


def require_known_options(pipeline: "Pipeline") -> None:
    """Each option is one of those that there are."""
    if pipeline.output_mode not in {"append", "update", "complete"}:
        raise ConfigurationError(
            f"output_mode {pipeline.output_mode!r} is not known; choose append, update or complete"
        )
    if pipeline.on_replay_divergence not in {"fail", "warn"}:
        raise ConfigurationError("on_replay_divergence is 'fail' or 'warn'")
    if pipeline.on_late_rows not in {"drop", "fail"}:
        raise ConfigurationError("on_late_rows is 'drop' or 'fail'")
    if pipeline.retain not in POLICIES:
        raise ConfigurationError(f"retain {pipeline.retain!r} is not known; choose 'always', 'on-failure' or 'never'")
    if pipeline.lookup is not None and not isinstance(pipeline.lookup, Lookup):
        raise ConfigurationError(
            f"lookup is an ow.PostgresLookup or a subclass of ow.Lookup, not a {type(pipeline.lookup).__name__}"
        )
    if pipeline.state is not None and not isinstance(pipeline.state, State):
        raise ConfigurationError(f"state is an ow.State, not a {type(pipeline.state).__name__}")


def known_guarantee(said: Guarantee | str) -> Guarantee:
    """By its name."""
    try:
        return Guarantee(said)
    except ValueError:
        known = ", ".join(repr(known.value) for known in Guarantee)
        raise ConfigurationError(f"guarantee {said!r} is not known; choose one of {known}") from None


def require_sound(pipeline: "Pipeline", *, dead_letters: bool, accept_lost_input: bool) -> None:
    """The session can be used, both halves of end to end are there, and no output is read again or dropped."""
    source, sinks = pipeline.source, pipeline.sinks
    if not sinks:
        raise ConfigurationError(f"pipeline {pipeline.name!r} has no sink; add .to(ow.KafkaSink(...))")
    require_usable(source.sparkSession)
    if pipeline.guarantee is Guarantee.EXACTLY_ONCE:
        require_replayable(source, pipeline.replayable_sources, accept_lost_input=accept_lost_input)
        _require_second_half(pipeline.name, sinks)
    for sink in sinks.values():
        if isinstance(sink, KafkaSink):
            require_not_its_own_output(source, sink.cluster.bootstrap, sink.named_topics)
    if dead_letters:
        require_dead_letters_kept(source)


def require_only_decider(pipeline: str, sinks: Iterable[TwoPhaseCommitSink], sink: DecidingSink) -> None:
    """Of those that decide, one is the limit."""
    for other in sinks:
        if isinstance(other, DecidingSink):
            raise ConfigurationError(
                f"pipeline {pipeline!r} has {other!r} already, and {sink!r} cannot be in the same epoch: a Kafka "
                "transaction cannot stay prepared, so its commit is the decision for all sinks and comes last, and "
                "two cannot both be last. One Kafka sink writes to many topics of one cluster (give its rows a "
                "'topic' column); for a second cluster run a second pipeline that reads the first one's topic."
            )


def _require_second_half(pipeline: str, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
    for name, sink in sinks.items():
        if not sink.repeatable:
            raise SinkNotTransactional(
                f"pipeline {pipeline!r}: the source can be replayed, but sink {name!r} ({sink!r}) neither commits "
                "atomically nor ignores repeats, so exactly-once is missing its second half. Use one of Onceward's "
                "sinks or a subclass of ow.TwoPhaseCommitSink; or, if writing the same epoch twice has the effect "
                "of writing it once, say so: idempotent=True; or choose guarantee='at-least-once'."
            )
