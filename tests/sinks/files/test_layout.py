"""Names of directories: what readers discover, and what no value can break out of."""

import pytest

from onceward.sinks.files.layout import MANIFEST, Manifest, epoch_folder, epoch_of, escape, partition_folder
from onceward.sinks.files.staging import Try

LINEAGE = "1f3a9c04aabbccddeeff001122334455"


def test_an_epochs_directory_tells_its_epoch_and_lineage() -> None:
    assert epoch_folder("epoch", 12, LINEAGE) == "epoch=000000000012-1f3a9c04"
    assert epoch_of("epoch", LINEAGE, "epoch=000000000012-1f3a9c04") == 12
    assert epoch_of("epoch", None, "epoch=000000000012-ffffffff") == 12


@pytest.mark.parametrize(
    "name", ["epoch=12-1f3a9c04", "epoch=000000000012-ffffffff", "epoch=000000000012", "other=000000000012-1f3a9c04"]
)
def test_other_directories_are_no_epochs_of_this_lineage(name: str) -> None:
    assert epoch_of("epoch", LINEAGE, name) is None


def test_epochs_beyond_twelve_digits_still_have_names() -> None:
    assert epoch_of("epoch", LINEAGE, epoch_folder("epoch", 10**15, LINEAGE)) == 10**15


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("DE", "c=DE"),
        (None, "c=__HIVE_DEFAULT_PARTITION__"),
        ("", "c=__HIVE_DEFAULT_PARTITION__"),
        ("..", "c=.."),
        ("../x", "c=..%2Fx"),
        ("a=b%", "c=a%3Db%25"),
        ("\x00\n", "c=%00%0A"),
        ("ü {x}", "c=ü %7Bx}"),
    ],
)
def test_values_are_escaped_as_hive_does_it(value: str | None, folder: str) -> None:
    assert partition_folder("c", value) == folder


def test_names_of_columns_are_escaped_too() -> None:
    assert partition_folder("a/b=c", "x") == "a%2Fb%3Dc=x"
    assert epoch_of("a/b", LINEAGE, epoch_folder("a/b", 1, LINEAGE)) == 1
    assert escape("plain") == "plain"


def test_a_tries_directory_carries_all_of_it() -> None:
    tried = Try(lineage=LINEAGE, epoch=12, term=3, attempt=2)
    assert tried.name == f"try-000000000012-000003-2-{LINEAGE}"
    assert Try.parse(tried.name) == tried
    ready = Try(lineage="a-b", epoch=10**13, term=10**7, attempt=1, ready=True)
    assert Try.parse(ready.name) == ready
    assert Try.parse("trash-12") is None


def test_the_manifest_is_hidden_from_readers() -> None:
    assert MANIFEST.startswith(".")
    assert Manifest.__struct_config__.frozen
