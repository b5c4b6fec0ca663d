"""What a notebook or a prompt shows."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

import onceward as ow
from onceward.epoch.ledger import DONE, Entry, SinkEntry
from onceward.errors import EpochFailed
from onceward.pipeline.printing import SHOWN, WIDTH, Epochs
from onceward.pipeline.query import Query


def entry(epoch: int, **changes: Any) -> Entry:
    facts: dict[str, Any] = {
        "pipeline": "p",
        "lineage": "l",
        "term": 1,
        "epoch": epoch,
        "phase": DONE,
        "positions": [],
        "sinks": {"kafka": SinkEntry(rows=12), "postgres": SinkEntry(rows=12)},
        "input_rows": 12,
        "finished_at": "2026-11-18T10:00:07.123+00:00",
        "milliseconds": {"begin": 1.5, "write": 40.0},
    }
    return Entry(**{**facts, **changes})


class Away:
    """A Spark that is gone: whoever asks it fails."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked of a Spark that is gone")


def query(failure: BaseException | None = None, *, closed: bool = False) -> Query:
    found = Query.__new__(Query)
    found.name, found.spark_query = "clicks", cast("Any", Away())
    runner = {"failure": failure, "finished": [entry(7)], "epochs_committed": 3, "rows_read": 72}
    found._runner = cast("Any", SimpleNamespace(**runner))
    found._stop = threading.Event()
    found._fenced, found._closed, found._alive = None, closed, True
    return found


def test_epochs_print_as_a_small_table() -> None:
    """I6: rows as the ledger has them, in eighty columns."""
    assert repr(Epochs([entry(7)])).splitlines() == [
        "epoch  rows in  tries  ms  rows out               committed at",
        "    7       12      1  42  kafka 12, postgres 12  2026-11-18 10:00:07",
    ]
    many = Epochs(entry(number) for number in range(30))
    lines = repr(many).splitlines()
    assert lines[0] == "the last 20 of 30 epochs"
    assert len(lines) == SHOWN + 2
    assert max(map(len, lines)) <= WIDTH
    assert repr(Epochs()) == Epochs()._repr_html_() == "no epoch yet"


def test_epochs_are_a_list_also_when_cut() -> None:
    found = Epochs([entry(1), entry(2)])
    assert found == [entry(1), entry(2)]
    assert found[-1].epoch == 2
    assert isinstance(found[:1], Epochs)


def test_a_name_is_no_markup() -> None:
    """Names come from homes: neither HTML nor escape sequences are acted on."""
    found = Epochs([entry(1, sinks={"<script>\x1b[31m": SinkEntry(rows=1)})])
    assert "&lt;script&gt;\\x1b[31m 1" in found._repr_html_()
    assert "<script>\\x1b[31m 1" in repr(found)


@pytest.mark.parametrize(
    ("made", "state"),
    [(query(), "running"), (query(closed=True), "ended"), (query(EpochFailed("by the test")), "failed (EpochFailed)")],
)
def test_a_query_tells_what_is_known_here_and_asks_nobody(made: Query, state: str) -> None:
    """I6: also after its Spark has ended."""
    counted = "3 epochs committed and 72 rows read since its start, last epoch 7 at 2026-11-18 10:00:07"
    assert repr(made) == f"Query('clicks': {state}, {counted})"
    assert made._repr_html_().startswith(f"<b>Query clicks</b><br>{state}<br>3 epochs")


def test_a_pipeline_tells_what_it_was_given() -> None:
    """I6."""
    made = ow.Pipeline("clicks", home="data/<b>", source=cast("Any", Away()))
    assert repr(made) == "Pipeline('clicks': no sink yet, exactly-once, home data/<b>)"
    made.to(ow.FunctionSink(lambda _, __: None, idempotent=True), name="bill")
    assert made._repr_html_() == "<b>Pipeline clicks</b><br>to bill<br>exactly-once<br>home data/&lt;b&gt;"
