"""What came out, as others see it: topics through another Kafka client, tables through SQL and Delta's own reader."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from deltalake import DeltaTable
from psycopg import sql

from onceward.apps.ads import words
from onceward.apps.ads.places import Places
from onceward.apps.ads.world.bill import Attributed, Minute
from onceward.apps.ads.world.judge import Seen
from onceward.demo.process import DemoFailed

T = TypeVar("T")
POLL_S: Final = 0.2
AT_ONCE: Final = 5_000
CLEANED: Final = (words.AD_EVENTS, words.ORDERS)
RESULTS: Final = (words.MINUTES, words.ATTRIBUTED)
READ_TIMEOUT_S: Final = 300.0  # a million records take seconds


def seen(places: Places) -> Seen:
    """Everything the application has written below `places`."""
    events, orders = ([name for name, kind in read(places, it, _cleaned) if kind != words.HEARTBEAT] for it in CLEANED)
    history = DeltaTable(places.history).to_pyarrow_table(columns=["topic", "value"]).to_pylist()
    kept = {
        topic: [json.loads(it["value"]) for it in history if it["topic"] == places.topic(topic)] for topic in RESULTS
    }
    with psycopg.connect(places.dsn) as connection:
        served = {topic: _table(connection, places.table(topic)) for topic in RESULTS}
    return Seen(
        events=events,
        orders=orders,
        late=read(places, words.LATE, lambda it: (it.value() or b"", it.timestamp()[1])),
        dead=read(places, words.DEAD, lambda it: (_reason(it), it.value())),
        minutes=read(places, words.MINUTES, lambda it: _minute(_fields(it))),
        attributed=read(places, words.ATTRIBUTED, lambda it: _attributed(_fields(it))),
        served_minutes=[_minute(it) for it in served[words.MINUTES]],
        served_orders=[_attributed(it) for it in served[words.ATTRIBUTED]],
        history_minutes=[_minute(it) for it in kept[words.MINUTES]],
        history_orders=[_attributed(it) for it in kept[words.ATTRIBUTED]],
    )


def read(places: Places, topic: str, each: Callable[[Message], T]) -> list[T]:
    """What `each` makes of every visible record of a topic, for a reader that was never there before."""
    found: list[T] = []
    deadline = time.monotonic() + READ_TIMEOUT_S
    with consumer(places.bootstrap) as reader:
        name = places.topic(topic)
        left = _partitions(reader, name)
        reader.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in left])
        while left:
            take(reader, lambda it: found.append(each(it)), at_end=left.discard)
            if time.monotonic() > deadline:
                raise DemoFailed(f"topic {name!r} could not be read to its end within {READ_TIMEOUT_S:.0f} s")
    return found


@contextmanager
def consumer(bootstrap: str) -> Iterator[Consumer]:
    """A reader of committed records, through a client that shares no line with ours."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"demo-reader-{uuid.uuid4().hex}",  # asked for, though nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,  # its default lets records lie for up to a second
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    try:
        yield reader
    finally:
        reader.close()


def take(
    reader: Consumer,
    each: Callable[[Message], None],
    *,
    at_end: Callable[[int], None] = lambda _: None,
    within_s: float = POLL_S,
) -> None:
    """What is there now, or comes within a moment."""
    for message in reader.consume(AT_ONCE, within_s):
        error = message.error()
        if error is None:
            each(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that is its public name
            at_end(message.partition() or 0)
        elif error.fatal():
            raise KafkaException(error)


def _partitions(reader: Consumer, topic: str) -> set[int]:
    return set(reader.list_topics(topic, timeout=READ_TIMEOUT_S).topics[topic].partitions)


def _fields(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message.value() or b"")
    return found


def _cleaned(message: Message) -> tuple[str, str]:
    fields = _fields(message)
    return fields["id"], fields["type"]


def _reason(message: Message) -> str:
    reason = dict(message.headers() or []).get("reason")
    return reason.decode() if isinstance(reason, bytes) else ""


def _table(connection: "psycopg.Connection[Any]", table: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        cursor.execute(sql.SQL("select * from {}").format(sql.Identifier(table)))
        return list(cursor)


def _minute(row: dict[str, Any]) -> tuple[str, Minute]:
    return row["id"], Minute(row["ad"], row["type"], _milliseconds(row["minute"]), row["count"])


def _attributed(row: dict[str, Any]) -> Attributed:
    """From a record or from a row of the table, which name two fields differently."""
    served = "buyer" in row
    return Attributed(
        id=row["id"],
        user=row["buyer"] if served else row["user"],
        store=row["store"],
        at=_milliseconds(row["ordered"] if served else row["at"]),
        amount_cents=_cents(row["amount"]) or 0 if served else row["amount"],
        touch_id=row.get("touch"),
        touch_type=row.get("touch_type"),
        ad=row.get("ad"),
        campaign=row.get("campaign"),
        price_cents=_cents(row.get("price")),
        currency=row.get("currency"),
    )


def _milliseconds(time: int | datetime) -> int:
    if isinstance(time, int):
        return time
    return int(time.timestamp()) * 1000 + time.microsecond // 1000


def _cents(money: str | Decimal | None) -> int | None:
    return None if money is None else int(Decimal(money).scaleb(2))
