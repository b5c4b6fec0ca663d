"""Which files of Spark's checkpoint a savepoint takes: all that the state after its epoch needs, and no others."""

from pathlib import Path

import pytest

from onceward.epoch.ledger import DECIDED, PREPARED
from onceward.errors import SavepointUnusable
from onceward.savepoint.keeping import find
from onceward.savepoint.manifest import load
from onceward.savepoint.needed import NotThere, read_operator, read_snapshot
from savepoint.homes import HASHMAP, JOIN, ROCKSDB, HandMade, files_of, plan, snapshot

LOGS = {"metadata", "sources/0/0", "commits/3", "offsets/2", "offsets/3"}
DESCRIBED = {"state/0/_metadata/metadata", "state/0/0/_metadata/schema"}


def stateful(tmp_path: Path, *files: str, provider: str = ROCKSDB) -> HandMade:
    made = HandMade(tmp_path / "home", provider=provider).epochs(0, 1, 2, 3)
    return made.operator(0).state(0, *files)


def of_partitions(*files: str) -> set[str]:
    return {f"state/0/{partition}/{file}" for partition in (0, 1) for file in files}


def test_without_a_snapshot_all_changes_are_needed(tmp_path: Path) -> None:
    """E6."""
    place = stateful(tmp_path, *(f"{version}.changelog" for version in range(1, 7))).save()
    changes = (f"{version}.changelog" for version in range(1, 5))  # epoch 3 leaves version 4
    assert files_of(place) == LOGS | DESCRIBED | of_partitions(*changes)


def test_a_snapshot_spares_the_changes_before_it_and_brings_the_files_that_it_names(tmp_path: Path) -> None:
    """E6: the newest one that is not newer than the epoch."""
    changes = (f"{version}.changelog" for version in range(1, 7))
    place = stateful(tmp_path, "1.zip", "2.zip", "5.zip", *changes).save()
    wanted = of_partitions("2.zip", "SSTs/2-a.sst", "logs/2-b.log", "3.changelog", "4.changelog")
    assert files_of(place) == LOGS | DESCRIBED | wanted
    assert [it.rows for it in load(place).operators] == [None]  # counted two epochs ago


def test_a_snapshot_of_the_epoch_itself_is_enough_and_tells_the_number_of_rows(tmp_path: Path) -> None:
    """E6."""
    place = stateful(tmp_path, "4.zip", "4.changelog", "3.zip").save()
    assert files_of(place) == LOGS | DESCRIBED | of_partitions("4.zip", "SSTs/4-a.sst", "logs/4-b.log")
    (operator,) = load(place).operators
    assert (operator.id, operator.name, operator.partitions, operator.stores, operator.rows) == (
        0,
        "dedupe",
        2,
        ["default"],
        14,
    )


def test_a_torn_snapshot_is_passed_over_as_spark_does(tmp_path: Path) -> None:
    """E9."""
    made = stateful(tmp_path, "1.zip", "3.zip", *(f"{version}.changelog" for version in range(1, 5)))
    torn = made.checkpoint / "state/0/1/3.zip"
    torn.write_bytes(torn.read_bytes()[:40])
    one = {"state/0/0/3.zip", "state/0/0/SSTs/3-a.sst", "state/0/0/logs/3-b.log", "state/0/0/4.changelog"}
    other = {
        f"state/0/1/{it}" for it in ("1.zip", "SSTs/1-a.sst", "logs/1-b.log", *(f"{v}.changelog" for v in (2, 3, 4)))
    }
    assert files_of(made.save()) == LOGS | DESCRIBED | one | other


def test_the_heap_has_snapshots_and_deltas(tmp_path: Path) -> None:
    """E6, E2."""
    deltas = (f"{version}.delta" for version in range(1, 6))
    place = stateful(tmp_path, "2.snapshot", "5.snapshot", *deltas, provider=HASHMAP).save()
    assert files_of(place) == LOGS | DESCRIBED | of_partitions("2.snapshot", "3.delta", "4.delta")
    found = load(place)
    assert (found.backend, found.partitions, found.operators[0].rows) == ("hashmap", 2, None)


def test_each_store_of_a_join_is_taken(tmp_path: Path) -> None:
    """E6."""
    made = HandMade(tmp_path / "home").epochs(0, 1, 2, 3)
    made.operator(0, "symmetricHashJoin", JOIN).state(0, "4.zip", "9.zip", stores=JOIN)
    kept = {f"state/0/{partition}/{store}" for partition in (0, 1) for store in JOIN}
    wanted = {f"{it}/{file}" for it in kept for file in ("4.zip", "SSTs/4-a.sst", "logs/4-b.log")}
    schemas = {f"state/0/0/{store}/_metadata/schema" for store in JOIN}
    place = made.save()
    assert files_of(place) == LOGS | {"state/0/_metadata/metadata"} | schemas | wanted
    assert load(place).operators[0].stores == sorted(JOIN)


def test_what_a_later_start_wrote_about_an_operator_is_left_out(tmp_path: Path) -> None:
    """E6: transformWithState describes itself at each start."""
    made = HandMade(tmp_path / "home").epochs(0, 1, 2, 3).state(0, "4.zip")
    described = (
        made.operator(0, "transformWithStateInPandasExec").checkpoint / "state/0/_metadata/metadata"
    ).read_bytes()
    (made.checkpoint / "state/0/_metadata/metadata").unlink()
    for epoch in (0, 2, 10, 4):
        made.put(f"state/0/_metadata/v2/{epoch}", described)
        made.put(f"state/0/_stateSchema/default/{epoch}_7a21-ff", b"a schema")
    place = made.save()
    kept = {it for it in files_of(place) if it.startswith(("state/0/_metadata", "state/0/_state"))}
    assert kept == {f"state/0/{it}" for it in ("_metadata/v2/0", "_metadata/v2/2")} | {
        f"state/0/_stateSchema/default/{epoch}_7a21-ff" for epoch in (0, 2)
    }
    assert load(place).operators[0].name == "transformWithStateInPandasExec"


def test_versions_with_ids_are_all_taken(tmp_path: Path) -> None:
    """E6: which of them belong together Spark alone knows."""
    made = HandMade(tmp_path / "home", partitions=1).epochs(0, 1, 2, 3).operator(0)
    for version in (2, 3, 4, 5):
        made.put(f"state/0/0/{version}_ab-1.changelog", b"changes")
        made.put(f"state/0/0/{version}_ab-1.changelog.crc", b"sum")
        made.put(f"state/0/0/{version}_cd-2.zip", snapshot(["1-x.sst"], [], rows=1))
    made.put("state/0/0/SSTs/1-x.sst", b"table")
    made.put("state/0/0/SSTs/2-x.sst", b"nobody's")
    kept = {it.removeprefix("state/0/0/") for it in files_of(made.save()) if it.startswith("state/0/0/")}
    versions = (2, 3, 4)
    assert kept == {"SSTs/1-x.sst"} | {
        f"{version}_{it}" for version in versions for it in ("ab-1.changelog", "ab-1.changelog.crc", "cd-2.zip")
    }


def test_temporary_and_hidden_files_are_nobodys(tmp_path: Path) -> None:
    """E6."""
    made = stateful(tmp_path, "4.zip")
    before = files_of(made.save())
    for name in (".metadata.crc", "offsets/.4.tmp", "state/0/0/.5.changelog.uuid.tmp", "sources/0/.0.crc", ".x/y"):
        made.put(name, b"temporary")
    assert files_of(made.save()) == before


def test_a_pipeline_without_state_has_a_savepoint_too(tmp_path: Path) -> None:
    """E6."""
    place = HandMade(tmp_path / "home").epochs(0, 1, 2, 3).save()
    assert files_of(place) == LOGS
    assert load(place).operators == []


def test_the_first_epoch_has_none_before_it(tmp_path: Path) -> None:
    """E6."""
    place = HandMade(tmp_path / "home").epochs(0).save()
    assert files_of(place) == {"metadata", "sources/0/0", "offsets/0", "commits/0"}


@pytest.mark.parametrize("phase", [PREPARED, DECIDED])
def test_the_newest_epoch_that_is_done_is_taken(tmp_path: Path, phase: str) -> None:
    """E6: recorded as visible everywhere, and finished in Spark's log; neither alone will do."""
    made = HandMade(tmp_path / "home").epochs(0, 1, 2).epochs(3, phase=phase)
    assert load(made.save()).epoch == 2
    made.record(3)
    assert load(made.save()).epoch == 3
    made.put("offsets/4", "v1\n{}\n{}")
    made.record(4)
    assert load(made.save()).epoch == 3


def test_before_the_first_epoch_there_is_nothing_to_save(tmp_path: Path) -> None:
    """E6."""
    made = HandMade(tmp_path / "home")
    with pytest.raises(SavepointUnusable, match="has not finished an epoch yet"):
        made.save()
    made.put("offsets/0", "v1\n{}\n{}")
    with pytest.raises(SavepointUnusable, match="has not finished an epoch yet"):
        made.save()
    assert not (made.path / "savepoints").exists()
    assert list((made.path / "pins").iterdir()) == []


@pytest.mark.parametrize("missing", ["state/0/1/3.changelog", "state/0/1", "metadata", "offsets/2", "state/0/0/SSTs"])
def test_a_checkpoint_that_has_lost_a_file_is_not_saved(tmp_path: Path, missing: str) -> None:
    """E9: what could not be restored is no savepoint."""
    made = stateful(tmp_path, "2.zip", "3.changelog", "4.changelog")
    path = made.checkpoint / missing
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(SavepointUnusable, match=r"20 tries: .*(no version 3|partition 1|is not there|went)"):
        made.save()
    assert list((made.path / "pins").iterdir()) == []


@pytest.mark.parametrize("log", ["commits/3", "offsets/3"])
def test_a_torn_log_is_not_saved(tmp_path: Path, log: str) -> None:
    """E9: the next start replays or puts back that epoch."""
    made = HandMade(tmp_path / "home").epochs(0, 1, 2, 3)
    made.put(log, "v1\n{")
    with pytest.raises(SavepointUnusable, match="torn by a power cut"):
        made.save()


CONF = 'v1\n{"conf":{}}\n'


@pytest.mark.parametrize(
    "altered",
    {
        "it reads less": CONF + '{"events":{"0":9}}',
        "it reads more": CONF + '{"events":{"0":41}}',
        "it reads nothing": CONF + '{"events":{"0":0}}',
        "a partition more": CONF + '{"events":{"0":40,"1":0}}',
        "a partition less": CONF + '{"events":{}}',
        "another topic": CONF + '{"other":{"0":40}}',
        "a source more": CONF + '{"events":{"0":40}}\n{"events":{"0":40}}',
        "a source less": CONF + "-",
        "of another epoch": plan(2),
        "a later watermark": plan(3).replace('"batchWatermarkMs": 0', '"batchWatermarkMs": 9'),
    }.items(),
    ids=lambda it: it[0],
)
def test_a_plan_that_was_altered_is_not_saved(tmp_path: Path, altered: tuple[str, str]) -> None:
    """E9: a pipeline that is restored from it would pass over records, or read some twice."""
    made = HandMade(tmp_path / "home").epochs(0, 1, 2, 3)
    made.put("offsets/3", altered[1])
    with pytest.raises(SavepointUnusable, match="offsets/3 does not say what was committed"):
        made.save(name="it")
    assert find(made.home) == []
    made.put("offsets/3", plan(3))
    assert load(made.save(name="it")).entry.epoch == 3


def test_a_plan_of_the_epoch_before_that_was_altered_is_not_saved(tmp_path: Path) -> None:
    """E9: it is where a replay of the saved epoch begins."""
    made = HandMade(tmp_path / "home").epochs(0, 1, 2, 3)
    made.put("offsets/2", CONF + '{"events":{"0":9}}')
    with pytest.raises(SavepointUnusable, match="offsets/2 does not say what was committed"):
        made.save(name="it")
    made.put("offsets/2", plan(2))
    assert load(made.save(name="it")).entry.epoch == 3


def test_no_older_epoch_is_saved_in_an_altered_ones_place(tmp_path: Path) -> None:
    """Whoever asks for the newest would lose what it has, in silence."""
    made = HandMade(tmp_path / "home").epochs(0, 1, 2, 3)
    made.put("offsets/3", CONF + '{"events":{"0":9}}')
    with pytest.raises(SavepointUnusable):
        made.save()
    assert list((made.path / "pins").iterdir()) == []


def test_what_cannot_be_read_as_a_snapshot_or_a_description_is_told() -> None:
    assert read_snapshot(b"") is None
    assert read_snapshot(snapshot([], [], rows=-1)) is not None
    with pytest.raises(NotThere):
        read_operator(0, b"v1\n{}")
