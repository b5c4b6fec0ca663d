"""Pages made from the code: the command line's own help, the tree of errors, a list of the decisions, source files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from onceward import errors
from onceward.cli.main import app
from website.links import LICENSE


def pages(root: Path) -> dict[str, str]:
    """By their place on the site."""
    return {
        "reference/command-line.md": command_line(),
        "reference/error-classes.md": error_classes(),
        "decisions/index.md": decisions(root),
        LICENSE: f"# License\n\n```text\n{(root / 'LICENSE').read_text('utf-8')}\n```\n",
    }


def source(path: str, root: Path) -> str:
    # As many backquotes as no source file has in a row.
    return f"# {Path(path).name}\n\n`{path}`\n\n``````python\n{(root / path).read_text('utf-8')}``````\n"


def decisions(root: Path) -> str:
    def title(file: Path) -> str:
        return file.read_text("utf-8").partition("\n")[0].lstrip("# ")

    files = sorted((root / "docs" / "decisions").glob("[0-9]*.md"))
    lines = [f"- [{title(it)}]({it.name})" for it in files]
    about = "Why it is built as it is: each page has what was decided, what else was considered, and the reason."
    return "\n".join(["# Decisions", "", about, "", *lines, ""])


def error_classes() -> str:
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    names = re.findall(r"[├└]── (\w+)", tree)
    classes = [f"::: onceward.errors.{name}\n    options: {{heading_level: 3}}\n" for name in ("OncewardError", *names)]
    about = (
        "Each is a class of `onceward.errors`, so `except ow.errors.PipelineFenced` catches it, and "
        "`except ow.OncewardError` catches all. Causes and ways out: [the index of errors](../errors.md)."
    )
    return "\n".join(["# Error classes", "", about, "", "```text", tree, "```", "", *classes])


def command_line() -> str:
    """Every command with its arguments and options, in the words of its `--help`."""
    top = typer.main.get_command(app)
    assert isinstance(top, TyperGroup)
    about = (
        "Made from the commands' own help. `--json` prints one JSON object as the last line of standard output; "
        "progress goes to standard error. Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 a violation of the guarantee "
        "was found, 4 failed and a restart does not help."
    )
    return "\n".join(["# Command line", "", about, "", *_commands(top, "onceward", 2)])


def _commands(group: TyperGroup, path: str, level: int) -> Iterator[str]:
    for name in sorted(group.commands):
        command, full = group.commands[name], f"{path} {name}"
        if command.hidden:
            continue
        yield from (f"{'#' * level} {full}", "", _help(command.help), "")
        if isinstance(command, TyperGroup):
            yield from _commands(command, full, level + 1)
        else:
            yield from _usage(command, full)


def _usage(command: Any, full: str) -> Iterator[str]:  # typer does not export its base class
    context = typer.Context(command, info_name=full)
    yield from ("```sh", " ".join([full, *command.collect_usage_pieces(context)]), "```", "")
    rows = [row for it in command.get_params(context) if (row := it.get_help_record(context)) and row[0] != "--help"]
    if rows:
        yield from ("| argument, option | |", "|---|---|")
        # A vertical line in code is no cell's end, and a backslash before it would show.
        yield from (f"| `{' '.join(name.split())}` | {_cell(text)} |" for name, text in rows)
        yield ""


def _help(said: str | None) -> str:
    return re.sub(r"\s*\n\s*", " ", (said or "").partition("\f")[0].strip()).replace("<", "&lt;")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
