"""Made-up pipelines that move: always the same ones, with a hundred thousand epochs each, none of which is kept."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "[/red]'\"`${7*7}",
    "\u202egnp.exe\u202c\u200b",
    "</script><script>document.title='owned'</script>",
)
STEPS: Final = ("begin", "write", "pre_commit", "commit")
PHASES: Final = {"begin": 3, "write": 70, "pre_commit": 9, "commit": 12}
TERM: Final = 420  # epochs of one driver
# name, what it reads, what it writes, its sinks
ADS: Final = (
    ("ads-clean", ["ad-events", "orders"], ["clean-events", "clean-orders"], ["kafka"]),
    ("ads-aggregate", ["clean-events"], ["minutes"], ["kafka"]),
    ("ads-attribute", ["clean-events", "clean-orders", "corrections"], ["attributed"], ["kafka"]),
    ("ads-load", ["minutes", "attributed"], [], ["serving:table", "history:lake", "raw:files"]),
    ("ads-correct", ["attributed"], ["corrections"], ["kafka"]),
)
STATES: Final = ("running",) * 6 + ("stopped", "waiting", "recovering", "paused")
KINDS: Final = {"kafka": "kafka", "table": "postgres", "lake": "delta", "files": "files"}
STRANGER: Final = "billing-export-7"  # holds partitions back
THINGS: Final = ("billing", "fraud", "search", "shop", "fleet")
WORK: Final = ("clean", "join", "load")


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@lru_cache(200_000)
def dice(*parts: int) -> float:
    """The same number from 0 to 1 for the same parts."""
    mixed = 0x9E3779B97F4A7C15
    for part in parts:
        mixed = ((mixed ^ part) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 29
    return (mixed * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF) / 2**64


@dataclass(eq=False)
class Fake:
    """One made-up pipeline."""

    number: int
    name: str
    sources: list[str]
    targets: list[str]
    sinks: list[tuple[str, str]]  # name, kind
    state: str = "running"
    reason: str = ""
    epochs: int = 100_000  # at the beginning
    marks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"p{self.number}"

    @property
    def decider(self) -> str | None:
        return next((name for name, kind in self.sinks if kind == "kafka"), None)

    def took(self, epoch: int, step: str, sink: int) -> float:
        usual = PHASES[step] * (0.6 + dice(self.number) * 1.2) * (0.7 + 0.6 * dice(self.number, epoch, sink, len(step)))
        return round(usual * (14 if dice(self.number, epoch) > 0.996 and step == "write" else 1), 1)

    @lru_cache(10_000)  # noqa: B019 - lives as long as the test
    def total(self, epoch: int) -> float:
        return sum(self.took(epoch, step, sink) for step in STEPS for sink in range(len(self.sinks)))

    def rows(self, epoch: int) -> int:
        return int(900 * (0.4 + dice(self.number, 7)) * (0.6 + 0.8 * dice(self.number, epoch, 3)))

    def attempts(self, epoch: int) -> int:
        return 2 if dice(self.number, epoch, 11) > 0.985 else 1

    def term(self, epoch: int) -> int:
        return 1 + epoch // TERM


class World:
    """All pipelines, and a clock that starts when it is made."""

    def __init__(self, pipelines: int = 6, *, kafka: bool = True, hostile: bool = False) -> None:
        self.began = time.time()
        self.kafka = kafka
        self.held_since: float | None = self.began - 252
        self.away: set[str] = set()  # ids whose home is out of reach
        self.measures = True  # what those that do not run have not read
        self.pipelines = list(_made(pipelines, hostile))
        if pipelines >= 6:
            self.pipelines[4].state, self.pipelines[4].reason = (
                "in doubt",
                "epoch 100,001 is voted for and not committed",
            )

    def now_epoch(self, it: Fake) -> int:
        moving = it.state in {"running", "recovering"}
        return it.epochs + int(time.time() - self.began) * moving

    def at(self, it: Fake, epoch: int) -> float:
        return self.began - (it.epochs - epoch) * 1.0

    def overview(self) -> dict[str, Any]:
        pipelines = [self.summary(it) for it in self.pipelines]
        kafka = self.kafka_facts()
        held = sum(part["held_back"] > 0 for part in kafka["partitions"]) if kafka else 0
        return {
            "at": iso(time.time()),
            "version": "0.9.0",
            "pipelines": pipelines,
            "graph": self.graph(pipelines),
            "kafka": kafka
            and {
                "bootstrap": kafka["bootstrap"],
                "reachable": True,
                "error": "",
                "open_transactions": len(kafka["transactions"]),
                "held_back_partitions": held,
            },
        }

    def summary(self, it: Fake) -> dict[str, Any]:
        last = self.now_epoch(it)
        moving = it.state == "running"
        jitter = dice(it.number, int(time.time()))
        totals = sorted(it.total(epoch) for epoch in range(last - 59, last + 1))
        committed = self.at(it, last) - (0 if moving else 40 + 900 * dice(it.number, 5))
        gone = it.id in self.away
        return {
            "id": it.id,
            "name": it.name,
            "home": f"/srv/onceward/{it.name}",
            "guarantee": "exactly-once",
            "state": "gone" if gone else it.state,
            "reason": "its home is not there" if gone else it.reason,
            "epoch": last,
            "last_commit_at": iso(committed),
            "last_commit_age_s": time.time() - committed,
            "rows_in_per_s": round(it.rows(last) * (0.8 + 0.4 * jitter), 1) if moving else 0.0,
            "rows_out_per_s": {sink: round(it.rows(last) * 0.7 * moving, 1) for sink, _ in it.sinks},
            "latency_ms": {"p50": totals[30], "p95": totals[56]},
            "lag": {topic: self.lag(it, topic) for topic in it.sources if self.measures or moving},
            "in_doubt": last + 1 if it.state == "in doubt" else None,
            "waits_for": "PostgreSQL at db.internal:5432, for 40 s" if it.state == "waiting" else "new events",
            "last_error": "",
            "sinks": [{"name": name, "kind": KINDS[kind], "decides": name == it.decider} for name, kind in it.sinks],
            "sources": it.sources,
            "targets": it.targets,
            "term": it.term(last),
            "lineage": f"{it.number:02x}a9f3c4d1e2b7",
            "recent": [
                [epoch, round(it.total(epoch), 1), it.rows(epoch), it.attempts(epoch)]
                for epoch in range(last - 59, last + 1)
            ],
        }

    def lag(self, it: Fake, topic: str) -> int:
        base = int(dice(it.number, len(topic)) * 300)
        return base if it.state == "running" else base + 18_400 + it.number * 31

    def graph(self, pipelines: list[dict[str, Any]]) -> dict[str, Any]:
        nodes: dict[str, dict[str, Any]] = {}
        edges: list[dict[str, Any]] = []
        for it, shown in zip(self.pipelines, pipelines, strict=True):
            nodes[it.id] = {"id": it.id, "kind": "pipeline", "label": it.name, "pipeline": it.id}
            for topic in (*it.sources, *it.targets):
                nodes[f"t:{topic}"] = {"id": f"t:{topic}", "kind": "topic", "label": topic, "pipeline": None}
            share = shown["rows_in_per_s"] / max(1, len(it.sources))
            edges += [
                {"from": f"t:{topic}", "to": it.id, "rows_per_s": share, "lag": shown["lag"].get(topic)}
                for topic in it.sources
            ]
            edges += [
                {"from": it.id, "to": f"t:{topic}", "rows_per_s": share * 0.7, "lag": None} for topic in it.targets
            ]
            for sink, kind in it.sinks:
                if kind != "kafka":
                    place = f"{kind}:{it.id}:{sink}"
                    nodes[place] = {"id": place, "kind": kind, "label": sink, "pipeline": None}
                    edges.append({"from": it.id, "to": place, "rows_per_s": share, "lag": None})
        return {"nodes": list(nodes.values()), "edges": edges}

    def detail(self, it: Fake) -> dict[str, Any]:
        last = self.now_epoch(it)
        shown = self.summary(it)
        starts = [self._start(it, term, last) for term in range(max(1, it.term(last) - 5), it.term(last) + 1)]
        doubts = [] if it.state != "in doubt" else [self._doubt(it, last)]
        return {
            **shown,
            "starts": starts,
            "state_rows": 1_204_331 + last,
            "state_bytes": 384_201_233,
            "epochs": {"first": max(0, it.epochs - 100_000), "last": last, "count": last + 1},
            "current": self._current(it, last + 1) if it.state == "running" else None,
            "in_doubt_epochs": doubts,
            "marks": [*self._marks(it, last), *it.marks],
            "savepoints": [
                {
                    "name": "before-2.0",
                    "epoch": last - 4_000,
                    "at": iso(self.at(it, last - 4_000)),
                    "bytes": 381_000_000,
                },
                {"name": "nightly", "epoch": last - 700, "at": iso(self.at(it, last - 700)), "bytes": 384_000_000},
            ],
            "snapshots": [
                {
                    "name": "all-2026-11-18",
                    "epoch": last - 300,
                    "at": iso(self.at(it, last - 300)),
                    "bytes": 392_000_000,
                }
            ],
        }

    def _start(self, it: Fake, term: int, last: int) -> dict[str, Any]:
        how = ("stopped", "killed", "failed", "killed", "fenced")[term % 5]
        runs = term == it.term(last)
        return {
            "term": term,
            "at": iso(self.at(it, (term - 1) * TERM)),
            "boundary": (term - 1) * TERM - 1,
            "ended_at": None if runs else iso(self.at(it, term * TERM)),
            "how": ("running" if it.state == "running" else "stopped") if runs else how,
        }

    def _doubt(self, it: Fake, last: int) -> dict[str, Any]:
        return {
            "epoch": last + 1,
            "phase": "prepared",
            "votes": {name: True for name, _ in it.sinks},
            "next_start": "reads the marker in Kafka. If the transaction was committed, it commits serving and history "
            "too; if not, it aborts everywhere and writes the epoch again.",
        }

    def _current(self, it: Fake, epoch: int) -> dict[str, Any]:
        began = time.time() % 1.0
        at = time.time() - began
        steps: list[dict[str, dict[str, str | None] | None]] = [dict.fromkeys(STEPS) for _ in it.sinks]
        clock = 0.0
        whole = it.total(epoch) / 1000
        for step in STEPS:
            for number, _ in enumerate(it.sinks):
                took = it.took(epoch, step, number) / 1000 / whole * 0.9
                if clock <= began:
                    over = clock + took <= began
                    steps[number][step] = {
                        "began_at": iso(at + clock),
                        "ended_at": iso(at + clock + took) if over else None,
                    }
                clock += took
        sinks = [
            {"name": name, "kind": KINDS[kind], "decides": name == it.decider, "steps": made, "state": "writing"}
            for (name, kind), made in zip(it.sinks, steps, strict=True)
        ]
        return {"epoch": epoch, "attempt": it.attempts(epoch), "began_at": iso(at), "phase": "writing", "sinks": sinks}

    def _marks(self, it: Fake, last: int) -> list[dict[str, Any]]:
        marks = []
        for epoch in range(max(0, last - 3_000), last + 1):
            if epoch % TERM == 0:
                killed = (epoch // TERM) % 5 in {1, 3}
                if killed:
                    killed_at = self._mark(it, epoch - 1, "killed", "process 4711 on batch-7 was killed")
                    marks.append(killed_at | {"epoch": None})
                marks.append(
                    self._mark(it, epoch - 1, "takeover", f"term {it.term(epoch)} begins after epoch {epoch - 1:,}")
                )
            if it.attempts(epoch) > 1:
                marks.append(self._mark(it, epoch, "aborted", "try 1: BrokerAway: no answer from broker 2 within 5 s"))
            if dice(it.number, epoch, 23) > 0.9985:
                marks.append(self._mark(it, epoch, "paused", "no renewal of the lease for 6 s, then it went on"))
        return marks

    def _mark(self, it: Fake, epoch: int, kind: str, text: str) -> dict[str, Any]:
        return {"at": iso(self.at(it, epoch)), "epoch": epoch, "kind": kind, "text": text}

    def columns(self, it: Fake, from_: int | None, to: int | None, limit: int) -> dict[str, Any]:
        last = min(self.now_epoch(it), to if to is not None else 10**9)
        epochs = range(max(0, last - limit + 1, from_ or 0), last + 1)
        return {
            "epoch": list(epochs),
            "at": [iso(self.at(it, epoch)) for epoch in epochs],
            "term": [it.term(epoch) for epoch in epochs],
            "attempts": [it.attempts(epoch) for epoch in epochs],
            "rows_in": [it.rows(epoch) for epoch in epochs],
            "rows_out": {name: [int(it.rows(epoch) * 0.7) for epoch in epochs] for name, _ in it.sinks},
            "phases": [
                {"name": step, "sink": name, "ms": [it.took(epoch, step, number) for epoch in epochs]}
                for step in STEPS
                for number, (name, _) in enumerate(it.sinks)
            ],
        }

    def epoch(self, it: Fake, epoch: int) -> dict[str, Any]:
        tried = it.attempts(epoch)
        return {
            "epoch": epoch,
            "term": it.term(epoch),
            "phase": "done",
            "at": iso(self.at(it, epoch)),
            "decider": it.decider,
            "decided_by": f"sink {it.decider!r}" if it.decider else "the ledger",
            "positions": [
                {"topic": topic, "partition": number, "from": epoch * 310, "to": epoch * 310 + 310 - number}
                for topic in it.sources
                for number in range(3)
            ],
            "input_rows": it.rows(epoch),
            "attempts": tried,
            "aborted": []
            if tried == 1
            else [
                {
                    "attempt": 1,
                    "cause": "BrokerAway",
                    "reason": "no answer from broker 2 (10.0.0.12:9092) within 5 s while writing to clean-events/1",
                    "at": iso(self.at(it, epoch) - 5),
                }
            ],
            "milliseconds": {"vote": round(it.total(epoch) * 0.8, 1), "commit": round(it.total(epoch) * 0.23, 1)},
            "sinks": [self._sink(it, epoch, number) for number in range(len(it.sinks))],
            "skipped": [f"{it.sources[0]}/1/{epoch * 310 + 5}"] if epoch % 50 == 0 and it.sources else [],
        }

    def _sink(self, it: Fake, epoch: int, number: int) -> dict[str, Any]:
        name, kind = it.sinks[number]
        rows = int(it.rows(epoch) * 0.7)
        parts = [
            {
                "topic": topic,
                "partition": part,
                "rows": rows // 3,
                "digest": f"{int(dice(it.number, epoch, part) * 2**63):016x}",
            }
            for topic in (it.targets if kind == "kafka" else [])
            for part in range(3)
        ]
        return {
            "name": name,
            "kind": KINDS[kind],
            "rows": rows,
            "digest": f"{int(dice(it.number, epoch) * 2**63):016x}",
            "voted": True,
            "partitions": parts,
            "committable": {
                "producer_id": 4000 + it.number,
                "producer_epoch": epoch % 32_767,
                "staged": f"_staging/{epoch}",
            },
            "milliseconds": {step: it.took(epoch, step, number) for step in STEPS},
        }

    def kafka_facts(self) -> dict[str, Any] | None:
        """What `/api/kafka` says: one stranger holds two partitions back, and some epochs are being written."""
        if not self.kafka:
            return None
        topics = list(dict.fromkeys(topic for it in self.pipelines for topic in it.targets))
        held = topics[-2:] if self.held_since is not None else []
        open_ = [self._stranger(held)] if held else []
        open_ += [self._transaction(it) for it in self.pipelines if self._writing(it)]
        return {
            "bootstrap": "broker-1.internal:9092,broker-2.internal:9092",
            "reachable": True,
            "error": "",
            "transactions": open_,
            "partitions": [self._partition(topic, part, held) for topic in topics for part in range(3)],
        }

    def _writing(self, it: Fake) -> bool:
        return it.state == "running" and bool(it.targets) and dice(it.number, int(time.time())) > 0.6

    def _stranger(self, topics: list[str]) -> dict[str, Any]:
        since = self.held_since or time.time()
        return {
            "transactional_id": STRANGER,
            "producer_id": 9_001,
            "producer_epoch": 3,
            "state": "Ongoing",
            "began_at": iso(since),
            "seconds": time.time() - since,
            "timeout_s": 900.0,
            "coordinator": 2,
            "partitions": [f"{topic}/0" for topic in topics],
            "pipeline": None,
        }

    def _transaction(self, it: Fake) -> dict[str, Any]:
        return {
            "transactional_id": it.name,
            "producer_id": 4_000 + it.number,
            "producer_epoch": self.now_epoch(it) % 32_767,
            "state": "Ongoing",
            "began_at": iso(time.time() - 0.2),
            "seconds": 0.2,
            "timeout_s": 60.0,
            "coordinator": it.number % 3,
            "partitions": [f"{topic}/{part}" for topic in it.targets for part in range(3)],
            "pipeline": it.id,
        }

    def _partition(self, topic: str, part: int, held: list[str]) -> dict[str, Any]:
        passed = time.time() - self.began
        end = 800_000 + int(passed * 220)
        back = 4_200 + int(passed) * 7 if topic in held and part == 0 else 0
        holder = {"producer_id": 9_001, "transactional_id": STRANGER, "pipeline": None}
        return {
            "topic": topic,
            "partition": part,
            "end": end,
            "stable": end - back,
            "held_back": back,
            "holder": holder | {"began_at": iso(self.held_since or 0)} if back else None,
        }

    def find(self, id_: str) -> Fake | None:
        return next((it for it in self.pipelines if it.id == id_), None)


def _made(count: int, hostile: bool) -> list[Fake]:
    made = []
    for number in range(count):
        if number < len(ADS):
            name, sources, targets, sinks = ADS[number]
        else:
            name = f"{THINGS[number % 5]}-{WORK[number % 3]}-{number}"
            sources = [f"events-{number // 3}" if number % 3 == 0 else f"stage-{number - 1}"]
            targets = [f"stage-{number}"] if number % 3 < 2 else []
            sinks = ["kafka"] if targets else ["warehouse:table", "archive:files"]
        if hostile and number < len(HOSTILE):
            name, sources = HOSTILE[number], [*sources, HOSTILE[number]]
        parts = [tuple(sink.partition(":")[::2]) for sink in sinks]
        state = STATES[number % len(STATES)] if number >= len(ADS) else "running"
        state = {17: "failed", 23: "damaged", 31: "fenced", 44: "gone"}.get(number, state)
        reason = {
            "failed": "EpochFailed: epoch 100,000 failed six times; sink 'warehouse': no relation \"minutes\"",
            "damaged": "ledger/000000099871-000238.json does not have the checksum that it was sealed with",
            "fenced": "term 240 was started on host batch-7",
        }.get(state, "")
        made.append(
            Fake(
                number,
                name,
                list(sources),
                list(targets),
                [(one, kind or "kafka") for one, kind in parts],
                state,
                reason,
            )
        )
    return made
