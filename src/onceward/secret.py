"""Secrets by reference: a setting may say where its value is kept, and each process looks it up when it connects.

    ${env:NAME}      an environment variable of the process that connects
    ${file:/path}    a file on the machine that connects; one line end after the value is not part of it

Only settings that hold secrets are looked up, so that nothing else can name a variable and send it somewhere. What
they hold is known to this process from then on, and hidden in whatever is shown or sent (`without_secrets`).
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus

from onceward.errors import SecretUnavailable

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]+)\}")
HIDDEN: Final = "***"
_WORDS: Final = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|credential|private[._-]?key|(?:access|api|account)[._-]?key|jaas"
    r"|keystore[._-]key|key[._-]pem"
)
_TELLING: Final = re.compile(_WORDS, re.IGNORECASE)
# name=value and name: value, as connection strings, options and error messages write them; a reference is none.
_NAMED: Final = re.compile(
    rf"(?P<name>(?:{_WORDS})[\w.-]{{0,40}}[\"']?)(?P<is>\s{{0,3}}[=:]\s{{0,3}})"
    r"(?!\s|[\"']?\$\{(?:env|file):|\*\*\*)(?:'[^']*'|\"[^\"]*\"|[^\s&;,)}\]]+)",
    re.IGNORECASE,
)
# One setting may hold several, quoted as Java's clients read them: JAAS.
_WITHIN: Final = re.compile(rf"(?:{_WORDS})[\w.-]{{0,40}}\s{{0,3}}=\s{{0,3}}\"((?:[^\"\\]|\\.)*)\"", re.IGNORECASE)
_SWITCHES: Final = frozenset({"true", "false"})
KNOWN_FROM: Final = 4  # characters: what is shorter is found in any text
WITHIN_WORDS_FROM: Final = 8  # what is shorter is hidden where it stands alone
_IN_URL: Final = re.compile(r"(://[^\s:/@]*:)[^\s@/]+@")


class Exposure(IntEnum):
    """What somebody learns who reads what travels to tasks."""

    NOTHING = 0
    REFERENCES = 1
    CLEAR = 2

    @classmethod
    def of(cls, values: Iterable[str]) -> "Exposure":
        """Of the settings that hold secrets."""
        return max((cls.REFERENCES if is_reference(it) else cls.CLEAR for it in values if it), default=cls.NOTHING)


class Reference(NamedTuple):
    """Where a secret is kept."""

    kind: str  # "env" or "file"
    name: str


def reference_of(value: str) -> Reference:
    """The parts of a reference."""
    found = _REFERENCE.fullmatch(value)
    assert found is not None, "no reference"
    return Reference(*found.groups())


def is_reference(value: str) -> bool:
    """Whether it says where the secret is, and is none itself."""
    return _REFERENCE.fullmatch(value) is not None


def looked_up(settings: Mapping[str, Any], secret: Collection[str]) -> dict[str, Any]:
    """The settings with those that refer to a secret replaced by it."""
    found = {name: _value(name, str(it)) if name in secret else it for name, it in settings.items()}
    remember(found, secret)
    return found


def remember(settings: Mapping[str, Any], secret: Collection[str] | None = None) -> None:
    """What these settings hold is hidden from now on; a value that stands in the open, too, is none.

    secret: which of them; without it, those with telling names, but for switches.
    """
    if secret is None:
        secret = [name for name, it in settings.items() if _TELLING.search(name) and str(it).lower() not in _SWITCHES]
    in_the_open = {str(it) for name, it in settings.items() if name not in secret}
    values = {str(settings[name]) for name in secret if settings.get(name)}
    values |= {re.sub(r"\\(.)", r"\1", quoted) for value in values for quoted in _WITHIN.findall(value)}
    _known.add(value for value in values - in_the_open if len(value) >= KNOWN_FROM and not is_reference(value))


class _Known:
    """The secrets of this process, as one expression that finds them."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._expression: re.Pattern[str] | None = None

    def add(self, values: Iterable[str]) -> None:
        new = set(values) - self._values
        if new:
            self._values |= new
            forms = {form for it in self._values for form in _forms(it)}
            alone = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"
            each = (
                re.escape(it) if len(it) >= WITHIN_WORDS_FROM else alone.format(re.escape(it))
                for it in sorted(forms, key=len, reverse=True)
            )
            self._expression = re.compile("|".join(each))

    def hide(self, text: str) -> str:
        return self._expression.sub(HIDDEN, text) if self._expression is not None else text


_known: Final = _Known()


def _forms(value: str) -> tuple[str, ...]:
    """As it is, and as URLs, Python and JSON write it."""
    as_json = (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    return (value, quote(value, safe=""), quote_plus(value), repr(value)[1:-1], *as_json)


def _value(name: str, text: str) -> str:
    if not is_reference(text):
        return text
    kind, place = reference_of(text)
    if kind == "env":
        if (value := os.environ.get(place)) is None:
            raise SecretUnavailable(
                f"setting {name} is {text}, and this process has no environment variable {place}; on a cluster every "
                "executor needs it, too"
            )
        return value
    try:
        return Path(place).read_text("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise SecretUnavailable(
            f"setting {name} is {text}, and the file cannot be read: {reason}; on a cluster every executor "
            "needs it, too"
        ) from None


def without_secrets(value: Any) -> Any:
    """A copy for others' eyes: what is a secret of this process, and what looks like one, is `***`.

    In texts, and under telling names at any depth. What homes and errors hold should have none: this is for those that
    were written by somebody else's sink, database or function.
    """
    if isinstance(value, str):
        return _IN_URL.sub(r"\1***@", _NAMED.sub(r"\g<name>\g<is>***", _known.hide(value)))
    if isinstance(value, Mapping):
        return {
            without_secrets(key) if isinstance(key, str) else key: _hidden(it)
            if _TELLING.search(str(key))
            else without_secrets(it)
            for key, it in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(it) for it in value]
    return value


def _hidden(value: Any) -> Any:
    return value if value is None or (isinstance(value, str) and is_reference(value)) else HIDDEN
