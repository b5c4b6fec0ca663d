"""Two queries compared, as far as their state depends on them (E9)."""

import pytest

from epoch.memory import Memory
from onceward.epoch.query_shape import FILE, OperatorShape, QueryShape, differences, read, write

SUM = OperatorShape(name="Aggregate", keys=["customer string"], details=["sum(cents): bigint"])
JOIN = OperatorShape(name="Join", keys=["id bigint"])
ONCE = OperatorShape(name="Deduplicate", keys=["id bigint", "at timestamp"])
TOPIC = "kafka subscribe=orders"


def query(*operators: OperatorShape, sources: tuple[str, ...] = (TOPIC,), mode: str = "append") -> QueryShape:
    return QueryShape(sources=[*sources], operators=[*operators], output_mode=mode)


def keyed(*keys: str) -> OperatorShape:
    return OperatorShape(name="Aggregate", keys=[*keys], details=SUM.details)


def keeping(*details: str) -> OperatorShape:
    return OperatorShape(name="Aggregate", keys=SUM.keys, details=[*details])


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (query(SUM, JOIN), query(SUM, JOIN)),
        (query(SUM), query(SUM, sources=("kafka subscribe=orders,returns",))),
        (query(), query(mode="update")),
    ],
    ids=["the same", "one more topic", "another output mode without state"],
)
def test_what_the_state_does_not_depend_on_may_change(was: QueryShape, now: QueryShape) -> None:
    """E9."""
    assert differences(was, now) == []


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (query(SUM, JOIN), query(JOIN), "operator 0, Aggregate by customer string, is missing"),
        (query(JOIN), query(JOIN, ONCE), "there is an additional operator 1, Deduplicate by id bigint, at timestamp"),
        (query(SUM), query(JOIN), "operator 0 was Aggregate by customer string, now Join by id bigint"),
        (
            query(SUM),
            query(keyed("customer string", "day date")),
            "operator 0 was Aggregate by customer string, now Aggregate by customer string, day date",
        ),
        (
            query(SUM),
            query(keyed("customer bigint")),
            "a key of operator 0, Aggregate, was customer string, now customer bigint",
        ),
        (
            query(SUM),
            query(keeping("sum(cents): bigint", "count(): bigint")),
            "operator 0, Aggregate, had nothing else, now count(): bigint",
        ),
        (query(SUM), query(keeping()), "operator 0, Aggregate, had sum(cents): bigint, now not"),
        (
            query(keeping("a", "b")),
            query(keeping("b", "a")),
            "operator 0, Aggregate, keeps the same in another order: b; a",
        ),
        (
            query(SUM),
            query(SUM, mode="update"),
            "the output mode was append, now update: other rows would come out again",
        ),
        (query(), query(sources=(TOPIC, "rate")), "there is an additional source 1, rate"),
        (query(sources=(TOPIC, "rate")), query(), "source 1, rate, is missing"),
        (
            query(),
            query(sources=("kafka subscribe=returns",)),
            "source 0 was kafka subscribe=orders, now kafka subscribe=returns",
        ),
        (query(), query(sources=("rate",)), "source 0 was kafka subscribe=orders, now rate"),
    ],
)
def test_what_would_misread_the_state_is_told(was: QueryShape, now: QueryShape, told: str) -> None:
    """E9."""
    assert differences(was, now) == [told]


def test_an_operator_without_keys_is_told_by_its_name() -> None:
    assert differences(query(OperatorShape(name="Limit")), query()) == ["operator 0, Limit, is missing"]


def test_a_home_keeps_the_last_starts_shape() -> None:
    storage = Memory()
    assert read(storage.read("query.json")) is None
    write(storage, query(SUM))
    first = storage.files["query.json"]
    write(storage, query(SUM))
    assert storage.files["query.json"] is first
    write(storage, query(JOIN))
    assert read(storage.read("query.json")) == query(JOIN)


def test_a_note_that_another_driver_left_lasts_before_it_is_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """E9: its disk may have said no after the write; a power cut would take the note, and the home would be refused."""
    notes, synced = Memory(), list[str]()
    monkeypatch.setattr(notes, "sync", synced.append)
    shape = QueryShape(sources=["kafka subscribe=in"])
    write(notes, shape)
    write(notes, shape)
    assert synced == [FILE]
