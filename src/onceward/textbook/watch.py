"""Notes every call that reaches a real sink and what came of it, and lets something happen just before or after one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.epoch.contract import EpochContext, TwoPhaseCommitSink
from onceward.textbook.pictures.conversation import Happened, Said
from onceward.textbook.pictures.grid import Tone

DRIVER, FILES, POSTGRES, KAFKA = "driver", "files", "PostgreSQL", "Kafka"  # the lanes of the pictures
TONES: Final = {"commit": Tone.GOOD, "decide": Tone.GOOD, "abort": Tone.MARK}


@dataclass(frozen=True, slots=True)
class Call:
    """`error`: the name of what it raised; empty if it went well."""

    sink: str
    verb: str
    epoch: int
    attempt: int
    error: str = ""


@dataclass
class Watch:
    """`story`: the calls and what else happened, in order."""

    story: list[Call | Happened] = field(default_factory=list)
    _then: dict[tuple[str, str, str, int], Callable[[], None]] = field(default_factory=dict)

    def over(self, name: str, sink: TwoPhaseCommitSink, verbs: tuple[str, ...]) -> TwoPhaseCommitSink:
        """The same sink; these methods of it are watched from now on."""
        for verb in verbs:
            setattr(sink, verb, self._watching(name, verb, getattr(sink, verb)))
        return sink

    def when(self, moment: str, sink: str, verb: str, epoch: int, do: Callable[[], None]) -> None:
        """Once: "before" a call, "after" one that went well, or when one "failed"."""
        self._then[moment, sink, verb, epoch] = do

    def note(self, lane: str, words: str, tone: Tone = Tone.BAD) -> None:
        self.story.append(Happened(lane, words, tone))

    def moments(self, epoch: int, attempt: int) -> tuple[Said | Happened, ...]:
        """One try of an epoch as a conversation. `begin` goes without saying; a repeated call is told once."""
        told: list[Call | Happened] = []
        for it in self.story:
            if _is(it, epoch, attempt) or (isinstance(it, Happened) and told):
                told += [it] if told[-1:] != [it] else []
            elif told:
                break
        return tuple(it if isinstance(it, Happened) else _said(it) for it in told if not _is_begin(it))

    def _watching(self, name: str, verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def watched(context: EpochContext, *rest: Any) -> Any:
            self._do("before", name, verb, context.epoch)
            try:
                answer = method(context, *rest)
            except Exception as error:
                self.story.append(Call(name, verb, context.epoch, context.attempt, type(error).__name__))
                self._do("failed", name, verb, context.epoch)
                raise
            self.story.append(Call(name, verb, context.epoch, context.attempt))
            self._do("after", name, verb, context.epoch)
            return answer

        return watched

    def _do(self, *when: Any) -> None:
        self._then.pop(when, lambda: None)()


def _is_begin(it: Call | Happened) -> bool:
    return isinstance(it, Call) and it.verb == "begin"


def _is(it: Call | Happened, epoch: int, attempt: int) -> bool:
    return isinstance(it, Call) and (it.epoch, it.attempt) == (epoch, attempt)


def _said(call: Call) -> Said:
    if call.error:
        return Said(DRIVER, call.sink, f"{call.verb}: {call.error}", Tone.BAD, refused=True)
    return Said(DRIVER, call.sink, call.verb, TONES.get(call.verb, Tone.PLAIN))
