"""A raw read of Kafka's logs: contiguous sequences, and one end marker for each producer epoch and partition."""

from collections.abc import Iterable, Iterator

from onceward.proof.history import Began, History, LogBatch, Place


def raw_log(history: History) -> list[str]:
    """Each transaction's records in a partition: sequences from 0 without a gap, then exactly one end marker.

    A coordinator that was killed between the markers and its note of them writes the same ones again. That is Kafka's
    own way to finish, and harmless as long as nothing of the producer is in between.
    """
    began = [event for event in history.events if isinstance(event, Began)]
    there = max(began, key=lambda event: event.term).sinks if began else frozenset[str]()
    is_out = bool(there) and not any(
        sink in there for sink, at in history.sinks.items() if history.log.keys() & at.keys()
    )
    return [line for place, batches in history.log.items() for line in _partition(place, batches, may_be_open=is_out)]


def _partition(place: Place, batches: tuple[LogBatch, ...], *, may_be_open: bool) -> list[str]:
    """may_be_open: Kafka is no longer part of the pipeline, and ends what was left open when it has timed out."""
    found: list[str] = []
    following: dict[tuple[int, int], int] = {}  # the next sequence of each identity
    open_now: dict[int, tuple[int, set[int]]] = {}  # by producer id: its epoch, and our epochs in it
    ended: set[tuple[int, int]] = set()
    marked: set[tuple[int, int]] = set()
    last_of: dict[int, LogBatch] = {}  # by producer id
    for batch in batches:
        identity = (batch.producer_id, batch.producer_epoch)
        before, last_of[batch.producer_id] = last_of.get(batch.producer_id), batch
        if batch.kind == "data":
            if batch.sequence != following.get(identity, 0):
                found.append(f"{place}: sequence {batch.sequence} of {identity}, not {following.get(identity, 0)}")
            following[identity] = batch.sequence + batch.rows
            epoch, ours = open_now.setdefault(batch.producer_id, (batch.producer_epoch, set()))
            if epoch != batch.producer_epoch:
                found.append(f"{place}: {identity} writes into the open transaction of producer epoch {epoch}")
            if identity in ended:
                found.append(f"{place}: {identity} writes after its end marker")
            ours.add(batch.epoch)
            if len(ours) > 1:
                found.append(f"{place}: one transaction, {identity}, holds epochs {sorted(ours)}")
        else:
            # An end marker carries the producer epoch of the next transaction (KIP-890), unless the broker fenced.
            was = open_now.pop(batch.producer_id, None)
            if was is not None:
                ended.add((batch.producer_id, was[0]))
            if identity in marked and batch != before:
                found.append(f"{place}: a second end marker of {identity}")
            marked.add(identity)
    found += (
        []
        if may_be_open
        else [
            f"{place}: producer {producer}, epoch {epoch} has no end marker"
            for producer, (epoch, _) in open_now.items()
        ]
    )
    return found


def boundaries(history: History) -> list[str]:
    """Of each epoch in the ledger: its records and all earlier ones are before its boundary, all later ones are not.

    A snapshot across pipelines is cut there: on the wrong side a record would be lost, or be read twice.
    """
    found = []
    for line in history.ledger:
        for place, offsets in line.boundaries.items():
            for batch in _committed(history.log.get(place, ())):
                wrong = [at for at in offsets if (batch.epoch <= line.epoch) != (batch.offset < at)]
                if wrong and batch.epoch >= 0:
                    found.append(
                        f"{place}: the boundary of epoch {line.epoch} is {wrong[0]}, and epoch {batch.epoch} has "
                        f"records at {batch.offset}"
                    )
    return found


def one_transaction(history: History) -> list[str]:
    """The committed records of an epoch come from one transaction, over all partitions."""
    owners: dict[int, set[tuple[int, int]]] = {}
    for batches in history.log.values():
        for data in _committed(batches):
            owners.setdefault(data.epoch, set()).add((data.producer_id, data.producer_epoch))
    return [
        f"epoch {epoch} was committed by the transactions {sorted(which)} (producer id, producer epoch)"
        for epoch, which in sorted(owners.items())
        if len(which) > 1
    ]


def _committed(batches: Iterable[LogBatch]) -> Iterator[LogBatch]:
    """The records of transactions whose end marker says so."""
    pending: dict[int, list[LogBatch]] = {}  # by producer id: what its open transaction holds here
    for batch in batches:
        if batch.kind == "data":
            pending.setdefault(batch.producer_id, []).append(batch)
            continue
        ended = pending.pop(batch.producer_id, [])
        yield from ended if batch.kind == "commit" else ()
