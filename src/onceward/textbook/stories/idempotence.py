"""What may be repeated without harm, how a broker makes writing such a thing, and where that ends: C2."""

from dataclasses import dataclass
from typing import Final

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.transaction import Identity
from onceward.textbook.kafka.child import Child
from onceward.textbook.kafka.ground import Answer, Ground, batch, produce
from onceward.textbook.pictures.conversation import Conversation, Happened, Said
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Need, Story

START: Final = 17
BATCHES: Final = 6
RECORD: Final = "charge for order 1"
PRODUCER, RESTARTED, BROKER, READER = "producer 1", "producer 2", "broker", "reader"
MEANING: Final = {  # of an answer to a batch that was sent before
    "NONE": "recognised",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "not remembered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    effects: dict[str, list[int]]  # x after each repeat
    answers: list[str]  # to the six batches when they were sent again
    kept: list[str]  # what a reader saw then
    other_content: tuple[Answer, list[str]]  # the answer to a known number with other content, and what a reader saw
    restarted: list[str]  # what a reader saw after a producer started again
    sent_twice: list[str]  # and after an application sent twice


def tell(stage: Stage) -> Ending:
    effects = _effects(stage)
    with Ground(stage) as ground:
        remembered, kept = _memory(stage, ground)
        other_content = _other_content(stage, ground)
        restarted = _restart(stage, ground)
        twice = _sent_twice(stage, ground)
    return Ending(
        last=Last(
            effects=effects,
            answers=[answer.error for answer in remembered],
            kept=kept,
            other_content=other_content,
            restarted=restarted,
            sent_twice=twice,
        ),
        takeaways=(
            "An effect is idempotent if doing it again changes nothing. `x = 18` is idempotent, `x = x + 1` is not.",
            (
                "Appending to a log is like `x = x + 1`. Producer id and sequence number make it idempotent, for one "
                "producer, one partition and its last five batches. So no more than five may be on their way at a time."
            ),
            (
                "A restart without a transactional id is a new producer. What helps is a transaction that holds the "
                "output and the position of the input (`onceward textbook crash-before-commit`)."
            ),
            (
                "Whoever sends twice means two records. In doubt, do not send again: abort the transaction and begin "
                "it anew."
            ),
        ),
        lives_in=(
            "src/onceward/kafka/idempotent.py",
            "src/onceward/kafka/sender.py",
            "docs/decisions/0003-poisoned-attempts.md",
        ),
    )


def _effects(stage: Stage) -> dict[str, list[int]]:
    """Each of them done once, then repeated twice, from the same start."""
    stage.heading("Two kinds of effects")
    setting, adding = [START], [START]
    for _ in range(3):
        setting.append(18)
        adding.append(adding[-1] + 1)
    effects = {"x = 18": setting[1:], "x = x + 1": adding[1:]}
    stage.say(
        f"Let x be {START}. Two requests make it one more: to set it to 18, or to add 1 to it. A sender that does not "
        "know whether its request arrived sends it again, and then it matters which of the two it was."
    )
    stage.show(
        "request",
        "arrives once",
        "twice",
        "three times",
        rows=[(f"`{request}`", *values) for request, values in effects.items()],
    )
    return effects


def _memory(stage: Stage, ground: Ground) -> tuple[list[Answer], list[str]]:
    stage.heading("What the broker remembers")
    place, producer = ground.topic("charges"), ground.producer()
    stage.say(
        "Appending a record to a topic is of the second kind: each request makes the topic longer. So a producer "
        f"gets an id and numbers its batches, separately for each partition. Producer 1 sends batches 0 to "
        f"{BATCHES - 1}, each with one record, and then sends every one of them again."
    )
    stage.say(
        "In truth Kafka numbers the records, and a batch carries the number of its first; with one record in each "
        "batch that is the same. `NONE` in an answer means: no error."
    )
    batches = [batch(f"record {number}", producer=producer, sequence=number) for number in range(BATCHES)]
    first = [produce(ground.wire, place, it) for it in batches]
    again = [produce(ground.wire, place, it) for it in batches]
    kept = ground.seen(place)
    stage.show(
        "batch",
        "answer",
        "answer when sent again",
        "the batch is",
        rows=[
            (number, _told(one), _told(other), MEANING[other.error])
            for number, (one, other) in enumerate(zip(first, again, strict=True))
        ],
    )
    stage.say(
        "The broker remembers the last five batches of each producer in each partition. An older one does not follow "
        f"the newest, and that is all the broker can say: `{again[0].error}`, the same as for a gap. It is not written "
        f"either way: a reader sees {len(kept)} records."
    )
    stage.draw(_picture_of_memory(again, kept))
    return again, kept


def _other_content(stage: Stage, ground: Ground) -> tuple[Answer, list[str]]:
    stage.heading("What it does not look at: the content")
    place, producer = ground.topic("charges"), ground.producer()
    answers = [
        produce(ground.wire, place, batch(text, producer=producer, sequence=0))
        for text in ("first text", "second text")
    ]
    seen = ground.seen(place)
    stage.say(
        "A batch is recognised by its producer, its number and how many records it has. Sent again as batch 0 but with "
        f'another text, it is answered with `{answers[1].error}` all the same, and a reader still sees "{seen[0]}". So '
        "a repeated batch must have the same content: Onceward does not let a repeated Spark task write into the "
        "transaction of its first try, because its rows may differ."
    )
    return answers[1], seen


def _restart(stage: Stage, ground: Ground) -> list[str]:
    stage.heading("What it forgets: a producer that restarts")
    place = ground.topic("charges")
    order = {"bootstrap": ground.bootstrap, "target": place, "record": RECORD}
    ids = []
    for _ in range(2):
        with Child("onceward.textbook.kafka.plain_producer", order) as process:
            ids.append(process.heard()["producer_id"])
            process.kill()
    assert ids[0] != ids[1]
    seen = ground.seen(place)
    stage.say(
        "A process sends a record and is killed (`kill -9`) before it could note that it did. Started again, it asks "
        "for a producer id as before, gets a new one, and sends the record again. To the broker this is batch 0 of a "
        f"producer that it has never seen: a reader sees {len(seen)} records."
    )
    stage.draw(_picture_of_restart(seen))
    return seen


def _sent_twice(stage: Stage, ground: Ground) -> list[str]:
    stage.heading("What it cannot know: an application that sends twice")
    place, producer = ground.topic("charges"), ground.producer()
    for sequence in range(2):
        _send(ground, place, producer, sequence)
    seen = ground.seen(place)
    stage.say(
        "An application that is in doubt and calls `send` a second time makes a second batch with the next number. To "
        f"the broker these are two records that happen to be equal: a reader sees {len(seen)} records."
    )
    return seen


def _send(ground: Ground, place: TopicPartition, producer: Identity, sequence: int) -> None:
    answer = produce(ground.wire, place, batch(RECORD, producer=producer, sequence=sequence))
    assert answer.accepted


def _told(answer: Answer) -> str:
    return f"`{answer.error}`, offset {answer.offset}" if answer.accepted else f"`{answer.error}`"


def _picture_of_memory(again: list[Answer], kept: list[str]) -> Conversation:
    newest, oldest = again[-1], again[0]
    return Conversation(
        title="The broker recognises the last five batches, and refuses older ones",
        lanes=(PRODUCER, BROKER, READER),
        moments=(
            Said(PRODUCER, BROKER, f"batches 0 to {BATCHES - 1}"),
            Said(PRODUCER, BROKER, f"batch {BATCHES - 1} again"),
            Happened(BROKER, "recognises it", Tone.GOOD),
            Said(BROKER, PRODUCER, f"{newest.error}, offset {newest.offset}", Tone.GOOD),
            Said(PRODUCER, BROKER, "batch 0 again"),
            Happened(BROKER, "has forgotten it", Tone.BAD),
            Said(BROKER, PRODUCER, oldest.error, Tone.BAD),
            Said(BROKER, READER, f"{len(kept)} records", Tone.GOOD),
        ),
    )


def _picture_of_restart(seen: list[str]) -> Conversation:
    return Conversation(
        title="A producer that starts again without a transactional id is another one to the broker",
        lanes=(PRODUCER, RESTARTED, BROKER, READER),
        moments=(
            Said(PRODUCER, BROKER, "batch 0: a charge"),
            Happened(PRODUCER, "kill -9", Tone.BAD),
            Happened(RESTARTED, "is the same program", Tone.QUIET),
            Said(RESTARTED, BROKER, "batch 0: a charge"),
            Said(BROKER, READER, f"{len(seen)} charges", Tone.BAD),
        ),
    )


STORY: Final = Story(
    name="idempotence",
    title="Idempotent or not",
    question="Which effects may be repeated, and how far does Kafka help?",
    tell=tell,
    needs=(Need.KAFKA,),
)
