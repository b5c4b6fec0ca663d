"""Names that hold escape sequences and markup are shown as they are, by every command that looks at a home."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from onceward.cli.main import app
from onceward.cli.output import progress, result
from onceward.demo.display import Counts, Display
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, PREPARED, Entry, Ledger, SinkEntry
from onceward.epoch.sealed import seal
from onceward.epoch.term import Start
from onceward.terminal import one_line, plain

ESCAPE = "\x1b[31m\x1b]0;title\x07\x9b2J\r\x08"
MARKUP = "[/red][bold]x[link=http://evil]"
HOSTILE = f"{MARKUP}{ESCAPE}"


def hostile_home(root: Path, phase: str) -> str:
    home = Home.at(root / "home")
    home.storage.replace("pipeline.json", seal(Deed(pipeline=HOSTILE, lineage="L", guarantee=MARKUP)))
    part = SinkEntry(kind=HOSTILE, settings={}, digest=HOSTILE, milliseconds={HOSTILE: 1.0})
    entry = Entry(
        pipeline="p", lineage="L", term=1, epoch=3, phase=phase, positions=[HOSTILE], decider=HOSTILE,
        sinks={HOSTILE: part}, finished_at=HOSTILE, milliseconds={HOSTILE: 1.0},
    )  # fmt: skip
    Ledger(home.storage, {}, "L").write(entry)
    home.storage.replace("terms/000001.start", seal(Start(term=1, after_epoch=9, resolved=[HOSTILE])))
    return home.location


def is_harmless(text: str) -> bool:
    return all(it == "\n" or it.isprintable() for it in text)


@pytest.mark.parametrize("phase", [DONE, PREPARED])
@pytest.mark.parametrize("command", ["epochs", "in-doubt"])
def test_a_hostile_name_in_a_home_is_shown_and_not_acted_on(
    command: str, phase: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    app([command, hostile_home(tmp_path, phase)], standalone_mode=False)
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert "[/red]" in told
    assert r"\x1b[31m" in told


def test_errors_and_progress_are_shown_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    progress(f"onceward: sink {HOSTILE}")
    result({}, HOSTILE, as_json=False)
    told = capsys.readouterr()
    assert is_harmless(told.err + told.out)
    assert MARKUP in told.err
    assert MARKUP in told.out


def test_plain_text_stays_as_it_is() -> None:
    text = "größe 日本 ─│ é 'x' \\ [red]\n\tx"
    assert plain(text) == text
    assert one_line("a\nb\tc\x00\ud800") == r"a\nb\tc\x00\ud800"


@pytest.mark.parametrize("terminal", [False, True])
def test_the_demos_display_takes_nothing_for_markup(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, color_system=None)
    with Display(console, kills=1, contrast=False) as display:
        display.say(HOSTILE)
        display.show(Counts(fed=1, ours=1, sparks=None, kills=1), HOSTILE)
    assert MARKUP in out.getvalue()
    assert r"\x1b[31m" in out.getvalue()
