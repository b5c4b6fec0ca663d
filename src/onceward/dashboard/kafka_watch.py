"""One Kafka, asked every few seconds from a thread of its own while somebody looks: no page waits for a broker."""

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from onceward.dashboard.lag import Lag, ReadUpTo, measured
from onceward.dashboard.model import Holder, KafkaFacts, OutputPartition, Transaction
from onceward.errors import BrokerRefused
from onceward.kafka import open_transactions
from onceward.kafka.open_transactions import Ends, OpenTransaction, Sight
from onceward.kafka.wire import Cluster, Wire
from onceward.secret import without_secrets

ASK_S: Final = 2.0
UNASKED_S: Final = 30.0  # after the last page was shown, brokers are left alone
SILENT_S: Final = 8.0  # an answer that takes longer than this is told as none


class KafkaWatch:
    """`close` it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics: frozenset[str] = frozenset()
        self._pipelines: dict[str, str] = {}
        self._readers: dict[str, ReadUpTo] = {}
        self._lags: dict[str, Lag] = {}
        self._seen: tuple[datetime, Sight] | None = None
        self._error = "it is being asked"
        self._since: float | None = None  # when the question that is under way was asked
        self._asked_at = time.monotonic()
        self._over, self._wanted, self._answered = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="onceward-ui-kafka", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """A question that is under way is left behind."""
        self._over.set()
        self._wanted.set()
        self._thread.join(1.0)

    def follow(self, topics: Iterable[str], pipelines: dict[str, str], readers: dict[str, ReadUpTo]) -> None:
        """The topics whose partitions are shown, the ids of pipelines by name, and by id those whose lag is asked."""
        self._topics, self._pipelines, self._readers = frozenset(topics), dict(pipelines), dict(readers)

    def lag(self, pipeline: str) -> Lag:
        """By the last look; nothing is known where it is empty."""
        return self._lags.get(pipeline, {})

    def wait(self, timeout_s: float) -> None:
        """For the first answer, or the first error."""
        self._wanted.set()
        self._answered.wait(timeout_s)

    def facts(self) -> KafkaFacts:
        """As of the last look; never waits."""
        self._asked_at = time.monotonic()
        self._wanted.set()
        error, since = self._error, self._since
        if since is not None and time.monotonic() - since > SILENT_S:
            error = f"no answer for {time.monotonic() - since:.0f} s"
        at, sight = self._seen or (None, Sight([], []))
        return KafkaFacts(
            bootstrap=self._cluster.bootstrap,
            reachable=not error,
            error=str(without_secrets(error)),
            at=at.isoformat(timespec="milliseconds") if at is not None else None,
            transactions=[self._transaction(it) for it in sight.transactions],
            partitions=[self._partition(it) for it in sight.partitions],
        )

    def _work(self) -> None:
        wire = Wire(self._cluster)
        while not self._over.is_set():
            if time.monotonic() - self._asked_at > UNASKED_S:
                _close(wire)
                self._wanted.clear()
                self._wanted.wait()
                continue
            self._since = time.monotonic()
            try:
                self._seen = datetime.now(UTC), open_transactions.look(wire, self._topics)
                self._lags = _lags(wire, self._readers)
                self._error = ""
            except Exception as error:  # noqa: BLE001 - it is shown, and asked again: the page goes on without it
                self._error, self._lags = str(error) or type(error).__name__, {}
                _close(wire)
            self._since = None
            self._answered.set()
            self._over.wait(ASK_S)
        _close(wire)

    def _transaction(self, it: OpenTransaction) -> Transaction:
        seconds = max(0.0, time.time() - it.began_ms / 1000) if it.began_ms is not None else None
        return Transaction(
            transactional_id=it.transactional_id,
            producer_id=it.producer_id,
            producer_epoch=it.producer_epoch,
            state=it.state,
            began_at=_moment(it.began_ms),
            seconds=round(seconds, 1) if seconds is not None else None,
            timeout_s=it.timeout_ms / 1000,
            coordinator=it.coordinator,
            partitions=[f"{place.topic}/{place.partition}" for place in it.partitions],
            pipeline=self._pipelines.get(it.transactional_id),
        )

    def _partition(self, it: Ends) -> OutputPartition:
        holder = it.holder
        return OutputPartition(
            topic=it.place.topic,
            partition=it.place.partition,
            end=it.end,
            stable=it.stable,
            held_back=it.held_back,
            holder=Holder(
                producer_id=holder.producer_id,
                transactional_id=holder.transactional_id,
                pipeline=self._pipelines.get(holder.transactional_id or ""),
                began_at=_moment(holder.began_ms),
            )
            if holder is not None
            else None,
        )


def _lags(wire: Wire, readers: dict[str, ReadUpTo]) -> dict[str, Lag]:
    """Nothing is known where we may not look; transactions are shown all the same."""
    try:
        return measured(wire, readers)
    except BrokerRefused:
        return {}


def _close(wire: Wire) -> None:
    with suppress(Exception):  # of a connection that is gone already
        wire.close()


def _moment(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
