"""Values that the files under tests/golden hold: written once by each format, read by every build from then on."""

from onceward.epoch import deeds
from onceward.epoch.decisions import Slot
from onceward.epoch.deeds import Deed, Ended, Origin
from onceward.epoch.ledger import DECIDED, DONE, Entry, SinkEntry
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.query_shape import OperatorShape, QueryShape
from onceward.epoch.term import Holder, Start

LINEAGE = "3f2b8c1de0a94b53a7e6c9d1f0b2a4e8"
OUTCOME = Outcome.of(
    [(TopicPartition("out", 0), PartitionOutcome(2, 0xFEDC)), (TopicPartition("größe", 7), PartitionOutcome(1, 1))]
)
FILES_OUTCOME = Outcome(rows=5, digest=0xFFFF_FFFF_FFFF_FFFF)

KAFKA = SinkEntry.of(
    OUTCOME,
    kind="onceward.sinks.kafka.sink:KafkaSink",
    settings={"bootstrap": "broker:9092", "topic": "out", "small_epoch_bytes": 1000},
    committable={"version": 1, "producer_id": 4000, "producer_epoch": 7},
    milliseconds={"begin": 0.5, "write": 43.25, "pre_commit": 0.01, "decide": 2.5},
)
FILES = SinkEntry.of(
    FILES_OUTCOME,
    kind="onceward.sinks.files.sink:FileSink",
    settings={"path": "/data/größe", "format": "parquet"},
    committable={"version": 1, "staged": "41-2-1", "files": [{"name": "part-0.parquet", "bytes": 123}]},
    milliseconds={"begin": 0.25, "write": 12.0, "pre_commit": 3.0, "commit": 1.0},
)
OTHERS_OWN = SinkEntry(rows=5, digest="0", committable={"version": 1})  # nothing is known of how it was made
PLAN = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1767322999000,"conf":{}}\n{"clicks":{"0":120,"1":98}}\n17'
ENTRY = Entry(
    format=1,
    pipeline="click-counts",
    lineage=LINEAGE,
    term=2,
    epoch=41,
    phase=DONE,
    positions=['{"clicks":{"0":120,"1":98}}', "17"],
    plan=PLAN,
    decider="kafka",
    sinks={"files": FILES, "kafka": KAFKA},
    input_rows=9,
    skipped=["clicks/0/7", "1:clicks/0/7"],
    attempts=2,
    finished_at="2026-01-02T03:04:05.678+00:00",
    milliseconds={"vote": 59.01, "decide": 2.5, "commit": 1.0},
)
DECISION = Slot(
    format=1,
    lineage=LINEAGE,
    epoch=42,
    slot=1,
    term=3,
    decided=Entry(
        format=1,
        pipeline="click-counts",
        lineage=LINEAGE,
        term=3,
        epoch=42,
        phase=DECIDED,
        positions=['{"clicks":{"0":130,"1":99}}'],
        decider=None,
        sinks={"files": FILES, "ledger": OTHERS_OWN},  # a name that a user may give
        finished_at="2026-01-02T03:05:00.000+00:00",
    ),
)
DEED = Deed(
    format=1,
    pipeline="click-counts",
    lineage="b" * 32,
    guarantee="exactly-once",
    folder=f"lineages/000003-{'b' * 32}",
    origin=Origin(
        savepoint="c" * 32,
        pipeline="click-counts",
        lineage=LINEAGE,
        epoch=41,
        begins_after=42,
        first_term=3,
        held={"*": (LINEAGE, 41), "files": (LINEAGE, 17)},
    ),
)
SLOT = deeds.Slot(
    format=1,
    term=4,
    ended=Ended(epoch=42, reason="stopped", retain="never", at="2026-01-02T03:05:00.000+00:00"),
    since=3,
)
START = Start(
    format=1,
    term=4,
    after_epoch=42,
    resolved=["epoch 42 was decided"],
    held={"*": ("b" * 32, 42), "files": (LINEAGE, 17)},
    sinks=["files", "kafka"],
    decider="kafka",
)
HOLDER = Holder(
    format=1,
    term=2,
    pipeline="click-counts",
    host="worker-7",
    machine="boot/pid:[4026531836]",
    pid=4711,
    process_start="123456",
    since="2026-01-02T03:00:00+00:00",
)
SHAPE = QueryShape(
    format=1,
    sources=["kafka subscribe=clicks", "rate"],
    operators=[
        OperatorShape(name="Aggregate", keys=["user string"], details=["count(): bigint"]),
        OperatorShape(name="Deduplicate", keys=["id bigint"]),
    ],
    output=["user string", "count bigint"],
    output_mode="update",
    backend="rocksdb",
    snapshots="incremental",
)
