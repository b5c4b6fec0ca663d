"""Where a home says that its sinks are: shown, and confirmed before anything is connected.

A home is a folder of files, and its checksums have no key: whoever can write there can name another server, which would
then be given your password. So a person looks at the destinations, or a script names the code of those it expects.
"""

import hashlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.output import progress
from onceward.errors import DestinationUnconfirmed
from onceward.terminal import one_line

if TYPE_CHECKING:
    from onceward.pipeline.reviving import Revival

CODE_LENGTH: Final = 16

ConfirmOption = Annotated[
    str | None,
    typer.Option(
        "--confirm",
        metavar="CODE",
        help="The code of the destinations that the home names, as this command shows it: for scripts.",
        show_default=False,
    ),
]


def lines_of(found: "Sequence[Revival]") -> list[str]:
    """A line for each sink, without anything that a terminal would act on."""
    return [one_line(f"{it.name}: {it.destination}") for it in found]


def code_of(found: "Sequence[Revival]") -> str:
    """Changes whenever a destination changes, so that a script's consent is to these and no others."""
    return hashlib.sha256("\n".join(lines_of(found)).encode()).hexdigest()[:CODE_LENGTH]


def require_confirmed(found: "Sequence[Revival]", code: str | None) -> None:
    """Ask, where somebody is there to answer; otherwise the code decides."""
    if not found or code == code_of(found):
        return
    told = "\n".join(f"  {line}" for line in lines_of(found))
    how = f"If these are yours, say --confirm {code_of(found)}, or take the sinks from your own file: --file FILE.py"
    if code is not None:
        raise DestinationUnconfirmed(
            f"--confirm {one_line(code)} is not the code of what the home names now:\n{told}\n{how}"
        )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise DestinationUnconfirmed(
            f"the home names these destinations, and nobody has confirmed them:\n{told}\nNothing was connected. {how}"
        )
    progress(f"The home names these destinations:\n{told}")
    if not typer.confirm("Are they yours? They get the credentials that your environment has for them", err=True):
        raise DestinationUnconfirmed("not confirmed: nothing was connected")
