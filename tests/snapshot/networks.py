"""Networks of pipelines in memory that send each other money over topics, while they are killed at any step.

Topics are lists, as Kafka keeps them: records, committed or not, and the brokers' end markers, each with an offset. The
sink that votes is the production one (`TransactionalKafka`), and so are the ledger's entries. What really happened is
known here, to compare a cut with.
"""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.epoch.ledger import DONE, Entry, SinkEntry
from onceward.epoch.outcome import Outcome, PartitionOutcome, Span, TopicPartition
from onceward.kafka.transaction import EpochTransaction, Identity
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Wire
from onceward.sinks.kafka.transactional import TransactionalKafka
from onceward.snapshot.cut import Channel, History
from onceward.snapshot.histories import history_of

STRANGER = "somebody else"
STARTS_WITH = 100


@dataclass
class Item:
    """What lies at one offset. `is_committed` None: its transaction is open."""

    writer: str
    epoch: int = -1
    money: int = 0
    is_marker: bool = False
    is_committed: bool | None = None


@dataclass(frozen=True)
class Ways:
    """What may happen besides epochs that succeed."""

    strangers: bool = False
    aborts: bool = False
    kills: bool = False
    markers_twice: bool = False
    silence: bool = False  # a broker knows a batch already, and not where
    one_reader: bool = True  # of each topic, so that money is conserved


class Topics:
    """All of them, and the broker's side of a transaction. Stands where the wire does."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.logs = {
            TopicPartition(name, it): list[Item]() for name, count in partitions.items() for it in range(count)
        }

    def topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        return {name: [0] * len(self.of(name)) for name in names if self.of(name)}

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        return {name: f"id-of-{name}" for name in names}

    def ends(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        return {place: len(self.logs[place]) for name in names for place in self.of(name)}

    def of(self, name: str) -> list[TopicPartition]:
        return [place for place in self.logs if place.topic == name]

    def readable(self, place: TopicPartition) -> int:
        """Up to where a reader of what is committed comes: the first record of an open transaction."""
        log = self.logs[place]
        return next((at for at, item in enumerate(log) if item.is_committed is None), len(log))

    def end(self, writer: str, *, commits: bool, twice: bool) -> int:
        """The coordinator's part: every partition of the transaction gets its marker. The money in it."""
        money = 0
        for log in self.logs.values():
            mine = [item for item in log if item.writer == writer and item.is_committed is None]
            for item in mine:
                item.is_committed = commits
                money += item.money
            log.extend([Item(writer, is_marker=True, is_committed=commits)] * (bool(mine) * (1 + twice)))
        return money


class Fenced(Transactor):
    """Gives out one identity after the other."""

    numbers = itertools.count()

    def __init__(self, wire: Wire, pipeline: str, transaction_timeout_ms: int, **_: Any) -> None:
        self.wire, self.pipeline, self.timeout_ms = wire, pipeline, transaction_timeout_ms

    def fence(self) -> Identity:
        return Identity(1, next(self.numbers))

    def begin(self, epoch: int) -> EpochTransaction:
        return EpochTransaction(epoch=epoch, identity=self.fence())


class Sink(TransactionalKafka):
    """The production half that votes; rows are money."""

    transactor_kind = Fenced

    def write(self, _: EpochContext, __: Any) -> Outcome:
        raise AssertionError("the network writes")

    def digest(self, _: EpochContext, __: Any) -> Outcome | None:
        raise AssertionError("nobody replays")


@dataclass
class Life:
    """What one epoch of a pipeline is, whether or not anybody has noted it yet."""

    number: int
    positions: list[dict[TopicPartition, int]]  # of each source
    balance: int
    outcome: Outcome = field(default_factory=Outcome)
    vote: Mapping[str, Any] = field(default_factory=dict)
    is_recorded: bool = False
    is_finished: bool = False


class Member:
    """One pipeline: reads its topics by one source or two, keeps money, and sends some of it on."""

    def __init__(self, name: str, topics: Topics, reads: list[str], writes: list[str], dice: random.Random) -> None:
        self.name, self.topics, self.reads, self.writes, self.dice = name, topics, reads, writes, dice
        self.sources = dice.choice([1, 1, 2])
        self.lives: list[Life] = []
        self.sink = Sink(cast("Wire", topics), writes[0] if writes and dice.random() < 0.7 else "log", 1)
        self.trying: Life | None = None
        self.is_alive = False
        self.start()

    def start(self) -> None:
        """After a kill, or for the first time. What is open is aborted before anybody looks where topics end."""
        self.topics.end(self.name, commits=False, twice=False)
        self.sink.open(Owner(pipeline=self.name, lineage="L", term=1, guarantee=Guarantee.EXACTLY_ONCE))
        self.trying, self.is_alive = None, True
        if self.lives and not self.lives[-1].is_recorded:  # committed; of its votes the marker knows nothing
            last = self.lives[-1]
            last.vote, last.is_recorded = {}, True
            if self.dice.random() < 0.5:  # nor of its partitions, if there were too many of them
                last.outcome = Outcome(rows=last.outcome.rows)
        for life in self.lives:
            life.is_finished = True

    def step(self, ways: Ways) -> None:
        """The next step of an epoch, or something worse."""
        if not self.is_alive:
            self.start()
        elif ways.kills and self.dice.random() < 0.05:
            self.is_alive = False
        elif self.trying is not None:
            self._end(self.trying, ways)
        elif self.lives and not self.lives[-1].is_recorded:
            self.lives[-1].is_recorded = True
        elif self.lives and not self.lives[-1].is_finished:
            self.lives[-1].is_finished = True
        else:
            self._try(ways)

    def _try(self, ways: Ways) -> None:
        last = self.lives[-1] if self.lives else Life(-1, [{}] * self.sources, STARTS_WITH)
        positions = [self._read_on(before) for before in last.positions]
        money = sum(
            item.money
            for place, end in positions[0].items()  # the second source only looks
            for item in self.topics.logs[place][last.positions[0].get(place, 0) : end]
            if item.is_committed
        )
        self.trying = Life(last.number + 1, positions, last.balance + money)
        self._write(self.trying, ways)

    def _read_on(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        places = [place for topic in self.reads for place in self.topics.of(topic)]
        return {it: self.dice.randint(before.get(it, 0), self.topics.readable(it)) for it in places}

    def _write(self, life: Life, ways: Ways) -> None:
        self.sink.begin(EpochContext(epoch=life.number))
        parts: list[tuple[TopicPartition, PartitionOutcome]] = []
        places = [place for topic in self.writes for place in self.topics.of(topic)]
        for place in self.dice.sample(places, self.dice.randint(0, len(places))):
            log = self.topics.logs[place]
            first = len(log)
            for _ in range(self.dice.randint(1, 2)):
                money = self.dice.randint(0, life.balance)
                life.balance -= money
                log.append(Item(self.name, life.number, money))
                if ways.strangers and self.dice.random() < 0.3:
                    log.append(Item(STRANGER, is_committed=True))
            span = Span(first, max(at for at, it in enumerate(log) if it.writer == self.name) + 1)
            is_silent = ways.silence and self.dice.random() < 0.2
            parts.append((place, PartitionOutcome(len(log) - first, 1, None if is_silent else span)))
        life.outcome = Outcome.of(parts)

    def _end(self, life: Life, ways: Ways) -> None:
        fails = ways.aborts and self.dice.random() < 0.3
        if not fails or self.dice.random() < 0.5:
            life.vote = json.loads(json.dumps(self.sink.pre_commit(EpochContext(epoch=life.number), life.outcome)))
        twice = ways.markers_twice and self.dice.random() < 0.3
        money = self.topics.end(self.name, commits=not fails, twice=twice)
        if fails:
            redone = Life(life.number, life.positions, life.balance + money)
            self.trying = redone
            self._write(redone, ways)
        else:
            self.lives.append(life)
            self.trying = None

    def entries(self) -> list[Entry]:
        return [self._entry(life) for life in self.lives if life.is_recorded]

    def _entry(self, life: Life) -> Entry:
        texts = []
        for source in life.positions:
            told: dict[str, dict[str, int]] = {}
            for place, offset in source.items():
                told.setdefault(place.topic, {})[str(place.partition)] = offset
            texts.append(json.dumps(told))
        return Entry(
            pipeline=self.name,
            lineage="L",
            term=1,
            epoch=life.number,
            phase=DONE,
            positions=texts,
            decider="out",
            sinks={"out": SinkEntry.of(life.outcome, committable=dict(life.vote))},
        )


class Network:
    """A few pipelines, joined at random: chains, cycles, several readers, pipelines that read themselves."""

    def __init__(self, seed: int, ways: Ways, *, pipelines: int = 3) -> None:
        self.dice, self.ways = random.Random(seed), ways
        names = [f"p{number}" for number in range(pipelines)]
        writers = {f"t{number}": self.dice.choice(names) for number in range(self.dice.randint(1, pipelines + 1))}
        self.topics = Topics({topic: self.dice.randint(1, 2) for topic in writers} | {"log": 1})
        many = {topic: self.dice.sample(names, self.dice.randint(1, 2)) for topic in writers}
        readers = {topic: found[:1] if ways.one_reader else found for topic, found in many.items()}
        self.members = {
            name: Member(
                name,
                self.topics,
                reads=[topic for topic in writers if name in readers[topic]],
                writes=[topic for topic in writers if writers[topic] == name],
                dice=self.dice,
            )
            for name in names
        }
        self.channels = [
            Channel(topic=topic, topic_id=f"id-of-{topic}", producer=writers[topic], consumer=reader)
            for topic in writers
            for reader in readers[topic]
        ]
        self.dice.shuffle(self.channels)

    def run(self, steps: int) -> "Network":
        for _ in range(steps):
            if self.ways.strangers and self.dice.random() < 0.1:
                self.topics.logs[self.dice.choice([*self.topics.logs])].append(Item(STRANGER, is_committed=True))
            self.dice.choice([*self.members.values()]).step(self.ways)
        return self

    def histories(self, *, keeps: int = 1000, saves: int = 1000) -> dict[str, History]:
        """As the ledgers tell, whose last entries are kept, and of which the last ones can still be saved."""
        found = {}
        for name, member in self.members.items():
            entries = member.entries()[-keeps:]
            savable = {life.number for life in member.lives if life.is_finished}
            can_be = {it.epoch for it in entries[-saves:] if it.epoch in savable}
            found[name] = history_of(name, entries, can_be)
        return found

    def life(self, pipeline: str, number: int) -> Life:
        return self.members[pipeline].lives[number]

    def furthest(self, consumer: str, number: int, place: TopicPartition) -> int:
        return max(source.get(place, 0) for source in self.life(consumer, number).positions)

    def records(self, place: TopicPartition, writer: str) -> Iterable[tuple[int, Item]]:
        """What a pipeline has really committed in a partition."""
        for offset, item in enumerate(self.topics.logs[place]):
            if item.writer == writer and item.is_committed and not item.is_marker:
                yield offset, item

    def read_too_early(self, chosen: Mapping[str, int]) -> list[str]:
        """Records of a producer's later epochs that a consumer's epoch has read: of a consistent cut there are none."""
        return [
            f"{channel.consumer} at {chosen[channel.consumer]} has read {place} at {offset}, of epoch {item.epoch}"
            for channel in self.channels
            for place in self.topics.of(channel.topic)
            for offset, item in self.records(place, channel.producer)
            if item.epoch > chosen[channel.producer]
            and offset < self.furthest(channel.consumer, chosen[channel.consumer], place)
        ]

    def really_newest(self) -> dict[str, int] | None:
        """By trying every combination against what really happened; None: there is none."""
        ends = {name: [it.number for it in each.lives if it.is_finished] for name, each in self.members.items()}
        cuts = [
            dict(zip(ends, numbers, strict=True))
            for numbers in itertools.product(*ends.values())
            if not self.read_too_early(dict(zip(ends, numbers, strict=True)))
        ]
        return {name: max(cut[name] for cut in cuts) for name in ends} if cuts else None

    def money(self) -> int:
        return STARTS_WITH * len(self.members)

    def written(self, channel: Channel, place: TopicPartition, upto: int) -> Counter[int]:
        """The offsets of all records of a producer's epochs up to one."""
        return Counter(at for at, item in self.records(place, channel.producer) if item.epoch <= upto)


def named(ways: Ways) -> str:
    return (
        "-".join(name for name in Ways.__dataclass_fields__ if getattr(ways, name) and name != "one_reader") or "none"
    )


CLEAN = Ways()
ALL = Ways(strangers=True, aborts=True, kills=True, markers_twice=True, silence=True)
EACH = [
    CLEAN,
    Ways(strangers=True),
    Ways(aborts=True),
    Ways(kills=True),
    Ways(markers_twice=True),
    Ways(silence=True, kills=True),
    ALL,
    replace(ALL, one_reader=False),
]
