"""A campaign of sequences in the terminal, and as facts for programs."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from onceward.proof.sequences.actions import KINDS, POINTS
from onceward.proof.sequences.campaign import Found
from onceward.proof.sequences.playing import Told

SHOWN: Final = 5  # broken sequences, and faults of each


def text(found: Found) -> str:
    """The verdict first, then what was done to deserve it."""
    what = f"{found.played} sequences, {found.actions.total()} actions, {found.kills.total()} kills"
    broken = f"VIOLATION: {len(found.broken)} of {what}" if found.broken else f"EXACT: {what}"
    rows = [
        ("actions", _listed({kind: found.actions[kind] for kind in KINDS})),
        ("kills", _listed(found.kills)),
        ("points", _points(found)),
        ("refusals", _listed(found.refusals)),
        ("epochs", f"{found.epochs:,}, without those of drivers that were killed"),
        ("compared", f"{found.records:,} records"),
        ("ran", f"{found.seconds / 60:.0f} min, {found.seconds / max(1, found.played):.1f} s a sequence"),
        ("seed", str(found.plan.seed)),
        ("again", f"onceward prove --sequences {found.plan.sequences} --seed {found.plan.seed}"),
    ]
    return "\n".join([broken, *map(_shown, found.broken[:SHOWN]), "", *(f"{name:<10}{it}" for name, it in rows)])


def facts(found: Found) -> Mapping[str, object]:
    return {
        "exact": found.exact,
        "seed": found.plan.seed,
        "sequences": found.played,
        "asked": found.plan.sequences,
        "seconds": round(found.seconds, 1),
        "actions": dict(found.actions),
        "kills": dict(found.kills),
        "unreached": dict(found.unreached),
        "refusals": dict(found.refusals),
        "epochs": found.epochs,
        "records": found.records,
        "broken": {str(told.seed): {"faults": told.faults, "steps": told.steps} for told in found.broken},
    }


def _shown(told: Told) -> str:
    """What is wrong, and how to see it again."""
    lines = [f"  {it}" for it in told.faults[:SHOWN]]
    again = f"  again: onceward prove --sequences 1 --seed {told.seed}"
    return "\n".join([f"sequence {told.seed}, after {len(told.steps)} steps:", *lines, again])


def _points(found: Found) -> str:
    missed = [it for it in POINTS if it not in found.kills]
    reached = f"{len(POINTS) - len(missed)} of {len(POINTS)} reached"
    return f"{reached}, missed: {', '.join(missed)}" if missed else reached


def _listed(counts: Mapping[str, int] | Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
