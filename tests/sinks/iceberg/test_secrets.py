"""Credentials in catalogue properties are never written down."""

from pathlib import Path

import pytest

from onceward.epoch.contract import Guarantee, Owner
from onceward.errors import SinkUnreachable, TargetUnusable
from onceward.sinks.iceberg import IcebergSink
from onceward.sinks.iceberg.secrets import describable, redacted

OWNER = Owner(pipeline="p", lineage="l", term=1, guarantee=Guarantee.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"type": "sql", "uri": "sqlite:////data/c.db"}, {"type": "sql", "uri": "sqlite:////data/c.db"}),
        ({"type": "sql", "uri": "postgresql://me:hunter2@db/c"}, {"type": "sql"}),
        ({"type": "sql", "uri": "postgresql://db/c?password=hunter2"}, {"type": "sql"}),
        ({"type": "rest", "token": "hunter2", "s3.secret-access-key": "hunter2"}, {"type": "rest"}),
        ({"type": "rest", "credential": "id:hunter2", "scope": "all"}, {"type": "rest", "scope": "all"}),
        ({"type": "rest", "something-new": "hunter2"}, None),
    ],
)
def test_only_what_is_harmless_is_written_down(properties: dict[str, str], told: dict[str, str] | None) -> None:
    assert describable(properties) == told
    sink = IcebergSink(catalog=properties, table="ns.t")
    assert "hunter2" not in repr(sink)
    assert "hunter2" not in str(sink.describe())
    assert (sink.describe() is None) == (told is None)


@pytest.mark.parametrize(
    "properties",
    [
        {"uri": "postgresql://me:hunter2@db/c"},
        {"uri": "postgresql://me:hunter%32@db/c"},
        {"uri": "postgresql://db/c?password=hunter2"},
        {"uri": "sqlite:///x", "token": "hunter2"},
        {"uri": "http://x", "something-new": "hunter2"},
    ],
)
def test_a_library_s_error_is_told_without_them(properties: dict[str, str]) -> None:
    told = redacted(f"cannot connect with {properties}: no user me with hunter2", properties)
    assert "hunter" not in told
    assert told.startswith("cannot connect with")


def test_a_catalogue_that_does_not_answer_is_unreachable_and_quotes_nothing(tmp_path: Path) -> None:
    secret = "hunter2"
    sink = IcebergSink(
        catalog={"type": "sql", "uri": f"sqlite:///{tmp_path}/no/such/folder/c.db", "s3.secret-access-key": secret},
        table="ns.t",
    )
    with pytest.raises(SinkUnreachable, match="does not answer") as caught:
        sink.open(OWNER)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert secret not in str(caught.value)


def test_properties_that_make_no_catalogue_are_refused_and_not_quoted() -> None:
    sink = IcebergSink(catalog={"type": "nonsense", "token": "hunter2"}, table="ns.t")
    with pytest.raises(TargetUnusable, match="catalog properties are not usable") as caught:
        sink.open(OWNER)
    assert "hunter2" not in str(caught.value)
