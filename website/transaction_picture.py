"""The states of an epoch's transaction, drawn from the table in kafka/transaction.py: only places are chosen here."""

from typing import Final

from onceward.kafka.transaction import FINAL, TRANSITIONS, Event, State
from onceward.textbook.pictures import svg
from onceward.textbook.pictures.grid import Tone

PLACES: Final = {
    State.WRITING: (80, 60),
    State.MARKING: (280, 60),
    State.COMMITTING: (480, 60),
    State.COMMITTED: (680, 60),
    State.ABORTING: (80, 200),
    State.ABORTED: (680, 200),
    State.FENCED: (80, 340),
    State.RECLAIMING: (280, 340),
    State.READING: (480, 340),
}
WIDE, TALL = 112, 34
_TONES: Final = {State.COMMITTED: Tone.GOOD, State.ABORTED: Tone.QUIET, State.FENCED: Tone.BAD}


def draw() -> str:
    parts = [_arrow(state, event, then) for (state, event), then in TRANSITIONS.items() if then is not state]
    parts += [_label(state, event, then) for (state, event), then in TRANSITIONS.items() if _named(event)]
    parts += [_state(state) for state in State]
    about = "Grey: IDENTITY_LOST (timed out, or fenced). A lost answer changes nothing: the same request is sent again."
    parts.append(svg.text(380, 400, about, Tone.QUIET))
    return svg.document("The states of an epoch's transaction", 760, 420, parts)


def _named(event: Event) -> bool:
    return event not in {Event.ANSWER_LOST, Event.IDENTITY_LOST}


def _state(state: State) -> str:
    x, y = PLACES[state]
    tone = _TONES.get(state, Tone.PLAIN)
    return svg.box(x - WIDE // 2, y - TALL // 2, WIDE, TALL, tone) + svg.text(
        x, y + 5, state.name, tone, bold=state in FINAL
    )


def _arrow(state: State, event: Event, then: State) -> str:
    tone = Tone.QUIET if event is Event.IDENTITY_LOST else Tone.PLAIN
    drawn = svg.line(*_rim(state, then), *_rim(then, state), tone, head=True)
    return f"<g><title>{state.name} --&gt; {then.name}: {event.name}</title>{drawn}</g>"


def _rim(state: State, other: State) -> tuple[int, int]:
    """Where the line between two boxes leaves the first."""
    (x, y), (to_x, to_y) = PLACES[state], PLACES[other]
    dx, dy = to_x - x, to_y - y
    part = min(WIDE / 2 / abs(dx) if dx else 9.0, TALL / 2 / abs(dy) if dy else 9.0)
    return round(x + dx * part), round(y + dy * part)


def _label(state: State, event: Event, then: State) -> str:
    (x, y), (to_x, to_y) = PLACES[state], PLACES[then]
    words = event.name.lower().replace("_", " ")
    if y == to_y and abs(x - to_x) <= 200:  # between neighbours there is room above the arrow only
        return svg.text((x + to_x) // 2, y - 25, words, Tone.MARK)
    part = 0.62 if y != to_y else 0.8
    return svg.text(round(x + (to_x - x) * part), round(y + (to_y - y) * part) + 4, words, Tone.MARK)
