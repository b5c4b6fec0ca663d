"""The broker has written a record, and its answer is lost on the way: C1."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.wire import AnswerLost, Cluster, Wire
from onceward.proof.chaos.kafka_proxy import Api, KafkaProxy
from onceward.textbook.kafka.ground import Answer, Ground, batch, produce
from onceward.textbook.pictures.conversation import Conversation, Happened, Said
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story

RECORD: Final = "charge for order 1"
PRODUCER, BROKER, READER = LANES = ("producer", "broker", "reader")


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of one record whose first acknowledgement was lost."""

    seen_before: list[str]  # by a reader, after the answer was lost and before the retry
    answer: Answer  # to the retry
    seen: list[str]


@dataclass(frozen=True, slots=True)
class Last:
    without_producer_id: Retried
    with_producer_id: Retried


def tell(stage: Stage) -> Ending:
    stage.say(
        "A producer sends one record and waits for the broker's acknowledgement. Between the two stands a proxy that "
        "lets the request through and, when the broker answers, cuts the connection instead."
    )
    with Ground(stage) as ground:
        plain = _plain(stage, ground)
        idempotent = _idempotent(stage, ground)
    return Ending(
        last=Last(plain, idempotent),
        takeaways=(
            (
                "A lost answer is neither success nor failure. Not to send again may lose the record; to send again "
                "may double it."
            ),
            (
                "A producer id and a sequence number make the retry harmless: the broker recognises the batch, keeps "
                "one copy and answers as it did the first time."
            ),
            (
                "The retry must be the same batch with the same number. An application that builds a new one is not "
                "protected (`onceward textbook idempotence`)."
            ),
        ),
        lives_in=(
            "src/onceward/kafka/sender.py",
            "src/onceward/kafka/wire.py",
            "src/onceward/proof/chaos/kafka_proxy.py",
        ),
    )


def _plain(stage: Stage, ground: Ground) -> Retried:
    stage.heading("Without a producer id")
    place = ground.topic("charges")
    retried = _send_lose_send(ground, place, batch(RECORD))
    stage.say(
        "The producer saw its connection break. It cannot know whether the record was written; a reader can, and sees "
        f"{_records(retried.seen_before)}."
    )
    stage.say(
        f"So the producer sends the record again. The broker answers `{retried.answer.error}` (no error) and puts it "
        f"at offset {retried.answer.offset}, behind the first. A reader sees {_records(retried.seen)}."
    )
    stage.draw(
        _picture(
            "Without a producer id a retry is a new record",
            "write",
            retried,
            Happened(BROKER, f"writes it at offset {retried.answer.offset}", Tone.BAD),
            Tone.BAD,
        )
    )
    return retried


def _idempotent(stage: Stage, ground: Ground) -> Retried:
    stage.heading("With a producer id and a sequence number")
    stage.say(
        "Now the producer asks the broker for a producer id first (`InitProducerId`) and numbers its batches: this is "
        "batch 0 of producer 1. The same accident happens."
    )
    place = ground.topic("charges")
    retried = _send_lose_send(ground, place, batch(RECORD, producer=ground.producer(), sequence=0))
    stage.say(
        f"To the retry the broker answers `{retried.answer.error}` with offset {retried.answer.offset}: the place of "
        f"the first copy. It knows batch 0 of producer 1 and writes nothing. A reader sees {_records(retried.seen)}."
    )
    stage.say(
        "Kafka has an error named `DUPLICATE_SEQUENCE_NUMBER` too. It does not come here: a batch that the broker "
        "remembers is answered as a success, so the producer learns where its record is."
    )
    stage.draw(
        _picture(
            "With producer id and sequence the broker recognises the retry",
            "write: producer 1, batch 0",
            retried,
            Happened(BROKER, "knows producer 1, batch 0", Tone.GOOD),
            Tone.GOOD,
        )
    )
    return retried


def _send_lose_send(ground: Ground, place: TopicPartition, records: bytes) -> Retried:
    host, port = ground.bootstrap.split(":")
    with KafkaProxy(host, int(port)) as proxy, closing(Wire(Cluster(f"{host}:{proxy.port}"))) as wire:
        send = _through(wire, place, records)
        trap = proxy.lose_answer_of(Api.PRODUCE)
        try:
            send()
        except AnswerLost:
            assert trap.sprung.is_set()
        else:
            raise AssertionError("the proxy let the answer through")
        before = ground.seen(place)
        return Retried(before, send(), ground.seen(place))


def _through(wire: Wire, place: TopicPartition, records: bytes) -> Callable[[], Answer]:
    """The broker's metadata would lead past the proxy, so we stay on the connection that we came by."""
    (node,) = (broker.node_id for broker in wire.client().cluster.bootstrap_brokers())
    return lambda: produce(wire, place, records, node=node)


def _picture(title: str, request: str, retried: Retried, second: Happened, tone: Tone) -> Conversation:
    return Conversation(
        title=title,
        lanes=LANES,
        moments=(
            Said(PRODUCER, BROKER, request),
            Happened(BROKER, "writes it at offset 0"),
            Said(BROKER, PRODUCER, "acknowledgement", Tone.BAD, lost=True),
            Said(BROKER, READER, _records(retried.seen_before)),
            Said(PRODUCER, BROKER, request),
            second,
            Said(BROKER, PRODUCER, f"{retried.answer.error}, offset {retried.answer.offset}", tone),
            Said(BROKER, READER, _records(retried.seen), tone),
        ),
    )


def _records(seen: list[str]) -> str:
    return f"{len(seen)} record" + ("" if len(seen) == 1 else "s")


STORY: Final = Story(
    name="lost-acknowledgement",
    title="The lost acknowledgement",
    question="The answer was lost: what does sending it again do?",
    tell=tell,
    needs=(Need.KAFKA,),
)
