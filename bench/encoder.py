"""How many records a second one core encodes and partitions.

    python -m bench.encoder [--rows N] [--runs N] [--json]

A record is 100 bytes of key and value. The process is held to one core; each figure is the median of
several runs. With --json the last line of standard output is one JSON object.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.machine import circumstances
from onceward.kafka.partitioning import partitions
from onceward.kafka.records import Columns, Compression, encode, stamp

KEY_BYTES, VALUE_BYTES = 10, 90
MAX_BATCH_BYTES = 1_048_588  # the broker's default
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345", np.uint8)


def text(rng: np.random.Generator, lengths: NDArray[np.int64]) -> pa.Array:
    """Random letters: they compress to about 5 of 8 bits, worse than most real data."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    data = LETTERS[rng.integers(0, len(LETTERS), int(offsets[-1]), np.uint8)]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def rows(count: int, *, spread: int = 0, headers: bool = False, timestamps: bool = False) -> Columns:
    rng = np.random.default_rng(7)
    around = lambda size: rng.integers(size - spread, size + spread + 1, count)  # noqa: E731
    entry = [{"key": "trace", "value": b"0123456789abcdef"}]
    kind = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    return Columns(
        key=text(rng, around(KEY_BYTES)),
        value=text(rng, around(VALUE_BYTES)),
        headers=pa.repeat(pa.scalar(entry, kind), count) if headers else None,
        timestamp=pa.array(1_700_000_000_000 + rng.integers(0, 5000, count)) if timestamps else None,
    )


def encoding(columns: Columns, routes: int, compression: Compression, *, stamped: bool = False) -> Callable[[], int]:
    count = len(columns.value)
    rng = np.random.default_rng(11)
    route = rng.integers(0, routes, count).astype(np.int32)
    hashes = rng.integers(-(2**63), 2**63, count)

    def run() -> int:
        size = 0
        for batch in encode(
            columns, route, hashes, compression=compression, max_batch_bytes=MAX_BATCH_BYTES, timestamp_ms=1
        ):
            payload = batch.payload
            if stamped:
                payload = stamp(payload, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
            size += len(payload)
        return size

    return run


def partitioning(columns: Columns) -> Callable[[], int]:
    hashes = np.arange(len(columns.key), dtype=np.int64)
    return lambda: int(partitions(columns.key, hashes, 64)[0])


def cases(count: int) -> dict[str, Callable[[], int]]:
    plain, varied = rows(count), rows(count, spread=4)
    none = Compression.NONE
    return {
        "1 route": encoding(plain, 1, none),
        "4 routes": encoding(plain, 4, none),
        "64 routes": encoding(plain, 64, none),
        "4 routes, stamped": encoding(plain, 4, none, stamped=True),
        "4 routes, lengths vary": encoding(varied, 4, none),
        "4 routes, timestamps": encoding(rows(count, timestamps=True), 4, none),
        "4 routes, one header": encoding(rows(count, headers=True), 4, none),
        **{f"4 routes, {codec}": encoding(plain, 4, codec) for codec in Compression if codec is not none},
        "partitions": partitioning(plain),
        "partitions, lengths vary": partitioning(varied),
    }


def rate(work: Callable[[], int], count: int, runs: int) -> float:
    work()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return count / statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)

    figures = {}
    for name, work in cases(options.rows).items():
        figures[name] = rate(work, options.rows, options.runs)
        print(
            f"{name:28} {figures[name] / 1e6:7.2f} M records/s",
            file=sys.stderr if options.json else sys.stdout,
        )
    if options.json:
        report = {"records_per_second": {name: round(figure) for name, figure in figures.items()}}
        about = {"rows": options.rows, "runs": options.runs, **circumstances()}
        versions = {"pyarrow": pa.__version__, "numpy": np.__version__}
        print(json.dumps(report | about | versions))


if __name__ == "__main__":
    main()
