"""What the page is sent, as JSON. Times are ISO 8601 in UTC, durations milliseconds unless the name says otherwise."""

from typing import Any

import msgspec


class SinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is a word: kafka, files, postgres, delta, iceberg, or the class of a sink that is not ours."""

    name: str
    kind: str
    decides: bool
    place: str = ""  # topic, table or directory, for people


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of how long epochs took, over the last hundred."""

    p50: float | None = None
    p95: float | None = None


class PipelineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One home in the overview. Of one that is damaged or gone, only what is known without it."""

    id: str
    name: str
    home: str
    guarantee: str = ""
    state: str
    reason: str = ""
    epoch: int | None = None  # that runs, or else the last one that was committed
    last_commit_at: str | None = None
    last_commit_age_s: float | None = None
    rows_in_per_s: float = 0.0
    rows_out_per_s: dict[str, float] = {}
    latency_ms: Percentiles = Percentiles()
    lag: dict[str, int] = {}
    in_doubt: int | None = None
    waits_for: str = ""
    last_error: str = ""
    last_error_at: str | None = None
    sinks: list[SinkFacts] = []
    sources: list[str] = []
    targets: list[str] = []
    term: int | None = None
    lineage: str = ""
    recent: list[tuple[int, float, int | None, int]] = []  # epoch, milliseconds, rows in, attempts


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: pipeline, topic, table, files or lake."""

    id: str
    kind: str
    label: str
    pipeline: str | None = None


class Edge(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """What flows from one node to another; `lag`: records that wait there."""

    source: str
    target: str
    rows_per_s: float = 0.0
    lag: int | None = None


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Pipelines, and the topics and tables that join them."""

    nodes: list[Node]
    edges: list[Edge]


class KafkaBrief(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka in the overview."""

    bootstrap: str
    reachable: bool
    error: str = ""
    open_transactions: int = 0
    held_back_partitions: int = 0


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/overview; `kafka` is None where nobody has named one."""

    at: str
    version: str
    pipelines: list[PipelineFacts]
    graph: Graph
    kafka: KafkaBrief | None


class StartFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One term of a home. `boundary`: the last committed epoch when it began."""

    term: int
    at: str
    boundary: int | None
    ended_at: str | None
    how: str  # running, stopped, killed, paused, fenced, failed
    by: str = ""  # which process, and where


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the two-phase commit; one that is under way has no end."""

    began_at: str
    ended_at: str | None = None


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink has been asked for in this try. `commit` of the sink that decides is its decision."""

    begin: Span | None = None
    write: Span | None = None
    pre_commit: Span | None = None
    commit: Span | None = None


class SinkNow(msgspec.Struct, frozen=True, kw_only=True):
    """One sink in the running epoch."""

    name: str
    kind: str
    decides: bool
    steps: Steps
    state: str  # idle, begun, writing, written, voted, committing, committed


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """The epoch under way. `phase`: planning, replaying, voting, deciding, committing."""

    epoch: int
    attempt: int
    began_at: str
    phase: str
    sinks: list[SinkNow]


class InDoubt(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch between its votes and its completion."""

    epoch: int
    phase: str
    votes: dict[str, bool]
    next_start: str


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. `kind`: takeover, aborted, killed, paused, failed, reset, restored, skipped."""

    at: str
    epoch: int | None
    kind: str
    text: str


class SavepointFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`problem`: why it cannot be used, as far as its first file tells."""

    name: str
    epoch: int | None = None
    at: str | None = None
    bytes: int | None = None
    problem: str = ""


class SnapshotFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot beside the home that this pipeline is part of."""

    name: str
    epoch: int
    at: str
    pipelines: list[str]


class EpochRange(msgspec.Struct, frozen=True, kw_only=True):
    """Which epochs the ledger still has."""

    first: int | None
    last: int | None
    count: int


class PipelineDetail(PipelineFacts, frozen=True, kw_only=True):
    """GET /api/pipelines/{id}."""

    starts: list[StartFacts] = []
    state_rows: int | None = None
    state_bytes: int | None = None
    epochs: EpochRange = EpochRange(first=None, last=None, count=0)
    current: Current | None = None
    in_doubt_epochs: list[InDoubt] = []
    marks: list[Mark] = []
    savepoints: list[SavepointFacts] = []
    snapshots: list[SnapshotFacts] = []


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of the stacked bars; an epoch's layers add up to its time. `sink` is None: none of them."""

    name: str
    sink: str | None
    ms: list[float]


class EpochColumns(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/pipelines/{id}/epochs: one list for each column, oldest epoch first."""

    epoch: list[int]
    at: list[str]
    term: list[int]
    attempts: list[int]
    rows_in: list[int | None]
    rows_out: dict[str, list[int]]
    phases: list[Phase]


class Position(msgspec.Struct, frozen=True, kw_only=True, rename={"begins": "from", "ends": "to"}):
    """What an epoch has read of a partition: from an offset up to, and without, another. Other sources: `raw`."""

    topic: str | None = None
    partition: int | None = None
    begins: int | None = None
    ends: int | None = None
    raw: str | None = None


class AbortedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A try that was aborted, and why."""

    attempt: int
    cause: str
    reason: str
    at: str


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink was given for one partition."""

    topic: str
    partition: int
    rows: int
    digest: str


class SinkOfEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """One sink's part of an epoch."""

    name: str
    kind: str
    rows: int
    digest: str
    voted: bool
    partitions: list[PartitionFacts]
    committable: dict[str, Any]
    milliseconds: dict[str, float]


class EpochDetail(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/pipelines/{id}/epochs/{n}."""

    epoch: int
    term: int
    phase: str
    at: str
    decider: str | None
    decided_by: str
    positions: list[Position]
    input_rows: int | None
    attempts: int
    aborted: list[AbortedFacts]
    milliseconds: dict[str, float]
    sinks: list[SinkOfEpoch]
    skipped: list[str]


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction; `pipeline` is the id of the one whose name it bears, among those that are shown."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    began_at: str | None
    seconds: float | None
    timeout_s: float
    coordinator: int
    partitions: list[str]
    pipeline: str | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Whose transaction holds readers back. Without a transactional id: one that no coordinator knows any more."""

    producer_id: int
    transactional_id: str | None
    pipeline: str | None
    began_at: str | None


class OutputPartition(msgspec.Struct, frozen=True, kw_only=True):
    """`stable`: up to where readers of committed records get; `held_back`: how many offsets are behind it."""

    topic: str
    partition: int
    end: int | None
    stable: int | None
    held_back: int
    holder: Holder | None = None


class KafkaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/kafka."""

    bootstrap: str
    reachable: bool
    error: str = ""
    at: str | None = None
    transactions: list[Transaction] = []
    partitions: list[OutputPartition] = []
