"""How long an epoch's commit takes: the marker and EndTxn, over a hundred epochs.

python -m bench.commit [--epochs N] [--partitions N] [--json]
"""

import argparse
import json
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.machine import circumstances
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.kafka.records import Columns, Compression, encode
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Cluster, Wire
from onceward.servers.broker import DevBroker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, DevBroker(Path(folder), port=0) as broker:
        wire = Wire(Cluster(broker.bootstrap))
        topic, name = f"out-{uuid.uuid4().hex[:8]}", f"commits-{uuid.uuid4().hex[:8]}"
        wire.create_topics([topic], options.partitions)
        transactor = Transactor(wire, name, 60_000)
        transactor.fence()
        rows = np.arange(100 * options.partitions)
        columns = Columns(value=pa.array([b"v" * 100] * len(rows), pa.binary()))
        routes = (rows % options.partitions).astype(np.int32)
        times = []
        for epoch in range(options.epochs + 20):
            transaction = transactor.begin(epoch)
            sender = Sender(wire, transaction.identity, name)
            for batch in encode(
                columns, routes, rows, compression=Compression.NONE, max_batch_bytes=10**6, timestamp_ms=epoch
            ):
                sender.send(TopicPartition(topic, batch.route), batch.payload, batch.count)
            sender.flush()
            began = time.perf_counter()
            positions = {TopicPartition(topic, number): epoch for number in range(options.partitions)}
            ended = transactor.commit(
                transaction, positions=positions, lineage="bench", term=1, outcome=Outcome(rows=len(rows))
            )
            times.append((time.perf_counter() - began) * 1000)
            assert ended.state is State.COMMITTED
        wire.close()
    warm = np.array(times[20:])
    figures = {"median": round(float(np.median(warm)), 2), "p95": round(float(np.percentile(warm, 95)), 2)}
    print(f"commit (marker + EndTxn), {options.epochs} epochs over {options.partitions} partitions: "
          f"median {figures['median']} ms, p95 {figures['p95']} ms")  # fmt: skip
    if options.json:
        print(json.dumps({"commit_ms": figures, **circumstances()}))


if __name__ == "__main__":
    main()
