"""Whose home a directory is, and what may be a pipeline's name."""

import os
from pathlib import Path

import pytest

from onceward.epoch.deeds import FILE
from onceward.epoch.home import MAX_NAME, Home, parse_home, require_name
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.errors import ConfigurationError, HomeMismatch, InvalidName, LedgerCorrupt

EXACTLY = "exactly-once"


def test_a_new_home_is_given_to_its_pipeline_and_known_again(tmp_path: Path) -> None:
    first = Home.at(tmp_path / "h").open("orders", EXACTLY, "aaaa")
    again = Home.at(tmp_path / "h").open("orders", EXACTLY, "bbbb")
    assert first == again
    assert again.lineage == "aaaa"


def test_of_two_first_starts_both_take_the_deed_of_the_quicker_one(tmp_path: Path) -> None:
    class Outrun(LocalStorage):
        def claim(self, name: str, data: bytes) -> bool:
            Home.at(tmp_path).open("orders", EXACTLY, "quicker")
            return super().claim(name, data)

    deed = Home(Outrun(tmp_path), str(tmp_path), tmp_path.as_uri()).open("orders", EXACTLY, "slower")
    assert deed.lineage == "quicker"


def test_what_a_quicker_first_start_has_made_between_two_looks_is_no_strange_checkpoint(tmp_path: Path) -> None:
    class Outrun(LocalStorage):
        def names(self, folder: str) -> list[str]:
            Home.at(tmp_path).open("orders", EXACTLY, "quicker")
            (tmp_path / "checkpoints" / "000001").mkdir(parents=True, exist_ok=True)
            return super().names(folder)

    deed = Home(Outrun(tmp_path), str(tmp_path), tmp_path.as_uri()).open("orders", EXACTLY, "slower")
    assert deed.lineage == "quicker"


def test_another_pipelines_home_is_refused_and_both_are_named(tmp_path: Path) -> None:
    """A home made by another pipeline is refused."""
    Home.at(tmp_path).open("orders", EXACTLY, "aaaa")
    with pytest.raises(HomeMismatch, match=r"home of pipeline 'orders', not of 'audit'.*home of its own"):
        Home.at(tmp_path).open("audit", EXACTLY, "bbbb")


def test_another_guarantee_is_refused_and_both_are_named(tmp_path: Path) -> None:
    Home.at(tmp_path).open("orders", EXACTLY, "aaaa")
    with pytest.raises(HomeMismatch, match=r"guarantee 'exactly-once', not 'at-least-once'.*new home"):
        Home.at(tmp_path).open("orders", "at-least-once", "bbbb")


def test_a_checkpoint_without_a_deed_is_refused(tmp_path: Path) -> None:
    """Going on would put out again what a lost lineage has put out already."""
    (tmp_path / "checkpoints" / "000003" / "offsets").mkdir(parents=True)
    with pytest.raises(HomeMismatch, match=rf"Spark checkpoint but no {FILE}.*backup"):
        Home.at(tmp_path).open("orders", EXACTLY, "aaaa")
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("name", ["offsets/3", "commits/3", "metadata"])
def test_the_checkpoint_of_a_spark_query_is_no_home(tmp_path: Path, name: str) -> None:
    """K3: the pipeline would read from the beginning and write every total again; nothing of it is touched."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(HomeMismatch, match=r"is the checkpoint of a Spark query, not a home.*starting=OFFSETS"):
        Home.at(tmp_path).open("orders", EXACTLY, "aaaa")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_deed_is_named(tmp_path: Path) -> None:
    Home.at(tmp_path).open("orders", EXACTLY, "aaaa")
    damaged = (tmp_path / FILE).read_bytes().replace(b"aaaa", b"aaab")
    (tmp_path / FILE).write_bytes(damaged)
    with pytest.raises(LedgerCorrupt, match=rf"{FILE} is damaged"):
        Home.at(tmp_path).open("orders", EXACTLY, "aaaa")


def test_a_deed_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    deed = Home.at(tmp_path).open("orders", EXACTLY, "aaaa")
    newer = type(deed)(format=2, pipeline="orders", lineage="aaaa", guarantee=EXACTLY)
    (tmp_path / FILE).write_bytes(seal(newer))
    with pytest.raises(HomeMismatch, match=r"format 2, written by a newer Onceward; this one reads up to 1"):
        Home.at(tmp_path).open("orders", EXACTLY, "aaaa")


@pytest.mark.parametrize("name", ["orders", "a", "0", "click-counts", "A.b_c-9", "x" * MAX_NAME])
def test_a_valid_name_is_taken_as_it_is(name: str) -> None:
    assert require_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../x",
        "a/b",
        "..",
        ".hidden",
        "-dash",
        "_x",
        "two words",
        " x",
        "x ",
        "x\n",
        "x\0",
        "größe",
        "注文",
        "x" * 201,
    ],
)
def test_a_name_that_is_no_valid_id_is_refused_with_the_rule(name: str) -> None:
    """Proof, bad input: a name that is no valid id, paths that climb out."""
    with pytest.raises(InvalidName, match=r"1 to 200 letters, digits"):
        require_name(name)


@pytest.mark.parametrize("home", ["/data/h", "file:/data/h", "file:///data/h", "FILE:///data/h", Path("/data/h")])
def test_a_home_is_a_path_or_a_file_uri(home: str | Path) -> None:
    assert parse_home(home) == Path("/data/h")


def test_a_file_uri_is_decoded() -> None:
    assert parse_home("file:///data/two%20words") == Path("/data/two words")


def test_a_file_uri_may_name_this_machine_and_no_other() -> None:
    assert parse_home("file://localhost/data/h") == Path("/data/h")
    with pytest.raises(ConfigurationError, match="other-host"):
        parse_home("file://other-host/data/h")


def test_a_relative_home_is_made_absolute_and_a_tilde_is_the_users_folder() -> None:
    assert parse_home("data/h") == Path.cwd() / "data/h"
    assert parse_home("~/h") == Path.home() / "h"


@pytest.mark.parametrize("home", ["s3://bucket/h", "s3a://bucket/h", "abfss://c@a/h", "gs://b/h"])
def test_a_home_elsewhere_is_refused_with_the_reason(home: str) -> None:
    with pytest.raises(ConfigurationError, match=r"renames atomically.*local or mounted path.*HDFS"):
        parse_home(home)


def test_a_home_in_hdfs_stays_a_uri() -> None:
    """B1."""
    assert parse_home("hdfs://name:8020/homes/x/") == "hdfs://name:8020/homes/x"


@pytest.mark.parametrize("home", ["", "file:", "file://"])
def test_an_empty_home_is_refused(home: str) -> None:
    with pytest.raises(ConfigurationError, match="home is empty"):
        parse_home(home)


def modes(root: Path) -> dict[str, int]:
    return {str(it.relative_to(root)): it.stat().st_mode & 0o777 for it in (root, *root.rglob("*")) if it.is_dir()}


@pytest.mark.parametrize("umask", [0o000, 0o022])
@pytest.mark.parametrize("first", ["pipeline.json", "ledger/000000000000-000001.json"])
def test_a_home_is_made_for_its_owner_alone(
    tmp_path: Path, umask: int, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """J5: whoever can write there can forge what it says is committed."""
    before = os.umask(umask)
    try:
        home = Home.at(tmp_path / "data" / "orders")
        home.storage.replace(first, b"{}")
        home.storage.claim("terms/000001.json", b"{}")
    finally:
        os.umask(before)
    assert set(modes(tmp_path / "data" / "orders").values()) == {0o700}
    Home.at(tmp_path / "data" / "orders")
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("mode", "told"), [(0o700, False), (0o750, False), (0o770, True), (0o705, True), (0o755, True), (0o701, True)]
)
def test_a_home_that_others_can_read_or_change_is_told_and_left_as_it_is(
    tmp_path: Path, mode: int, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "h"
    place.mkdir()
    place.chmod(mode)
    Home.at(place).open("orders", EXACTLY, "aaaa")
    assert [f"chmod 700 {place}" in line for line in caplog.messages] == [True] * told
    assert place.stat().st_mode & 0o777 == mode


def test_a_home_in_memory_is_known_to_its_own_process_only() -> None:
    """E3."""
    with pytest.raises(ConfigurationError, match="known to the process that made it only"):
        parse_home("memory:")
