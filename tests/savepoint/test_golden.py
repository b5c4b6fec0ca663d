"""Manifests that earlier builds wrote are read by this one."""

from pathlib import Path

from epoch.samples import ENTRY, LINEAGE
from onceward.epoch.query_shape import OperatorShape, QueryShape
from onceward.epoch.sealed import unseal
from onceward.savepoint.manifest import FORMAT, FileFacts, Operator, Savepoint

GOLDEN = Path(__file__).parent.parent / "golden"
SAVEPOINT = Savepoint(
    format=1,
    id="5e1f0c7a9b3d4e2f8a6c1b0d9e8f7a6b",
    pipeline="click-counts",
    lineage=LINEAGE,
    guarantee="exactly-once",
    epoch=41,
    term=2,
    created_at="2026-01-02T03:06:00.000+00:00",
    entry=ENTRY,
    held={"*": (LINEAGE, 41), "files": (LINEAGE, 41)},
    shape=QueryShape(
        format=1,
        sources=["kafka clicks"],
        operators=[OperatorShape(name="dedupe", keys=["größe string"])],
        output=["größe string"],
        output_mode="append",
    ),
    partitions=4,
    backend="rocksdb",
    operators=[Operator(id=0, name="dedupe", partitions=4, stores=["default"], bytes=4096, rows=17)],
    files={"checkpoint/metadata": FileFacts(size=45, sha256="ab" * 32)},
)


def test_a_manifest_of_every_format_so_far_is_read_by_this_build() -> None:
    """E6: whoever raises the format leaves one of the old ones here."""
    files = sorted(it.name for it in GOLDEN.glob("savepoint-*.json"))
    assert files == [f"savepoint-{number}.json" for number in range(1, FORMAT + 1)]
    data = (GOLDEN / "savepoint-1.json").read_bytes()
    assert unseal(data, Savepoint, "savepoint-1.json", FORMAT) == SAVEPOINT
