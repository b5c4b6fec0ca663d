"""A snapshot as tables, and the cut as a drawing. Cells are `Text`: a name such as "[/red]" is no markup."""

from onceward.cli.savepoint_tables import table
from onceward.snapshot.manifest import OnItsWay, Snapshot
from onceward.terminal import one_line

BAR = 24  # characters


def described(location: str, snapshot: Snapshot) -> str:
    """Each pipeline's epoch, each channel's range of offsets, and the cut through them."""
    lines = [one_line(f"{location}: snapshot {snapshot.id[:8]} of {snapshot.created_at}")]
    members = [[it.pipeline, str(it.epoch), it.lineage[:8], ", ".join(sorted(it.writes))] for it in snapshot.members]
    ranges = [
        [channel.topic, str(partition), channel.producer, channel.consumer, str(start), str(end), str(end - start)]
        for channel in snapshot.channels
        for partition, start, end in channel.ranges
    ]
    columns = ("topic", "partition", "written by", "read by", "read up to", "written up to", "on its way")
    lines.append(table("pipelines", ("pipeline", "epoch", "lineage", "writes"), members))
    lines.append(table("channels", columns, ranges) if ranges else "no topic joins them")
    if snapshot.channels:
        lines.append(drawn(snapshot))
    return "\n".join(lines)


def drawn(snapshot: Snapshot) -> str:
    """`#` is where a pipeline is saved, `=` what its reader has read, `>` what is on its way."""
    longest = max((channel.offsets for channel in snapshot.channels), default=0)
    width = max(len(it.pipeline) for it in snapshot.members)
    lines = []
    for member in snapshot.members:
        lines.append(one_line(f"{member.pipeline:<{width}} ---- epoch {member.epoch} #"))
        lines += [
            one_line(f"{'':<{width}}      {_bar(channel, longest)} {channel.topic} > {channel.consumer}")
            for channel in snapshot.channels
            if channel.producer == member.pipeline
        ]
    return "\n".join([*lines, "# saved here   = read before it   > on its way: written before, not yet read"])


def _bar(channel: OnItsWay, longest: int) -> str:
    under_way = max(1, round(channel.offsets / longest * BAR / 2)) if channel.offsets else 0
    return f"|{'=' * (BAR - under_way)}{'>' * under_way}| {channel.offsets}"
