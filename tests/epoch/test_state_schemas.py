"""Spark names the schemas of a transformWithState operator by whole paths: a checkpoint that moved must say so."""

import json

import pytest

from epoch.memory import Memory
from onceward.epoch.state_schemas import follow, relocated
from onceward.errors import HomeMismatch

PROPERTIES = json.dumps({"timeMode": "NoTime", "stateVariables": [{"stateName": "größe"}]})


def metadata(*paths: str) -> bytes:
    """As Spark 4.2 writes it."""
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": [*paths]}
    info = {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"}
    body = {"operatorInfo": info, "stateStoreInfo": [store], "operatorPropertiesJson": PROPERTIES}
    return b"v2\n" + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def schema(at: str, name: str = "0_3d5c") -> str:
    return f"{at}/state/0/_stateSchema/default/{name}"


def test_every_schema_is_where_the_checkpoint_is_now() -> None:
    """E1: one that another driver wrote, and one of this folder."""
    old = metadata(schema("file:/h/checkpoints/000001"), schema("file:/h/state/state/checkpoints/000002", "4_7a21"))
    here = "file:///h/checkpoints/000003"
    assert relocated(old, here, "it") == metadata(schema(here), schema(here, "4_7a21"))


def test_what_is_right_stays_as_spark_wrote_it() -> None:
    data = b"v2\n" + json.dumps(json.loads(metadata(schema("file:/h"))[3:]), indent=1).encode()
    assert relocated(data, "file:/h", "it") == data
    other = metadata("hdfs://n/elsewhere")  # not below a checkpoint's state
    assert relocated(other, "file:/h", "it") == other


def test_a_store_without_schema_files_stays_as_it_is_beside_one_that_has_some() -> None:
    body = json.loads(metadata(schema("file:/old"))[3:])
    body["stateStoreInfo"].append({"storeName": "other", "numPartitions": 2})
    moved = json.loads(relocated(b"v2\n" + json.dumps(body).encode(), "file:/new", "it")[3:])
    assert moved["stateStoreInfo"][0]["stateSchemaFilePaths"] == [schema("file:/new")]
    assert moved["stateStoreInfo"][1] == {"storeName": "other", "numPartitions": 2}


def test_an_operator_without_schema_files_is_left_alone() -> None:
    data = b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"},"stateStoreInfo":[{"storeName":"default"}]}'
    assert relocated(data, "file:/h", "it") == data


@pytest.mark.parametrize(
    "data", [b"", b"v2\n", b"v2\n[]", b'v2\n{"stateStoreInfo":[1]}', metadata(schema("file:/h"))[:-3]]
)
def test_metadata_that_was_cut_short_is_named(data: bytes) -> None:
    """E9: Spark would take every schema for a new one."""
    with pytest.raises(HomeMismatch, match="state/0/_metadata/v2/7"):
        relocated(data, "file:/h", "state/0/_metadata/v2/7")


def test_a_start_tells_all_operators_where_they_are() -> None:
    storage = Memory()
    for name in ("c/state/0/_metadata/v2/0", "c/state/0/_metadata/v2/4", "c/state/12/_metadata/v2/0"):
        storage.files[name] = metadata(schema("file:/old"))
    storage.files["c/state/0/_metadata/v2/.0.crc"] = b"of the old bytes"
    storage.files["c/state/1/_metadata/metadata"] = b"v1\n{}"
    assert follow(storage, "c", "file:/new/c") == [
        "c/state/0/_metadata/v2/0",
        "c/state/0/_metadata/v2/4",
        "c/state/12/_metadata/v2/0",
    ]
    assert storage.files["c/state/12/_metadata/v2/0"] == metadata(schema("file:/new/c"))
    assert "c/state/0/_metadata/v2/.0.crc" not in storage.files
    assert follow(storage, "c", "file:/new/c") == []
