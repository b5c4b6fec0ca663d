"""Spark's notes beside the state: which operators there are."""

import json
from pathlib import Path

from onceward.epoch.state_files import Operator, operators
from onceward.epoch.storage import LocalStorage

OWN = {
    "operatorInfo": {"operatorId": 1, "operatorName": "transformWithStateInPandasExec"},
    "stateStoreInfo": [
        {
            "storeName": "default",
            "numColsPrefixKey": 0,
            "numPartitions": 2,
            "stateSchemaFilePaths": ["file:/gone/state/7/checkpoints/000001/state/1/_stateSchema/default/0_abc"],
        }
    ],
    "operatorPropertiesJson": json.dumps(
        {"stateVariables": [{"stateName": "total"}, {"stateName": "$procTimers_keyToTimestamp"}]}
    ),
}
WINDOW = {
    "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
}


def checkpoint(folder: Path) -> LocalStorage:
    storage = LocalStorage(folder)
    storage.replace("c/state/0/_metadata/metadata", f"v1\n{json.dumps(WINDOW)}".encode())
    storage.replace("c/state/0/0/1.zip", b"")
    for epoch in (0, 3):
        storage.replace(f"c/state/1/_metadata/v2/{epoch}", f"v2\n{json.dumps(OWN)}".encode())
    return storage


def test_operators_are_told_with_their_stores_and_variables(tmp_path: Path) -> None:
    """E5: a timer is Spark's own, not a variable of the user's."""
    assert operators(checkpoint(tmp_path), "c") == [
        Operator(0, "stateStoreSave", {"default": 2}),
        Operator(1, "transformWithStateInPandasExec", {"default": 2}, ("total",), timers=True),
    ]
    assert operators(LocalStorage(tmp_path), "nothing") == []


def test_a_note_that_is_torn_is_left_to_spark(tmp_path: Path) -> None:
    storage = checkpoint(tmp_path)
    storage.replace("c/state/1/_metadata/v2/3", b"v2\n{")
    assert [it.number for it in operators(storage, "c")] == [0]
