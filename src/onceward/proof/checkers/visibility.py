"""What readers saw on the way: whole epochs, decided ones, of the current driver, and nothing that went away again."""

from onceward.proof.checkers.rows import took_part
from onceward.proof.history import Began, Damaged, History, Observed, Part, Place


def no_uncommitted_read(history: History) -> list[str]:
    """What a read_committed reader has seen once is there for ever: it was never aborted, never undone."""
    final = {
        sink: {place: {row[3:] for row in rows} for place, rows in places.items()}
        for sink, places in history.sinks.items()
    }
    forgotten = {event.forgot for event in history.events if isinstance(event, Damaged)}  # by the sink itself
    found, told = [], set[tuple[str, Place, Part]]()
    for look in _looks(history):
        for sink, places in look.visible.items():
            for place, parts in places.items():
                for part in parts:
                    if part[:3] in final[sink].get(place, ()) or (sink, place, part) in told:
                        continue
                    if (sink, part.epoch) in forgotten:
                        continue
                    told.add((sink, place, part))
                    found.append(f"step {look.at}: {sink} {place} showed {_name(part)}, which is gone at the end")
    return found


def atomic_visibility(history: History) -> list[str]:
    """At each settled look an epoch is whole or absent, over all partitions of a sink."""
    whole: dict[tuple[str, int], dict[Place, int]] = {}
    for sink, places in history.sinks.items():
        for place, rows in places.items():
            for row in rows:
                counts = whole.setdefault((sink, row.epoch), {})
                counts[place] = counts.get(place, 0) + 1
    found = []
    for look in _looks(history):
        if not look.settled:
            continue
        for sink, shown in look.visible.items():
            seen: dict[int, dict[Place, int]] = {}
            for place, parts in shown.items():
                for part in parts:
                    counts = seen.setdefault(part.epoch, {})
                    counts[place] = counts.get(place, 0) + part.rows
            found += [
                f"step {look.at}: {sink} showed epoch {epoch} in part, {counts} of {whole.get((sink, epoch), {})}"
                for epoch, counts in seen.items()
                if counts != whole.get((sink, epoch), {})
            ]
    return found


def decided_before_visible(history: History) -> list[str]:
    """No sink shows an epoch before it is decided: the decisions of all sinks agree."""
    found = []
    for look in _looks(history):
        if not look.settled:
            continue
        for sink, places in look.visible.items():
            early = {part.epoch for parts in places.values() for part in parts} - look.decided
            if early:
                found.append(f"step {look.at}: {sink} showed epochs {sorted(early)} before they were decided")
    return found


def one_decision(history: History) -> list[str]:
    """The ledger decides an epoch once, and what is visible is what it decided."""
    terms: dict[int, list[int]] = {}
    for epoch, term in history.decisions:
        terms.setdefault(epoch, []).append(term)
    found = [f"epoch {epoch} was decided by terms {which}" for epoch, which in terms.items() if len(which) > 1]
    shown = {(row.epoch, row.term) for places in history.sinks.values() for rows in places.values() for row in rows}
    found += [
        f"epoch {epoch} is visible under term {term}, and was decided by {terms[epoch]}"
        for epoch, term in sorted(shown)
        if epoch in terms and term not in terms[epoch]
    ]
    return found


def fenced_adds_nothing(history: History) -> list[str]:
    """What a term commits ends where the next term began."""
    began = [event for event in history.events if isinstance(event, Began)]
    tries = {(row.epoch, row.term) for places in history.sinks.values() for rows in places.values() for row in rows}
    return [
        f"epoch {epoch} is visible under term {term}, but term {start.term} had begun after epoch {start.after_epoch}"
        for epoch, term in sorted(tries)
        for start in began
        if start.term > term and start.after_epoch < epoch
    ]


def group_offsets(history: History) -> list[str]:
    """The group's offsets are the end of the epoch that its marker names, at each settled look and at the end."""
    found = []
    for look in _looks(history):
        if look.settled and look.group and look.marker is not None and look.marker >= 0:  # -1: before all
            wanted = history.planned.get(look.marker)
            if wanted is None or dict(wanted) != dict(look.group):
                found.append(
                    f"step {look.at}: the group is at {dict(look.group)}, epoch {look.marker} ends at {wanted}"
                )
    if history.group is not None and history.planned:
        transactional = {sink for sink, places in history.sinks.items() if history.log.keys() & places.keys()}
        parts = took_part(history)
        ends = [dict(history.planned[epoch]) for epoch in sorted(history.planned) if transactional <= parts[epoch]]
        last = dict(history.planned[max(history.planned)])  # also where the group's marker was lost, and is put back
        if ends and dict(history.group) not in (last, ends[-1]):
            found.append(f"the group ends at {dict(history.group)}, the last epoch at {last}")
    return found


def _looks(history: History) -> list[Observed]:
    return [event for event in history.events if isinstance(event, Observed)]


def _name(part: Part) -> str:
    return f"epoch {part.epoch} of term {part.term}, try {part.attempt}"
