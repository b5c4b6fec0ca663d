"""Every command that takes a home or a savepoint says in a line or two why it cannot be one: no traceback."""

import errno
from pathlib import Path
from typing import Any

import pytest

from onceward.cli import main
from support.places import USELESS

COMMANDS = (
    ("epochs", "HOME"),
    ("in-doubt", "HOME"),
    ("resolve", "HOME"),
    ("savepoint", "create", "HOME"),
    ("savepoint", "list", "HOME"),
    ("savepoint", "inspect", "HOME"),
    ("savepoint", "verify", "HOME"),
    ("savepoint", "delete", "HOME", "--yes"),
    ("snapshot", "create", "HOME"),
    ("snapshot", "show", "HOME"),
    ("snapshot", "verify", "HOME"),
    ("ui", "HOME", "--json"),
)


@pytest.mark.parametrize("useless", USELESS)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_ends_in_a_traceback(
    words: tuple[str, ...],
    useless: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """I4."""
    with useless(tmp_path) as home:
        monkeypatch.setattr("sys.argv", ["onceward", *(str(home) if it == "HOME" else it for it in words)])
        try:
            main.main()
            code: Any = 0
        except SystemExit as ended:
            code = ended.code
    said = capsys.readouterr()
    assert code == 1 or (code == 0 and "--json" in words), said.err
    assert "Traceback" not in said.err
    if code:
        assert said.err.startswith("onceward: ")
        assert str(tmp_path) in said.err
        assert len(said.err.splitlines()) <= 2


def test_another_file_that_is_missing_is_a_bug_and_shows_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "/elsewhere/of/ours")

    monkeypatch.setattr(main, "app", broken)
    monkeypatch.setattr("sys.argv", ["onceward", "epochs", str(tmp_path / "home")])
    with pytest.raises(FileNotFoundError):
        main.main()
