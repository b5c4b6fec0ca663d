"""The words that the terminal and the page share: verdict, what a guarantee excuses, figures and times."""

from collections.abc import Mapping, Sequence
from typing import Final

from onceward.proof.chaos.record import Result

KILLED: Final = " killed"  # how the name of a fault by SIGKILL ends

# What an end-to-end crash may do under a weaker guarantee. A checker that is not named here accuses under any.
_REPEATS: Final = frozenset(
    {
        "no-duplicate",
        "no-uncommitted-read",
        "atomic-visibility",
        "decided-before-visible",
        "order",
        "one-attempt",
        "one-transaction",
        "sinks-agree",
        "fenced-adds-nothing",
        "ledger-counts",
    }
)
EXCUSED: Final[Mapping[str, frozenset[str]]] = {
    "at-least-once": _REPEATS,
    "spark": _REPEATS,
    "at-most-once": frozenset({"no-loss", "atomic-visibility", "decided-before-visible", "sinks-agree"}),
}
_MEANS: Final[Mapping[str, str]] = {
    "at-least-once": "Duplicates are what at-least-once means: a restart writes the epoch that was under way again",
    "spark": "Duplicates are what Spark's own sink means by at-least-once: a restart writes the last batch again",
    "at-most-once": "Loss is what at-most-once means: a restart skips the epoch that was under way",
}
_ALLOWS: Final[Mapping[str, str]] = {
    "at-least-once": "At-least-once allows duplicates; these faults caused none.",
    "spark": "Spark's own sink allows duplicates; these faults caused none.",
    "at-most-once": "At-most-once allows loss; these faults caused none.",
}

# What a person needs to know of a named point who has not read the code.
POINTS: Final[Mapping[str, str]] = {
    "fenced": "recovery: older drivers are shut out, the last decision is not read yet",
    "resolving": "recovery: an epoch in doubt is found, nothing is done about it yet",
    "recovered": "recovery: nothing is in doubt any more, the query has not started",
    "begun": "the epoch is open in every sink, nothing is written",
    "writing": "some rows are written, others are not",
    "task-writing": "the same, inside a Python worker of Spark",
    "written": "every sink has all rows, none has voted",
    "voted": "one sink has pre-committed, others have not",
    "prepared": "all votes are on disk, the decision is not asked for",
    "marked": "the epoch's marker is in Kafka's transaction, its end is not sent",
    "decided": "the decision is durable, other sinks have not committed",
    "committed": "one sink has committed after the decision, others have not",
    "recorded": "the ledger has the epoch as done, Spark's commit log has not",
    "replaying": "a committed epoch runs again for its state, nothing is compared yet",
}


def verdict(result: Result) -> str:
    if result.broken:
        return "VIOLATION"
    return "EXACT" if result.checked else "NOT JUDGED"


def because(result: Result) -> str:
    """The verdict's reason, in one sentence."""
    if result.broken:
        of = max(len(result.checked), len(result.broken))
        return f"{len(result.broken)} of {counted(of, 'checker')} found a broken promise: {', '.join(result.broken)}."
    if not result.checked:
        return "No checker has looked at this run."
    passed = f"All {len(result.checked)} checkers passed" if len(result.checked) > 1 else f"{result.checked[0]} passed"
    return f"{passed}, over {counted(result.kills, 'kill')} and {counted(result.records_in, 'record')}."


def meaning(result: Result) -> str:
    """What the verdict means under the guarantee that was asked for; empty when it speaks for itself."""
    excused = EXCUSED.get(result.guarantee, frozenset())
    accusing = [checker for checker in result.broken if checker not in excused]
    if accusing and excused:
        more = "" if result.guarantee == "spark" else ": please report it"  # Spark's sink is not ours
        return f"{_MEANS[result.guarantee]}. But that does not excuse {', '.join(accusing)}{more}."
    if accusing:
        return f"Under {result.guarantee} this must not happen: please report it, with result.json."
    if result.broken:
        return f"{_MEANS[result.guarantee]}."
    return _ALLOWS.get(result.guarantee, "") if result.checked else ""


def thrown_away(result: Result) -> str:
    """Did the faults hurt? What the control without isolation saw of work that was thrown away."""
    if not result.watched:
        return "nobody watched"
    if result.guarantee != "exactly-once":
        return "no transactions: what is written is seen at once"
    aborted = result.watched.get("aborted", 0)
    if aborted:
        return (
            f"{counted(aborted, 'record')} of aborted epochs seen by the read_uncommitted control: the faults hit "
            "epochs that were being written"
        )
    return "the read_uncommitted control saw no aborted record: no fault hit an epoch that had written"


def doubts(result: Result) -> str:
    if not result.resolved:
        return "no epoch was in doubt at a start"
    return f"{counted(result.resolved, 'epoch')}, resolved at the next start, without an operator"


def kills_by_target(result: Result) -> dict[str, int]:
    return _most_first({name.removesuffix(KILLED): n for name, n in result.faults.items() if name.endswith(KILLED)})


def other_faults(result: Result) -> dict[str, int]:
    return _most_first({name: n for name, n in result.faults.items() if not name.endswith(KILLED)})


def counted(number: int, noun: str) -> str:
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{plural}"


def listed(counts: Mapping[str, int], between: str = ", ") -> str:
    return between.join(f"{name} {count:,}" for name, count in counts.items())


def seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def duration(value: float) -> str:
    """For people: 41 s, 3 min 20 s, 1 h 4 min."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    large, small, names = (
        (*divmod(whole, 60), ("min", "s")) if whole < 3600 else (*divmod(whole // 60, 60), ("h", "min"))
    )
    return f"{large} {names[0]}" + (f" {small} {names[1]}" if small else "")


def clock(at_s: float) -> str:
    """The time into the run: 3:20, 1:04:09."""
    minutes, rest = divmod(int(at_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def printable(text: str, most: int) -> str:
    """On one line, without what a terminal or a browser would obey, and not longer than that."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def first(lines: Sequence[str], most: int) -> list[str]:
    """At most that many, each fit to print; the last one counts those that are left out."""
    shown = [printable(line, 200) for line in lines[:most]]
    if len(lines) > most:
        shown[-1] += f" … and {len(lines) - most:,} more"
    return shown


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
