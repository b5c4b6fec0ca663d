"""What the demo says while it runs is what it does."""

import io

import pytest
from rich.console import Console

from onceward.demo import display
from onceward.demo.display import Counts, Display


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(("sparks", "named"), [(7, True), (None, False)])
def test_sparks_own_sinks_are_shown_only_where_they_run(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool, sparks: int | None, named: bool
) -> None:
    """F5: nobody may read our count as theirs."""
    monkeypatch.setattr(display, "LINE_EVERY_S", -1.0)
    told = io.StringIO()
    console = Console(file=told, force_terminal=terminal, width=200)
    with Display(console, kills=2, contrast=sparks is not None) as shown:
        shown.expect(fed=10, visible=10)
        shown.show(Counts(fed=5, ours=4, sparks=sparks, kills=1), "running")
    assert ("Spark's own sinks" in told.getvalue()) is named
    assert "Onceward" in told.getvalue()
